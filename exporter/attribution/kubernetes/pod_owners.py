"""Pods in one pass: the names of those that run, and what each was given."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution import naming
from exporter.attribution.allocations import MIG_PLACE, Amounts, PodAllocations, pod_allocations
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.kubernetes.effective_allocations import AllocationResolver
from exporter.attribution.kubernetes.nested import of_this_kubelet
from exporter.attribution.kubernetes.pod_roots import PodRoots
from exporter.attribution.kubernetes.root import Root
from exporter.attribution.kubernetes.source import POD_RESOURCES, Kubernetes, KubernetesView, PodName, PodNames
from exporter.attribution.naming import PodPlace
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessIndex

_NESTED = re.compile("[0-9a-f]{64}")
"""In the path of a pod's cgroup: a container that a kubelet of its own runs in. That one's socket is not here."""


@dataclass(frozen=True, slots=True)
class PodsNow:
    """What one pass knows of pods. `places` is by (pod uid, container id); what is not in it has no name (yet)."""

    given: Mapping[PodPlace, Amounts] = field(default_factory=dict[PodPlace, Amounts])
    places: Mapping[tuple[str, str], PodPlace] = field(default_factory=dict[tuple[str, str], PodPlace])
    waiting: frozenset[str] = frozenset()
    """Uids whose name may yet come."""
    uids: Mapping[PodName, str] = field(default_factory=dict[PodName, str])
    inferred: frozenset[str] = frozenset()
    view: KubernetesView = field(default_factory=KubernetesView)
    roots: Mapping[PodName, Root] = field(default_factory=dict[PodName, Root])
    """Of the pods that run or were given something; one that is not in it waits for its owners' names."""
    offered: frozenset[str] = frozenset()
    """Uuids of what the kubelet gives out, to whomever."""
    listed: PodAllocations = field(default_factory=PodAllocations)
    """What the kubelet says it gave to whom."""
    disputed: frozenset[PodName] = frozenset()
    """Pods of which the kubelet's list and running processes do not agree."""
    conflicts: Mapping[str, int] = field(default_factory=dict[str, int])
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    open: bool = False
    """Whether more may come to be known of the same pods."""

    def place(self, cgroup: Cgroup) -> PodPlace | None:
        return self.places.get((cgroup.pod, cgroup.container))

    def owner(self, place: PodPlace) -> Owner | None:
        """None while the name of its workload is being asked for."""
        root = self.roots.get((place.namespace, place.pod))
        return naming.pod_owner(place, root) if root else None

    def info(self, owner: Owner) -> WorkloadInfo:
        name = (owner.namespace, owner.pod)
        uid = self.uids.get(name, "") or owner.workload.removeprefix("pod:")
        trust = naming.INFERRED if uid in self.inferred or name in self.disputed else naming.EXACT
        pod, known_uid = self.view.pods.get(uid), uid if "/" not in uid else ""
        return naming.pod_info(pod, known_uid, owner.container, trust, self.roots.get(name))

    def may_hold(self, owner: Owner) -> bool:
        """Return whether a pod can have been given more than the kubelet lists.

        It cannot where the API server knows the pod and it asks for exactly what is listed.
        """
        pod = self.view.pods.get(self.uids.get(owner.pod_name, ""))
        if pod is None or self.view.silent or owner.pod_name in self.disputed:
            return True
        return pod.requested_devices != self.listed.listed.get(owner.pod_name, 0)


class PodOwners:
    """Joins pods; keeps the names it has learned."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self._names = PodNames()
        self._roots = PodRoots(kubernetes.owner_objects)
        self._resolver = AllocationResolver()
        self._first = FirstSeen()

    def outward(self, index: ProcessIndex) -> ProcessIndex:
        """The index with processes of clusters inside of pods in the pod that this node's kubelet knows."""
        view = self._kubernetes.view(index.now)
        return of_this_kubelet(index, {*view.pods, *view.logged})

    def join(self, index: ProcessIndex, quiet: Iterable[Cgroup] = ()) -> PodsNow:
        """`quiet` are cgroups, perhaps in pods, whose place is wanted although nothing of them is on a GPU."""
        view = self._kubernetes.view(index.now)
        listed = pod_allocations(view, index.devices)
        if listed.unresolved[MIG_PLACE]:
            self._kubernetes.ask_claimable()
        holders, running = _holders(listed), _running_by_uid(index)
        if any(group.cgroup.pod and not _NESTED.search(group.cgroup.pod_path) for group in index.groups):
            self._kubernetes.expect()
        self._names.learn(view, running, holders, index.now)
        self._first.update(running, index.now)
        unknown = {uid for uid in running if self._names.name(uid) is None}
        waiting = frozenset(uid for uid in unknown if self._first.age(uid, index.now) < HOLD_SECONDS)
        if waiting:
            self._kubernetes.wake()
        named = {uid: name for uid in running if (name := self._names.name(uid))}
        idle = {(pod.namespace, pod.name): uid for uid, pod in view.pods.items()}
        places = self._places({*_places_of(index), *((each.pod, each.container) for each in quiet)}, view, listed.given)
        known = {(pod.namespace, pod.name): pod for pod in view.pods.values()}
        effective = self._resolver.resolve(listed, _running(index, places), known)
        present = {*named.values(), *((place.namespace, place.pod) for place in effective.given)}
        pods = {name: view.pods[idle[name]] if name in idle else None for name in present}
        roots = self._roots.of(pods, index.now, may_come=self._kubernetes.may_learn_pods)
        return PodsNow(
            given=effective.given,
            places=places,
            waiting=waiting,
            uids=idle | {name: uid for uid, name in named.items()},
            inferred=self._names.inferred,
            view=view,
            roots=roots,
            offered=frozenset(each.uuid for name in view.allocatable for each in index.devices.find(name)),
            listed=listed,
            disputed=effective.disputed,
            conflicts={POD_RESOURCES: _elsewhere(running, named, holders) + effective.conflicts},
            unresolved=listed.unresolved,
            open=bool(waiting or listed.unresolved[MIG_PLACE] or self._roots.open),
        )

    def _places(
        self, wanted: Collection[tuple[str, str]], view: KubernetesView, given: Mapping[PodPlace, Amounts]
    ) -> Mapping[tuple[str, str], PodPlace]:
        containers: dict[PodName, set[str]] = defaultdict(set)
        for place in given:
            containers[place.namespace, place.pod].add(place.container)
        found: dict[tuple[str, str], PodPlace] = {}
        for key in wanted:
            pod = view.pods.get(key[0])
            name = self._names.name(key[0]) or view.logged.get(key[0]) or (pod and (pod.namespace, pod.name))
            if name:
                found[key] = PodPlace(*name, _container(view, key, containers[name]))
        return found


def _places_of(index: ProcessIndex) -> Iterable[tuple[str, str]]:
    return ((group.cgroup.pod, group.cgroup.container) for group in index.groups if group.cgroup.pod)


def _holders(listed: PodAllocations) -> Mapping[str, set[PodName]]:
    """Return the pods that the kubelet lists, by target."""
    found: dict[str, set[PodName]] = defaultdict(set)
    for place, amounts in listed.given.items():
        for uuid in amounts:
            found[uuid].add((place.namespace, place.pod))
    return found


def _running_by_uid(index: ProcessIndex) -> Mapping[str, set[str]]:
    """Return the targets on which each pod runs something of its own, by the uid in its cgroups."""
    found: dict[str, set[str]] = defaultdict(set)
    for group in index.groups:
        if group.cgroup.pod:
            found[group.cgroup.pod] |= group.targets if not group.serves_clients else set()
    return found


def _running(index: ProcessIndex, places: Mapping[tuple[str, str], PodPlace]) -> Mapping[PodPlace, set[str]]:
    """Return the targets on which each pod with a name runs something of its own."""
    found: dict[PodPlace, set[str]] = defaultdict(set)
    for group in index.groups:
        place = places.get((group.cgroup.pod, group.cgroup.container))
        if place and not group.serves_clients:
            found[place] |= group.targets
    return found


def _container(view: KubernetesView, key: tuple[str, str], given: set[str]) -> str:
    """By the API server's word, else the only container of the pod that was given a device."""
    pod = view.pods.get(key[0])
    exact = pod.containers.get(key[1]) if pod else None
    if exact:
        return exact[0]
    return next(iter(given)) if len(given) == 1 else ""


def _elsewhere(
    running: Mapping[str, set[str]], named: Mapping[str, PodName], holders: Mapping[str, set[PodName]]
) -> int:
    """Devices that a pod runs on although they were given to others."""
    return sum(
        1 for uid, name in named.items() for uuid in running[uid] if holders.get(uuid) and name not in holders[uuid]
    )
