"""Who was given which target, by the word of the kubelet and of Slurm's sources; and where they contradict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from exporter.attribution.devices import DeviceName, Devices
from exporter.attribution.kubernetes.source import KubernetesView
from exporter.attribution.naming import PodPlace
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import NOT_HERE
from exporter.attribution.slurm.local_view import Allocation
from exporter.attribution.slurm.source import ENVIRON, TRUST
from exporter.core.units import Share

H = TypeVar("H")

PodTarget = tuple[tuple[str, str], str]
"""Namespace and name of a pod, and the uuid of a target."""

Amounts = Mapping[str, float | None]
"""Target uuid to the amount held of it (replicas, shards), None where the source states none."""


@dataclass(frozen=True, slots=True)
class JobAllocation:
    """What one job holds, by the most trusted source that knows."""

    targets: Amounts
    source: str
    claimed: frozenset[str] = frozenset()
    """Uuids that any source but the job's own word says it was given."""

    @property
    def low_trust(self) -> bool:
        return self.source == ENVIRON


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


def job_allocations(
    by_job: Mapping[str, Mapping[str, Allocation]], devices: Devices
) -> tuple[Mapping[str, JobAllocation], Mapping[str, int], Mapping[str, int]]:
    """From what each source reports of each job; the most trusted word counts, the others are compared with it.

    With it the conflicts of each source, and how many devices it names, with nobody to know better, that are not here.
    """
    found: dict[str, JobAllocation] = {}
    conflicts, unresolved = Counter[str](), Counter[str]()
    for job, by_source in by_job.items():
        every = {source: _resolved(by_source[source], devices) for source in TRUST if source in by_source}
        # One that names devices, and none that can be found here, does not know.
        resolved = {source: targets for source, targets in every.items() if targets or not by_source[source]}
        best = next(iter(resolved or every), "")
        unresolved[best] += sum(not devices.find(name) for name in by_source.get(best, ()))
        if not resolved:
            continue
        targets = resolved[best]
        for source, other in resolved.items():
            conflicts[source] += len(targets.keys() ^ other.keys())
            targets = {uuid: other.get(uuid) if amount is None else amount for uuid, amount in targets.items()}
        claimed = frozenset(uuid for source, each in resolved.items() if source != ENVIRON for uuid in each)
        found[job] = JobAllocation(targets, best, claimed)
    return found, +conflicts, +unresolved


def contested(given: Mapping[str, JobAllocation]) -> Mapping[str, AbstractSet[str]]:
    """By target: the jobs, where there are several, of which each is allocated all of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for job, each in given.items():
        for uuid, amount in () if each.low_trust else each.targets.items():
            if amount is None:
                found[uuid].add(job)
    return {uuid: jobs for uuid, jobs in found.items() if len(jobs) > 1}


def _resolved(held: Allocation, devices: Devices) -> Amounts:
    return {target.uuid: amount for name, amount in held.items() for target in devices.find(name)}


def within_pods(given: Mapping[Owner, float | None], runners: Collection[Owner]) -> Mapping[Owner, float | None]:
    """Return what each container has of a target: those of one pod hold it together.

    A pod that uses its GPU is not idle there. Those of the listed containers that run on it have what the others
    leave. If none of them runs, the pod's other containers that run there have it: the kubelet lists no init container,
    and which container runs is not always known.
    """
    pods: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner in given:
        if owner.kind == "pod":
            pods[owner.pod_name].append(owner)
    found = dict(given)
    for containers in pods.values():
        running = [owner for owner in containers if owner in runners]
        running = running or [
            owner for owner in runners if owner.kind == "pod" and owner.pod_name == containers[0].pod_name
        ]
        if not running or running == containers:
            continue
        amounts = [found.pop(owner) for owner in containers]
        known = [amount for amount in amounts if amount is not None]
        part = sum(known) / len(running) if len(known) == len(amounts) else None
        found |= dict.fromkeys(running, part)
    return found


def weights(given: Mapping[H, float | None], runners: Iterable[H]) -> Mapping[H, Share]:
    """Parts of one target, summing to 1: by amount where every holder has one, else evenly.

    Those who merely run on what others were given have no part of it; where nobody was given it, they share it.
    """
    runners = tuple(runners)
    amounts = given or dict.fromkeys(runners)
    stated = [amount for amount in amounts.values() if amount]
    if len(stated) == len(amounts) and stated:
        total = sum(stated)
        parts = {holder: Share((amount or 0.0) / total) for holder, amount in amounts.items()}
    else:
        parts = {holder: Share(1.0 / len(amounts)) for holder in amounts}
    return {**dict.fromkeys(runners, Share(0.0)), **parts}
