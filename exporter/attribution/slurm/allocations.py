"""Allocations of jobs by the word of Slurm's sources; and where they contradict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from exporter.attribution.devices import Devices
from exporter.attribution.slurm.local_view import Allocation
from exporter.attribution.slurm.source import ENVIRON, TRUST
from exporter.attribution.source import Amounts


@dataclass(frozen=True, slots=True)
class JobAllocation:
    """What one job is allocated: `targets` by the most trusted source that knows, and by the word of each."""

    targets: Amounts
    source: str
    by_source: Mapping[str, Amounts]

    @property
    def low_trust(self) -> bool:
        return self.source == ENVIRON


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
        found[job] = JobAllocation(targets, best, {**resolved, best: targets})
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
