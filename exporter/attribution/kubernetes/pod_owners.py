"""Pods of this node: the names of those that run, and what each was allocated."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeVar

from exporter.attribution.cgroup import Cgroup, parse_path
from exporter.attribution.devices import Devices
from exporter.attribution.kubernetes.allocations import (
    MIG_PLACE,
    AllocationResolver,
    EffectiveAllocations,
    PodAllocations,
    pod_allocations,
)
from exporter.attribution.kubernetes.owner_objects import PodRoots
from exporter.attribution.kubernetes.pod import PodName
from exporter.attribution.kubernetes.root import PodPlace, TopLevelOwner, nameless_pod, pod_info, pod_owner
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesView, PodNames
from exporter.attribution.owner import EXACT, INFERRED, Owner, WorkloadInfo
from exporter.attribution.source import Amounts, FirstSeen, ProcessGroup, ProcessIndex, View, by_pid, named
from exporter.core.clock import MonotonicTime

K = TypeVar("K")

_NESTED = re.compile("[0-9a-f]{64}")
"""Id of a container in the path of a pod's cgroup: a kubelet of its own runs in it, with its socket."""


@dataclass(frozen=True, slots=True)
class PodOwnersSnapshot:
    """Pods of one sampling cycle. `places` is by (pod uid, container id), without those that have no name (yet)."""

    view: KubernetesView
    listed: PodAllocations
    """The kubelet's list."""
    effective: EffectiveAllocations
    places: Mapping[tuple[str, str], PodPlace]
    waiting: AbstractSet[str]
    """Uids whose name may still come."""
    uids: Mapping[PodName, str]
    inferred: frozenset[str]
    owners: Mapping[PodName, TopLevelOwner]
    """Owners of pods that run or have an allocation; a pod without one waits for its owners' names."""
    conflicts: int

    def place(self, cgroup: Cgroup) -> PodPlace | None:
        return self.places.get((cgroup.pod, cgroup.container))

    def owner(self, place: PodPlace) -> Owner | None:
        """Return the owner; None while the name of its workload is being asked for."""
        root = self.owners.get(place.pod_name)
        return pod_owner(place, root) if root else None

    def info(self, owner: Owner) -> WorkloadInfo:
        name = (owner.namespace, owner.pod)
        uid = self.uids.get(name, "") or owner.workload.removeprefix("pod:")
        trust = INFERRED if uid in self.inferred or name in self.effective.disputed else EXACT
        pod, known_uid = self.view.pods.get(uid), uid if "/" not in uid else ""
        return pod_info(pod, known_uid, owner.container, trust, self.owners.get(name))

    def may_have_more(self, owner: Owner) -> bool:
        """Return whether a pod may have more than the kubelet lists: unless it requests exactly what is listed."""
        pod = self.view.pods.get(self.uids.get(owner.pod_name, ""))
        if pod is None or self.view.silent or owner.pod_name in self.effective.disputed:
            return True
        return pod.requested_devices != self.listed.listed.get(owner.pod_name, 0)


class PodOwners:
    """Names and allocations of pods. Remembers the names."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self.readers = kubernetes.readers
        self._names = PodNames()
        self._roots = PodRoots(kubernetes.owner_objects)
        self._resolver = AllocationResolver()
        self._first = FirstSeen()
        self._last_places: Mapping[tuple[str, str], PodPlace] = {}
        self._devices = Devices(())
        """Devices of the cycle before: the names of the DRA driver mean others in another MIG layout."""

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        view = self._kubernetes.view(now)
        index = of_this_kubelet(processes, {*view.pods, *view.logged})
        pods = self._join_pods(index, view, now)
        found = [(group, _pod_owner(group.cgroup, pods)) for group in index.groups if group.cgroup.pod]
        known = ((path, pods.place(cgroup)) for path, cgroup in index.places.items() if cgroup.pod)
        allocated = {owner: amounts for place, amounts in pods.effective.given.items() if (owner := pods.owner(place))}
        owners = {*allocated, *(owner for _, owner in found if owner)}
        return View(
            names=by_pid(found),
            places={path: named(pods.owner(place)) for path, place in known if place},
            allocated=allocated,
            offered=frozenset(each.uuid for name in view.allocatable for each in index.devices.find(name)),
            info={owner: pods.info(owner) for owner in owners},
            cgroups=_own_cgroups(found),
            unsure=frozenset(owner for owner in owners if pods.may_have_more(owner)),
            health=self._kubernetes.health(now, pods.conflicts, pods.listed.unresolved),
            ended={
                "/".join((*pod.pod_name, container)): pod.finished
                for pod in view.pods.values()
                for container, _ in pod.containers.values()
                if pod.finished is not None
            },
        )

    def _join_pods(self, index: ProcessIndex, view: KubernetesView, now: MonotonicTime) -> PodOwnersSnapshot:
        listed = pod_allocations(view, index.devices)
        relaid, self._devices = view.claimable and index.devices is not self._devices, index.devices
        if listed.unresolved[MIG_PLACE] or relaid:
            self._kubernetes.ask_claimable()
        holders, running = _pods_by_target(listed), _targets_by(index, lambda cgroup: cgroup.pod)
        if any(group.cgroup.pod and not _NESTED.search(group.cgroup.pod_path) for group in index.groups):
            self._kubernetes.expect()
        self._names.learn(view, running, holders, now)
        recent = self._first.recent(running, now)
        waiting = {uid for uid in recent if self._names.name(uid) is None}
        if waiting:
            self._kubernetes.wake()
        known = {uid: name for uid in running if (name := self._names.name(uid))}
        idle = {pod.pod_name: uid for uid, pod in view.pods.items()}
        cgroups = (*(group.cgroup for group in index.groups), *index.places.values())
        wanted = {(cgroup.pod, cgroup.container) for cgroup in cgroups if cgroup.pod}
        places = self._places(wanted, view, listed.given)
        by_name = {pod.pod_name: pod for pod in view.pods.values()}
        by_place = _targets_by(index, lambda cgroup: places.get((cgroup.pod, cgroup.container)))
        effective = self._resolver.resolve(listed, by_place, by_name)
        present = {*known.values(), *(place.pod_name for place in effective.given)}
        pods = {name: view.pods[idle[name]] if name in idle else None for name in present}
        elsewhere = sum(
            bool(holders.get(uuid)) and name not in holders[uuid]
            for uid, name in known.items()
            for uuid in running[uid]
        )
        return PodOwnersSnapshot(
            view=view,
            listed=listed,
            effective=effective,
            places=places,
            waiting=waiting,
            uids=idle | {name: uid for uid, name in known.items()},
            inferred=self._names.inferred,
            owners=self._roots.of(pods, now, may_come=self._kubernetes.may_learn_pods),
            conflicts=elsewhere + effective.conflicts,
        )

    def _places(
        self, wanted: Collection[tuple[str, str]], view: KubernetesView, given: Mapping[PodPlace, Amounts]
    ) -> Mapping[tuple[str, str], PodPlace]:
        """Return pods and containers by cgroup: by the API server, else the only container with a device.

        While neither reports it, as of a deleted pod, it is what it was.
        """
        containers: dict[PodName, set[str]] = defaultdict(set)
        for place in given:
            containers[place.pod_name].add(place.container)
        found: dict[tuple[str, str], PodPlace] = {}
        for key in wanted:
            pod = view.pods.get(key[0])
            name = self._names.name(key[0]) or view.logged.get(key[0]) or (pod and pod.pod_name)
            if name:
                known, before = pod.containers.get(key[1]) if pod else None, self._last_places.get(key)
                only = next(iter(containers[name])) if len(containers[name]) == 1 else ""
                last = before.container if before and before.pod_name == name else ""
                found[key] = PodPlace(*name, known[0] if known else only or last)
        self._last_places = found
        return found


class PodCgroups:
    """Pods by the uids in their cgroups, where no kubelet is asked."""

    readers = ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        found = [(group, nameless_pod(group.cgroup.pod)) for group in processes.groups if group.cgroup.pod]
        return View(
            names=by_pid(found),
            info={owner: pod_info(None, group.cgroup.pod, "", EXACT, None) for group, owner in found},
            cgroups=_own_cgroups(found),
            unsure=frozenset(owner for _, owner in found),
        )


def _pod_owner(cgroup: Cgroup, pods: PodOwnersSnapshot) -> Owner | None:
    """Return the owner of what runs in a pod; None while a name is being asked for."""
    place = pods.place(cgroup)
    if place:
        return pods.owner(place)
    return None if cgroup.pod in pods.waiting else nameless_pod(cgroup.pod)


def _own_cgroups(found: Iterable[tuple[ProcessGroup, Owner | None]]) -> Mapping[Owner, str]:
    """Return the cgroup of each owner: its container's, or the pod's if it has several containers."""
    paths: dict[Owner, str] = {}
    for group, owner in found:
        if owner:
            own = group.cgroup.container_path if owner.container else group.cgroup.pod_path
            if paths.setdefault(owner, own) != own:
                paths[owner] = group.cgroup.pod_path
    return paths


def _pods_by_target(listed: PodAllocations) -> Mapping[str, set[PodName]]:
    """Return the pods that the kubelet lists, by target."""
    found: dict[str, set[PodName]] = defaultdict(set)
    for place, amounts in listed.given.items():
        for uuid in amounts:
            found[uuid].add(place.pod_name)
    return found


def _targets_by(index: ProcessIndex, key_of: Callable[[Cgroup], K | None]) -> Mapping[K, set[str]]:
    """Return the targets on which each pod, or place, runs something of its own."""
    found: dict[K, set[str]] = defaultdict(set)
    for group in index.groups:
        if key := key_of(group.cgroup):
            found[key] |= set[str]() if group.serves_clients else group.targets
    return found


def of_this_kubelet(index: ProcessIndex, known: Collection[str]) -> ProcessIndex:
    """Return the index with each process in its outer pod, unless the inner one's uid is among the `known` ones.

    A cluster inside of a pod (k3s, kind) has a kubelet of its own. This node's kubelet only knows the outer pod.
    """
    if not any(each.nested_in for each in (*(group.cgroup for group in index.groups), *index.places.values())):
        return index
    return replace(
        index,
        groups=[replace(group, cgroup=_pod_of_this_kubelet(group.cgroup, known)) for group in index.groups],
        places={path: _pod_of_this_kubelet(cgroup, known) for path, cgroup in index.places.items()},
    )


def _pod_of_this_kubelet(cgroup: Cgroup, known: Collection[str]) -> Cgroup:
    outer = parse_path(cgroup.nested_in)
    if not outer.pod or cgroup.pod in known or (known and outer.pod not in known):
        return cgroup
    return replace(
        cgroup,
        pod=outer.pod,
        pod_path=outer.pod_path,
        container=outer.container,
        runtime=outer.runtime,
        container_path=outer.container_path,
    )
