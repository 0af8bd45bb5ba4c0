"""Allocations of pods, where the kubelet's list, the API server and running processes do not agree.

The kubelet lists pods that have ended (before Kubernetes 1.34), pods that only reserve a GPU for others, claims of
monitors (`adminAccess`), and slots of schedulers that choose the GPU themselves. Running processes have the last word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from exporter.attribution.devices import DeviceName, Devices
from exporter.attribution.kubernetes.pod import Pod, PodName
from exporter.attribution.kubernetes.root import PodPlace
from exporter.attribution.kubernetes.source import KubernetesView
from exporter.attribution.owner import NOT_HERE
from exporter.attribution.source import Amounts

PodTarget = tuple[PodName, str]
"""A pod, and the uuid of a target."""

UNKNOWN_ID, MIG_PLACE = "unknown_id", "mig_placement"
REASONS: tuple[str, ...] = (UNKNOWN_ID, MIG_PLACE, NOT_HERE)


@dataclass(frozen=True, slots=True)
class PodAllocations:
    """The kubelet's list by pod, on the targets of this node."""

    given: Mapping[PodPlace, Amounts] = field(default_factory=dict[PodPlace, Amounts])
    exclusive: Mapping[PodTarget, str] = field(default_factory=dict[PodTarget, str])
    """Targets that were allocated whole to a pod, with the claim: empty for a device plugin's."""
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of devices that were not found on this node, by each of REASONS."""
    listed: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Number of devices of each pod, found or not."""
    reassigned: frozenset[PodName] = frozenset()
    """Pods with slots for which their scheduler chose other GPUs than the kubelet lists."""


def pod_allocations(view: KubernetesView, devices: Devices) -> PodAllocations:
    """Find the devices of the kubelet's list. Each replica of a shared device counts once."""
    found: dict[PodPlace, Counter[str]] = defaultdict(Counter)
    exclusive: dict[PodTarget, str] = {}
    unresolved = Counter(dict.fromkeys(REASONS, 0))
    listed = Counter((given.namespace, given.pod) for given in view.given)
    for given in view.given:
        place = PodPlace(given.namespace, given.pod, given.container)
        name, uuid = given.device, view.claimable.get(given.device.claimed, "")
        # A UUID of an earlier MIG layout says no more than the name.
        targets = (devices.find(DeviceName(uuid=uuid)) if uuid else ()) or devices.find(name)
        if not targets:
            unresolved[UNKNOWN_ID if name == DeviceName() else MIG_PLACE if name.claimed else NOT_HERE] += 1
        for target in targets:
            found[place][target.uuid] += 1
            if not name.slot:
                exclusive[(given.namespace, given.pod), target.uuid] = given.claim
    slots = {place: dict(counts) for place, counts in found.items()}
    moved = _assigned_devices(slots, exclusive, view, devices)
    reassigned = frozenset(place.pod_name for place in moved)
    return PodAllocations({**slots, **moved}, exclusive, dict(unresolved), dict(listed), reassigned)


def _assigned_devices(
    given: Mapping[PodPlace, Mapping[str, int]],
    exclusive: Mapping[PodTarget, str],
    view: KubernetesView,
    devices: Devices,
) -> Mapping[PodPlace, Amounts]:
    """Return other GPUs of pods with slots, by what their scheduler wrote on them.

    Users can write it as well: a GPU that another pod has whole is left out, and a pod with several containers.
    """
    whole, containers = {uuid for _, uuid in exclusive}, Counter(place.pod_name for place in given)
    pods = {pod.pod_name: pod.assigned_devices for pod in view.pods.values()}
    found: dict[PodPlace, Amounts] = {}
    for place, slots in given.items():
        named = pods.get(place.pod_name, frozenset[str]())
        chosen = {target.uuid for uuid in named for target in devices.find(DeviceName(uuid=uuid))} - whole
        if chosen and chosen != set(slots) and not whole & slots.keys() and containers[place.pod_name] == 1:
            found[place] = dict.fromkeys(chosen, sum(slots.values()) / len(chosen))
    return found


@dataclass(frozen=True, slots=True)
class EffectiveAllocations:
    """Allocations after running processes; `disputed` are the pods whose processes contradict the kubelet's list."""

    given: Mapping[PodPlace, Amounts] = field(default_factory=dict[PodPlace, Amounts])
    disputed: frozenset[PodName] = frozenset()
    conflicts: int = 0
    """Entries of the kubelet's list that running processes contradict."""


class AllocationResolver:
    """Kubelet's list and running processes in one. Remembers what processes have shown while the kubelet lists it."""

    def __init__(self) -> None:
        self._used: AbstractSet[PodTarget] = frozenset()
        """Allocations on which their pod has run."""
        self._refuted: AbstractSet[PodName] = frozenset()
        """Pods whose device ran another pod that has it as well."""

    def resolve(
        self, listed: PodAllocations, running: Mapping[PodPlace, AbstractSet[str]], pods: Mapping[PodName, Pod]
    ) -> EffectiveAllocations:
        """Return the allocations. `running` are the targets of named pods, `pods` those that the API server knows."""
        listed = _shared_by_groups(listed, running, pods)
        ended = {name for name, pod in pods.items() if pod.ended}
        entries = {(place.pod_name, uuid) for place, amounts in listed.given.items() for uuid in amounts}
        entries = {entry for entry in entries if entry[0] not in ended}
        runs = {(place.pod_name, uuid) for place, uuids in running.items() for uuid in uuids}
        on_their_own = {pod for pod, _ in entries & runs}
        self._used = entries & (self._used | runs)
        known = self._refuted & {pod for pod, _ in entries}
        exclusive = listed.exclusive
        whole = entries & exclusive.keys()
        refuted = {  # a device runs another pod that has it whole as well, without a claim in common
            pod
            for pod, uuid in whole
            for other in whole & runs
            if other[1] == uuid and other[0] != pod
            if exclusive[other] != exclusive[pod, uuid] or not exclusive[other]
        }
        self._refuted = (known | refuted) - on_their_own
        # A pod with slots of shared devices that runs on none of them: its scheduler chose another device.
        with_slots = {pod for pod, _ in entries} - {pod for pod, _ in entries & listed.exclusive.keys()}
        moved = (with_slots & {pod for pod, _ in runs}) - on_their_own
        dropped = {entry for entry in entries - runs if entry[0] in self._refuted | moved}
        without_request = {name for name, pod in pods.items() if pod.requested_devices == 0}
        taken = self._taken_targets(entries, entries - dropped, runs, listed.exclusive)
        taken = {entry for entry in taken if entry[0] not in moved | without_request}
        dropped |= {entry for entry in entries if entry[1] in {uuid for _, uuid in taken}}
        added = taken | {entry for entry in runs if entry[0] in moved}
        return EffectiveAllocations(
            given=_effective_allocations(listed, entries - dropped, added, running),
            disputed=listed.reassigned.union(pod for pod, _ in {*dropped, *added}),
            conflicts=len(dropped) + len(listed.reassigned),
        )

    def _taken_targets(
        self,
        entries: AbstractSet[PodTarget],
        standing: AbstractSet[PodTarget],
        runs: AbstractSet[PodTarget],
        exclusive: Mapping[PodTarget, str],
    ) -> AbstractSet[PodTarget]:
        """Return running pods with a GPU that another pod only reserves: allocated whole to that pod, and unused.

        A pod that also runs beside a running listed one is a monitor.
        """
        unlisted = runs - entries
        used = {uuid for _, uuid in standing & self._used}
        busy = {uuid for _, uuid in standing & runs}
        monitors = {pod for pod, uuid in unlisted if uuid in busy}
        slots = {uuid for _, uuid in standing - exclusive.keys()}
        reserved = {uuid for _, uuid in standing} - used - slots
        return {(pod, uuid) for pod, uuid in unlisted if uuid in reserved and pod not in monitors}


def _effective_allocations(
    listed: PodAllocations,
    kept: AbstractSet[PodTarget],
    added: AbstractSet[PodTarget],
    running: Mapping[PodPlace, AbstractSet[str]],
) -> Mapping[PodPlace, Amounts]:
    found: dict[PodPlace, dict[str, float | None]] = defaultdict(dict)
    for place, amounts in listed.given.items():
        name = place.pod_name
        found[place] |= {uuid: amount for uuid, amount in amounts.items() if (name, uuid) in kept}
    for place, uuids in running.items():
        name = place.pod_name
        found[place] |= dict.fromkeys(uuid for uuid in uuids if (name, uuid) in added)
    return {place: amounts for place, amounts in found.items() if amounts}


def _shared_by_groups(
    listed: PodAllocations, running: Mapping[PodPlace, AbstractSet[str]], pods: Mapping[PodName, Pod]
) -> PodAllocations:
    """Give what a pod reserves to the other pods of its groups, by the fractions that their scheduler states."""
    found: dict[PodPlace, dict[str, float | None]] = defaultdict(dict)
    exclusive = dict(listed.exclusive)
    for place, amounts in listed.given.items():
        name = place.pod_name
        groups = pods[name].gpu_groups if name in pods else frozenset[str]()
        members = [pod for other, pod in pods.items() if other != name and pod.gpu_groups & groups and not pod.ended]
        if not members:
            found[place] |= amounts
        for uuid in amounts if members else ():
            exclusive.pop((name, uuid), None)
            for member in members:
                # The containers that run there, else its only one.
                places = [
                    place for place, uuids in running.items() if place.pod_name == member.pod_name and uuid in uuids
                ]
                containers = {container for container, _ in member.containers.values()}
                places = places or [PodPlace(*member.pod_name, containers.pop() if len(containers) == 1 else "")]
                fraction = member.gpu_fraction
                found |= {each: {**found[each], uuid: fraction and fraction / len(places)} for each in places}
    return replace(listed, given=found, exclusive=exclusive)
