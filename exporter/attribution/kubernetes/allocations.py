"""Allocations of pods, where the kubelet's list, the API server and running processes do not agree.

The kubelet lists pods that have ended (before Kubernetes 1.34), pods that only reserve a GPU for others, claims of
monitors (`adminAccess`), and slots of schedulers that choose the GPU themselves. Running processes have the last word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from exporter.attribution.devices import DeviceName, Devices
from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.root import PodPlace
from exporter.attribution.kubernetes.source import KubernetesView, PodName
from exporter.attribution.owner import NOT_HERE
from exporter.attribution.source import Amounts

PodTarget = tuple[PodName, str]
"""A pod, and the uuid of a target."""

UNKNOWN_ID, MIG_PLACE = "unknown_id", "mig_placement"
REASONS: tuple[str, ...] = (UNKNOWN_ID, MIG_PLACE, NOT_HERE)


@dataclass(frozen=True, slots=True)
class PodAllocations:
    """What the kubelet lists of each pod, on the targets of this node."""

    given: Mapping[PodPlace, Amounts] = field(default_factory=dict[PodPlace, Amounts])
    exclusive: Mapping[PodTarget, str] = field(default_factory=dict[PodTarget, str])
    """Targets that a pod was given whole, and by which claim: empty for a device plugin's."""
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many devices were not found on this node, by each of REASONS."""
    listed: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """How many devices each pod was given, found or not."""


def pod_allocations(view: KubernetesView, devices: Devices) -> PodAllocations:
    """Find the devices of the kubelet's list.

    Replicas of a shared device count: a pod with two of the three handed out holds two thirds.
    """
    found: dict[PodPlace, Counter[str]] = defaultdict(Counter)
    exclusive: dict[PodTarget, str] = {}
    unresolved = Counter(dict.fromkeys(REASONS, 0))
    listed = Counter((given.namespace, given.pod) for given in view.given)
    for given in view.given:
        place = PodPlace(given.namespace, given.pod, given.container)
        uuid = view.claimable.get(given.device.claimed)
        name = DeviceName(uuid=uuid) if uuid else given.device
        targets = devices.find(name)
        if not targets:
            unresolved[_reason(name)] += 1
        for target in targets:
            found[place][target.uuid] += 1
            if not name.slot:
                exclusive[(given.namespace, given.pod), target.uuid] = given.claim
    return PodAllocations(
        {place: dict(counts) for place, counts in found.items()}, exclusive, dict(unresolved), dict(listed)
    )


def _reason(name: DeviceName) -> str:
    if name == DeviceName():
        return UNKNOWN_ID
    return MIG_PLACE if name.claimed else NOT_HERE


@dataclass(frozen=True, slots=True)
class EffectiveAllocations:
    """`disputed` are the pods of which the kubelet's list and running processes do not agree."""

    given: Mapping[PodPlace, Amounts] = field(default_factory=dict[PodPlace, Amounts])
    disputed: frozenset[PodName] = frozenset()
    conflicts: int = 0
    """Entries of the kubelet's list that running processes contradict."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The kubelet's list of pods that have not ended, and where pods run."""

    listed: PodAllocations
    entries: AbstractSet[PodTarget]
    running: Mapping[PodName, AbstractSet[str]]

    def runs(self, entry: PodTarget) -> bool:
        return entry[1] in self.running.get(entry[0], ())


class AllocationResolver:
    """Remembers what running processes have shown of an allocation for as long as the kubelet lists it."""

    def __init__(self) -> None:
        self._used: AbstractSet[PodTarget] = frozenset()
        """Allocations on which their pod has run."""
        self._refuted: AbstractSet[PodName] = frozenset()
        """Pods whose device ran another pod that was given it as well."""

    def resolve(
        self, listed: PodAllocations, running: Mapping[PodPlace, AbstractSet[str]], pods: Mapping[PodName, Pod]
    ) -> EffectiveAllocations:
        """Return who holds what. `running` is where named pods run; `pods` is what the API server knows."""
        listed = _shared_by_groups(listed, running, pods)
        look = _look(listed, running, pods)
        self._used = {entry for entry in look.entries if entry in self._used or look.runs(entry)}
        self._refuted = {
            pod
            for pod in {name for name, _ in look.entries}
            if (pod in self._refuted or _is_refuted(pod, look)) and not _runs_on_its_own(pod, look)
        }
        moved = {pod for pod in look.running if _runs_elsewhere(pod, look)}
        dropped = {entry for entry in look.entries if entry[0] in self._refuted | moved and not look.runs(entry)}
        taken = self._taken(look, look.entries - dropped, moved, pods)
        dropped |= {entry for entry in look.entries if entry[1] in {uuid for _, uuid in taken}}
        added = taken | {(pod, uuid) for pod in moved for uuid in look.running[pod]}
        return EffectiveAllocations(
            given=_given(listed, look.entries - dropped, added, running),
            disputed=frozenset(pod for pod, _ in {*dropped, *added}),
            conflicts=len(dropped),
        )

    def _taken(
        self,
        look: _Look,
        standing: AbstractSet[PodTarget],
        moved: AbstractSet[PodName],
        pods: Mapping[PodName, Pod],
    ) -> AbstractSet[PodTarget]:
        """Return running pods that hold a GPU which another pod was given whole and never used: it may reserve it.

        A pod that also runs beside a listed one that runs looks at every GPU. One that asks for no GPU holds none.
        """
        strangers = {(pod, uuid) for pod, uuids in look.running.items() for uuid in uuids} - look.entries
        used = {uuid for _, uuid in standing & self._used}
        guests = {pod for pod, uuid in strangers if any(look.runs(each) for each in standing if each[1] == uuid)}
        others = guests | moved | {pod for pod in look.running if pod in pods and pods[pod].requested_devices == 0}
        slots = {uuid for _, uuid in standing - look.listed.exclusive.keys()}
        reserved = {uuid for _, uuid in standing} - used - slots
        return {(pod, uuid) for pod, uuid in strangers if uuid in reserved and pod not in others}


def _look(listed: PodAllocations, running: Mapping[PodPlace, AbstractSet[str]], pods: Mapping[PodName, Pod]) -> _Look:
    entries = {
        (name, uuid)
        for place, amounts in listed.given.items()
        if not ((name := (place.namespace, place.pod)) in pods and pods[name].ended)
        for uuid in amounts
    }
    found: dict[PodName, set[str]] = defaultdict(set)
    for place, uuids in running.items():
        found[place.namespace, place.pod] |= uuids
    return _Look(listed, entries, found)


def _runs_on_its_own(pod: PodName, look: _Look) -> bool:
    return any(look.runs(entry) for entry in look.entries if entry[0] == pod)


def _is_refuted(pod: PodName, look: _Look) -> bool:
    """Return whether another pod runs on a device that both were given whole, without a claim that they share."""
    exclusive = look.listed.exclusive
    others = [each for each in look.entries if each[0] != pod and each in exclusive and look.runs(each)]
    return any(
        exclusive[other] != exclusive[pod, other[1]] or not exclusive[other]
        for other in others
        if (pod, other[1]) in exclusive
    )


def _runs_elsewhere(pod: PodName, look: _Look) -> bool:
    """Return whether a pod has slots of shared devices and runs on none of them: its scheduler chose another one."""
    own = [entry for entry in look.entries if entry[0] == pod]
    slots = bool(own) and not any(entry in look.listed.exclusive for entry in own)
    return slots and bool(look.running[pod]) and not _runs_on_its_own(pod, look)


def _given(
    listed: PodAllocations,
    kept: AbstractSet[PodTarget],
    added: AbstractSet[PodTarget],
    running: Mapping[PodPlace, AbstractSet[str]],
) -> Mapping[PodPlace, Amounts]:
    found: dict[PodPlace, dict[str, float | None]] = defaultdict(dict)
    for place, amounts in listed.given.items():
        name = (place.namespace, place.pod)
        found[place] |= {uuid: amount for uuid, amount in amounts.items() if (name, uuid) in kept}
    for place, uuids in running.items():
        name = (place.namespace, place.pod)
        found[place] |= dict.fromkeys(uuid for uuid in uuids if (name, uuid) in added)
    return {place: amounts for place, amounts in found.items() if amounts}


def _shared_by_groups(
    listed: PodAllocations, running: Mapping[PodPlace, AbstractSet[str]], pods: Mapping[PodName, Pod]
) -> PodAllocations:
    """Give what a pod reserves to the other pods of its groups, by the fractions that their scheduler states."""
    found: dict[PodPlace, dict[str, float | None]] = defaultdict(dict)
    exclusive = dict(listed.exclusive)
    for place, amounts in listed.given.items():
        name = (place.namespace, place.pod)
        members = _members(name, pods)
        if not members:
            found[place] |= amounts
        for uuid in amounts if members else ():
            exclusive.pop((name, uuid), None)
            for member in members:
                places = _places(member, uuid, running)
                fraction = member.gpu_fraction
                found |= {each: {**found[each], uuid: fraction and fraction / len(places)} for each in places}
    return replace(listed, given=found, exclusive=exclusive)


def _members(reservation: PodName, pods: Mapping[PodName, Pod]) -> Sequence[Pod]:
    own = pods.get(reservation)
    groups = own.gpu_groups if own else frozenset[str]()
    return [pod for name, pod in pods.items() if name != reservation and pod.gpu_groups & groups and not pod.ended]


def _places(pod: Pod, uuid: str, running: Mapping[PodPlace, AbstractSet[str]]) -> Sequence[PodPlace]:
    """Return the containers of a pod that run there, else its only one."""
    name = (pod.namespace, pod.name)
    found = [place for place, uuids in running.items() if (place.namespace, place.pod) == name and uuid in uuids]
    containers = {container for container, _ in pod.containers.values()}
    return found or [PodPlace(*name, next(iter(containers)) if len(containers) == 1 else "")]
