"""Slurm's jobs in one sampling cycle, and Slurm's four sources of owners in order of trust.

The sources are the prolog's files, cgroups with their devices, slurmctld, and environments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.attribution.cgroup import Cgroup
from exporter.attribution.devices import Devices
from exporter.attribution.owner import EXACT, INFERRED, LOW, Owner, SourceHealth, WorkloadInfo, process_owner
from exporter.attribution.slurm.job import Job, JobEnvironments, JobVariables
from exporter.attribution.slurm.local_view import Allocation
from exporter.attribution.slurm.source import ENVIRON, MAPPING, PROGRAM, SCONTROL, STEPS, TRUST, Slurm
from exporter.attribution.source import (
    Amounts,
    FirstSeen,
    Match,
    ProcessGroup,
    ProcessIndex,
    Reader,
    View,
    by_pid,
    named,
    own_cgroups,
)
from exporter.core.clock import MonotonicTime


def job_owner(job: str, known: Job | None, own: JobVariables | None, user: str) -> Owner:
    """Return the owner of a job: by slurmctld first, then by the kernel's `user`, then by its variables."""
    reported = known or (own.job if own else Job(""))
    return Owner(
        workload=f"slurm:{job}",
        kind="slurm",
        slurm_job=job,
        user=known.user if known else user or reported.user,
        account=reported.account,
        partition=reported.partition,
    )


def job_info(known: Job | None, own: JobVariables | None, step: str, trust: str) -> WorkloadInfo:
    """Return the info of a job: by slurmctld first, then by its variables."""
    described = own.job if own else Job("")
    reported = known or described
    whole = reported.array_job or reported.het_job
    return WorkloadInfo(
        slurm_array_job=reported.array_job,
        slurm_array_task=reported.array_task,
        slurm_het_job=reported.het_job,
        slurm_het_offset=reported.het_offset,
        slurm_step=step,
        job_name=reported.name,
        qos=reported.qos,
        time_limit_seconds=reported.time_limit_seconds,
        start_time=reported.start_time,
        trust=trust,
        nodes=reported.node_count or described.node_count,
        tasks=reported.task_count or described.task_count,
        part_of=f"slurm:{whole}" if whole else "",
        restarts=reported.restarts,
    )


@dataclass(frozen=True, slots=True)
class JobAllocation:
    """Allocation of one job: `targets` by the most trusted source that knows them, and the report of each source."""

    targets: Amounts
    source: str
    by_source: Mapping[str, Amounts]

    @property
    def low_trust(self) -> bool:
        return self.source == ENVIRON


def job_allocations(
    by_job: Mapping[str, Mapping[str, Allocation]], devices: Devices
) -> tuple[Mapping[str, JobAllocation], Mapping[str, int], Mapping[str, int]]:
    """Return the allocation of each job: the report of the most trusted source counts, the others are compared with it.

    Also returns the conflicts of each source, and the number of its unresolved devices that no other source resolves.
    """
    found: dict[str, JobAllocation] = {}
    conflicts, unresolved = Counter[str](), Counter[str]()
    for job, by_source in by_job.items():
        every: dict[str, Amounts] = {
            source: {target.uuid: amount for name, amount in by_source[source].items() for target in devices.find(name)}
            for source in TRUST
            if source in by_source
        }
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


_SLURMD = ("slurmd.service", "slurmstepd.scope")


def contested(allocations: Mapping[str, JobAllocation]) -> Mapping[str, AbstractSet[str]]:
    """Return the jobs by target, where several jobs are allocated all of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for job, each in allocations.items():
        for uuid, amount in () if each.low_trust else each.targets.items():
            if amount is None:
                found[uuid].add(job)
    return {uuid: jobs for uuid, jobs in found.items() if len(jobs) > 1}


@dataclass(frozen=True, slots=True)
class JobOwnersSnapshot:
    """Jobs of one sampling cycle. One without an owner is waiting for its name."""

    sluids: Mapping[str, str] = field(default_factory=dict[str, str])
    ended: AbstractSet[str] = frozenset()
    """Jobs that have ended: processes left in their cgroups belong to no job."""
    untracked: Mapping[int, str] = field(default_factory=dict[int, str])
    """Pid to job, of processes that Slurm tracks without cgroups."""
    owners: Mapping[str, Owner] = field(default_factory=dict[str, Owner])
    allocations: Mapping[str, JobAllocation] = field(default_factory=dict[str, JobAllocation])
    cgroups: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    conflicts: Mapping[str, int] = field(default_factory=dict[str, int])
    unresolved: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of allocated devices that were not found on this node, by source."""

    def cgroup_of(self, cgroup: Cgroup) -> str:
        """Return the raw id of the cgroup's job, or its SLUID until the id is known; also of a job that has ended."""
        return self.sluids.get(cgroup.sluid, "") or cgroup.sluid if cgroup.sluid else cgroup.job

    def match(self, group: ProcessGroup) -> Match | None:
        """Return the job of a process, or the program if an ended job left it; None if it belongs to no job.

        A process that an ended job left in a pod belongs to the pod.
        """
        job = self.cgroup_of(group.cgroup)
        if job in self.ended:
            return None if group.cgroup.pod else named(process_owner(group.command, group.user))
        return named(self.owners.get(job)) if job else None

    def allocated(self, source: str) -> Mapping[Owner, Amounts]:
        """Return the allocation of each job by the report of one source."""
        return {
            owner: self.allocations[job].by_source[source]
            for job, owner in self.owners.items()
            if job in self.allocations and source in self.allocations[job].by_source
        }


@dataclass(frozen=True, slots=True)
class _Running:
    """Processes of a job that are of one kind."""

    job: str
    cgroup: Cgroup
    user: str
    targets: Collection[str]


class Jobs:
    """Join of Slurm's sources. Remembers what it has read of processes outside job cgroups."""

    def __init__(self, slurm: Slurm, procfs: Path) -> None:
        self.slurm = slurm
        self.environments = JobEnvironments(procfs)
        self._first = FirstSeen()
        self._untracked: Mapping[str, JobVariables] = {}
        """Variables of processes outside the cgroups of jobs, by the job that they may belong to."""
        self._last = JobOwnersSnapshot()
        self._cycle: int | None = None

    def at(self, index: ProcessIndex, now: MonotonicTime) -> JobOwnersSnapshot:
        """Return the same jobs to all sources of one sampling cycle."""
        if index.cycle != self._cycle:
            self._last, self._cycle = self._join_jobs(index, now), index.cycle
        return self._last

    def _join_jobs(self, index: ProcessIndex, now: MonotonicTime) -> JobOwnersSnapshot:
        slurm, node = self.slurm, self.slurm.node
        jobs = JobOwnersSnapshot(sluids=node.sluids, ended=slurm.ended())
        running = [
            _Running(job, group.cgroup, group.user, group.targets)
            for group in index.groups
            if (job := jobs.cgroup_of(group.cgroup)) and job not in jobs.ended
        ]
        environs, claimed = self._claimed_jobs(index, running)
        untracked = {pid: job for pid, job in claimed.items() if job not in jobs.ended}
        self._untracked = {environs[pid].job.id: environs[pid] for pid in reversed(untracked)}
        everyone = {*(each.job for each in running), *untracked.values(), *slurm.present()}
        allocations, conflicts, unresolved = job_allocations(
            {job: slurm.allocations(job, self._job_variables(job)) for job in everyone}, index.devices
        )
        inferred = _infer_jobs(index, environs, allocations)
        attributed, taken = _unattributed_processes(index, {*untracked, *inferred}, allocations, self._job_user)
        inferred = {**inferred, **attributed}
        trust = dict.fromkeys((job for job, each in allocations.items() if each.low_trust), LOW)
        trust |= dict.fromkeys(untracked.values(), LOW) | dict.fromkeys(inferred.values(), INFERRED)
        untracked |= inferred
        groups = {pid: group for group in index.groups for pid in group.pids if pid in untracked}
        running += [
            _Running(job, groups[pid].cgroup, groups[pid].user, index.targets_of(pid)) for pid, job in untracked.items()
        ]
        seen = everyone.union(claimed.values(), (jobs.cgroup_of(group.cgroup) for group in index.groups))
        parents = {each.cgroup.job_path.rpartition("/")[0] for each in running if each.cgroup.job_path}
        slurm.noticed({job for job in seen if job.isdecimal()}, parents)
        recent = self._first.recent(everyone, now)
        waiting = {job for job in recent if slurm.job(job) is None and slurm.pending(job)}
        users, steps = _users_by_job(running), _steps_by_job(running)
        owners = {
            job: job_owner(job, slurm.job(job), self._job_variables(job), users.get(job, "") or node.users.get(job, ""))
            for job in everyone - waiting
        }
        return replace(
            jobs,
            untracked=untracked,
            owners=owners,
            allocations=allocations,
            cgroups={each.job: each.cgroup.job_path for each in running if each.cgroup.job_path} | dict(node.cgroups),
            info={
                owner: job_info(slurm.job(job), self._job_variables(job), steps.get(job, ""), trust.get(job, EXACT))
                for job, owner in owners.items()
            },
            conflicts=Counter(conflicts) + taken + self._count_conflicts(running, allocations),
            unresolved=unresolved,
        )

    def _claimed_jobs(
        self, index: ProcessIndex, running: Sequence[_Running]
    ) -> tuple[Mapping[int, JobVariables], Mapping[int, str]]:
        """Return the variables of processes outside the cgroups of jobs, and the jobs that they may name."""
        tracked = _users_by_job(running)
        present = self.slurm.node.present or running
        readable = [group for group in index.groups if _is_untracked(group.cgroup)] if present else []
        environs = self.environments.of({pid: index.hosts[pid].start_time for group in readable for pid in group.pids})
        named = [(pid, environ.job.id, index.hosts[pid].user) for pid, environ in environs.items() if environ.job.id]
        return environs, {  # an environment is the user's text: it may not name another user's job
            pid: job
            for pid, job, user in named
            if user in ("", "root") or (self._job_user(job) or tracked.get(job, "")) in ("", user)
        }

    def _count_conflicts(self, running: Iterable[_Running], allocations: Mapping[str, JobAllocation]) -> Counter[str]:
        """Return conflicts by source: jobs with the same GPU, which slurmctld is asked about, and jobs elsewhere."""
        contest = contested({job: each for job, each in allocations.items() if not self.slurm.pending(job)})
        self.slurm.contest({job for jobs in contest.values() for job in jobs})
        used = {(each.job, uuid) for each in running if each.job in allocations for uuid in each.targets}
        elsewhere = (allocations[job].source for job, uuid in used if uuid not in allocations[job].targets)
        return Counter({STEPS: len(contest)}) + Counter(elsewhere)

    def _job_user(self, job: str) -> str:
        """Return the user of a job by Slurm or the kernel; empty where neither reports it."""
        known = self.slurm.job(job)
        return known.user if known else self.slurm.node.users.get(job, "")

    def _job_variables(self, job: str) -> JobVariables | None:
        return self.slurm.node.job_environ.get(job) or self._untracked.get(job)


def _is_untracked(cgroup: Cgroup) -> bool:
    """Return whether Slurm may track processes there without cgroups."""
    return cgroup.of_host and not cgroup.delegated and (not cgroup.unit or cgroup.unit.endswith(_SLURMD))


def _infer_jobs(
    index: ProcessIndex, environs: Mapping[int, JobVariables], allocations: Mapping[str, JobAllocation]
) -> Mapping[int, str]:
    """Return slurmd's processes that name no job, each with the only job that the prolog's files put on its GPUs."""
    slurmds = {pid for group in index.groups if group.cgroup.unit.endswith(_SLURMD) for pid in group.pids}
    found: dict[int, str] = {}
    for pid in (pid for pid, environ in environs.items() if not environ.job.id and pid in slurmds):
        used = set(index.targets_of(pid))
        jobs = [job for job, each in allocations.items() if each.source == MAPPING and used & each.targets.keys()]
        if len(jobs) == 1:
            found[pid] = jobs[0]
    return found


def _unattributed_processes(
    index: ProcessIndex,
    known: Collection[int],
    allocations: Mapping[str, JobAllocation],
    user_of: Callable[[str], str],
) -> tuple[Mapping[int, str], Counter[str]]:
    """Return processes of no job on allocated GPUs, each with the one job there if it has the same user.

    Any other is a conflict with the source of the allocation. Root's processes are left out: they watch, and serve MPS.
    Those in `known` have their job.
    """
    found: dict[int, str] = {}
    conflicts: Counter[str] = Counter()
    holders: dict[str, set[str]] = defaultdict(set)
    for job, each in allocations.items():
        for uuid in () if each.low_trust else each.targets:
            holders[uuid].add(job)
    for group in index.groups:
        if not group.cgroup.of_host or group.cgroup.unit.endswith(_SLURMD) or group.user in ("", "root"):
            continue
        for pid in group.pids.difference(known):
            targets = index.targets_of(pid)
            jobs = set[str]().union(*(holders.get(uuid, ()) for uuid in targets))
            alone = next(iter(jobs)) if len(jobs) == 1 else ""
            if alone and allocations[alone].targets.keys() >= set(targets) and user_of(alone) == group.user:
                found[pid] = alone
            else:
                conflicts.update(allocations[job].source for job in jobs)
    return found, conflicts


def _users_by_job(running: Iterable[_Running]) -> Mapping[str, str]:
    """Return the user of each job's processes; root only if there is no other."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in running:
        found[each.job].add(each.user)
    return {job: min(users - {"root", ""} or users) for job, users in found.items()}


def _steps_by_job(running: Iterable[_Running]) -> Mapping[str, str]:
    """Return the step of each job's processes, if they have one in common."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in running:
        if each.cgroup.step not in ("extern", ""):
            found[each.job].add(each.cgroup.step)
    return {job: next(iter(steps)) for job, steps in found.items() if len(steps) == 1}


class _JobSource:
    """One of Slurm's sources, with its readers. All report the same jobs; each allocates by its own report."""

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


class DevicePrograms(_JobSource):
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
            ended=self._jobs.slurm.ends(),
        )


class Controller(_JobSource):
    """slurmctld's reports of jobs, and slurmd's report of the jobs that still have steps."""

    name = SCONTROL

    def _health(self, processes: ProcessIndex, now: MonotonicTime) -> tuple[SourceHealth, ...]:
        jobs = self._jobs.at(processes, now)
        steps = self._jobs.slurm.health(STEPS, now, jobs.conflicts, jobs.unresolved)
        return (*super()._health(processes, now), *steps)


class Environment(_JobSource):
    """Environments of jobs, and processes outside of the cgroups of jobs: the user can write them."""

    name = ENVIRON

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        jobs, health = self._jobs.at(processes, now), self._jobs.environments.health()
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
        return (self._jobs.environments,)


class JobCgroups:
    """Jobs by their cgroups alone, where Slurm is not asked."""

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
