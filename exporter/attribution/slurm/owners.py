"""Slurm's four sources, in order of trust: the prolog's files, cgroups with their devices, slurmctld, environments.

All four speak of the same jobs (`Jobs`). Each reads by itself, and allocates by its own word.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.attribution.owner import SourceHealth
from exporter.attribution.process_index import ProcessIndex
from exporter.attribution.slurm.jobs import Jobs, job_owner
from exporter.attribution.slurm.source import ENVIRON, MAPPING, PROGRAM, SCONTROL, STEPS
from exporter.attribution.source import Reader, View, by_pid, named, own_cgroups
from exporter.core.clock import MonotonicTime


class _JobSource:
    """Owns its readers; reports what one of Slurm's sources says was allocated."""

    name = ""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        jobs = self._jobs.at(processes, now)
        return View(allocated=jobs.allocated(self.name), health=self._health(processes, now))

    @property
    def readers(self) -> Sequence[Reader]:
        return self._jobs.slurm.readers(self.name)

    def _health(self, processes: ProcessIndex, now: MonotonicTime) -> tuple[SourceHealth, ...]:
        jobs = self._jobs.at(processes, now)
        return self._jobs.slurm.health(self.name, now, jobs.conflicts, jobs.unresolved)


class Prolog(_JobSource):
    """The prolog's files."""

    name = MAPPING


class Cgroups(_JobSource):
    """The cgroups of jobs: they name processes, and slurmd's device programs on them say what a job may open."""

    name = PROGRAM

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        jobs, node = self._jobs.at(processes, now), self._jobs.slurm.node
        return View(
            names={pid: match for group in processes.groups if (match := jobs.match(group)) for pid in group.pids},
            allocated=jobs.allocated(self.name),
            offered=frozenset(each.uuid for name in node.devices if name for each in processes.devices.find(name)),
            info=jobs.info,
            cgroups={owner: jobs.cgroups[job] for job, owner in jobs.owners.items() if job in jobs.cgroups},
            unsure=frozenset(
                owner
                for job, owner in jobs.owners.items()
                if job not in jobs.allocations or jobs.allocations[job].low_trust
            ),
            health=self._health(processes, now),
        )


class Controller(_JobSource):
    """slurmctld's word on each job, and slurmd's on which of them still have steps."""

    name = SCONTROL

    def _health(self, processes: ProcessIndex, now: MonotonicTime) -> tuple[SourceHealth, ...]:
        jobs = self._jobs.at(processes, now)
        steps = self._jobs.slurm.health(STEPS, now, jobs.conflicts, jobs.unresolved)
        return (*super()._health(processes, now), *steps)


class Environment(_JobSource):
    """What jobs say of themselves, and processes outside of the cgroups of jobs: the user can write it."""

    name = ENVIRON

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        jobs, health = self._jobs.at(processes, now), self._jobs.environs.health()
        allocated = {
            owner: jobs.allocations[job].targets
            for job, owner in jobs.owners.items()
            if job in jobs.allocations and jobs.allocations[job].low_trust
        }
        return View(
            names={pid: named(jobs.owners.get(job)) for pid, job in jobs.untracked.items()},
            allocated=allocated,
            health=(SourceHealth(ENVIRON, *health, jobs.conflicts.get(ENVIRON, 0)),) if health else (),
        )

    @property
    def readers(self) -> Sequence[Reader]:
        return (self._jobs.environs,)


class JobCgroups:
    """Names jobs by their cgroups alone, where Slurm is not asked."""

    readers = ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        found = [
            (group, job_owner(job, None, None, group.user))
            for group in processes.groups
            if (job := group.cgroup.sluid or group.cgroup.job)
        ]
        return View(
            names=by_pid(found),
            cgroups=own_cgroups((owner, group.cgroup.job_path) for group, owner in found),
            unsure=frozenset(owner for _, owner in found),
        )
