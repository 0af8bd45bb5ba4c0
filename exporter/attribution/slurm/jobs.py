"""Slurm jobs in one sampling cycle: those that run, those that are only allocated something, and the names of both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.attribution.cgroup import Cgroup
from exporter.attribution.devices import Devices
from exporter.attribution.owner import EXACT, INFERRED, LOW, Owner, WorkloadInfo, process_owner
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessGroup, ProcessIndex
from exporter.attribution.slurm.environ import Environs, JobEnviron
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.local_view import Allocation
from exporter.attribution.slurm.source import ENVIRON, MAPPING, STEPS, TRUST, Slurm
from exporter.attribution.source import Amounts, Match, named
from exporter.core.clock import MonotonicTime


def job_owner(job: str, known: Job | None, job_environ: JobEnviron | None, user: str) -> Owner:
    """Return the owner of a job: by slurmctld first, then by the kernel's word on the `user`, then by the job's own."""
    return Owner(
        workload=f"slurm:{job}",
        kind="slurm",
        slurm_job=job,
        user=known.user if known else user or (job_environ.user if job_environ else ""),
        account=known.account if known else job_environ.account if job_environ else "",
        partition=known.partition if known else job_environ.partition if job_environ else "",
    )


def job_info(known: Job | None, job_environ: JobEnviron | None, step: str, trust: str) -> WorkloadInfo:
    own = job_environ or JobEnviron()
    if known is None:
        return WorkloadInfo(job_name=own.name, slurm_step=step, trust=trust, nodes=own.node_count, tasks=own.task_count)
    return WorkloadInfo(
        slurm_array_job=known.array_job,
        slurm_array_task=known.array_task,
        slurm_het_job=known.het_job,
        slurm_het_offset=known.het_offset,
        slurm_step=step,
        job_name=known.name,
        qos=known.qos,
        time_limit_seconds=known.time_limit_seconds,
        start_time=known.start_time,
        trust=trust,
        nodes=known.node_count or own.node_count,
        tasks=known.task_count or own.task_count,
        part_of=_whole(known),
        restarts=known.restarts,
    )


def _whole(job: Job) -> str:
    """Return the array, or the heterogeneous job, that it is a part of."""
    whole = job.array_job or job.het_job
    return f"slurm:{whole}" if whole else ""


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


_SLURMD = ("slurmd.service", "slurmstepd.scope")
_STEPS_OF_SLURM = ("extern", "")


@dataclass(frozen=True, slots=True)
class JobsNow:
    """What one sampling cycle knows of jobs. One without an owner is waiting for its name."""

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
    """By source: devices that jobs were given and that were not found here."""

    def job_of(self, cgroup: Cgroup) -> str:
        """Return the raw id of the cgroup's job, or its SLUID until the id is known; empty if no job runs in it."""
        job = self.cgroup_of(cgroup)
        return "" if job in self.ended else job

    def cgroup_of(self, cgroup: Cgroup) -> str:
        """Return the same of a job that has ended, too."""
        return self.sluids.get(cgroup.sluid, "") or cgroup.sluid if cgroup.sluid else cgroup.job

    def match(self, group: ProcessGroup) -> Match | None:
        """Return the job that runs in a cgroup; of what an ended job left, the program; None if it is no job's.

        What an ended job left in a pod is the pod's.
        """
        job = self.cgroup_of(group.cgroup)
        if job in self.ended:
            return None if group.cgroup.pod else named(process_owner(group.command, group.user))
        return named(self.owners.get(job)) if job else None

    def allocated(self, source: str) -> Mapping[Owner, Amounts]:
        """Return what each job was allocated by the word of one source."""
        return {
            owner: self.allocations[job].by_source[source]
            for job, owner in self.owners.items()
            if job in self.allocations and source in self.allocations[job].by_source
        }


@dataclass(frozen=True, slots=True)
class _Running:
    """A job's processes of one kind."""

    job: str
    cgroup: Cgroup
    user: str
    targets: Collection[str]


class Jobs:
    """What Slurm's sources know together; keeps what it has read of processes outside job cgroups."""

    def __init__(self, slurm: Slurm, procfs: Path) -> None:
        self.slurm = slurm
        self.environs = Environs(procfs)
        self._first = FirstSeen()
        self._untracked: Mapping[str, JobEnviron] = {}
        """What processes outside of the cgroups of jobs say of the jobs that may be theirs."""
        self._last = JobsNow()
        self._cycle: int | None = None

    def at(self, index: ProcessIndex, now: MonotonicTime) -> JobsNow:
        """Return the same jobs to all sources of one sampling cycle."""
        if index.cycle != self._cycle:
            self._last, self._cycle = self._join(index, now), index.cycle
        return self._last

    def _join(self, index: ProcessIndex, now: MonotonicTime) -> JobsNow:
        node = self.slurm.node
        jobs = JobsNow(sluids=node.sluids, ended=self.slurm.ended())
        running = list(_running(index, jobs))
        environs = self._read_untracked(index) if node.present or running else dict[int, JobEnviron]()
        tracked = _users(running)
        claimed = {
            pid: environ.job
            for pid, environ in environs.items()
            if environ.job and self._may_be_of(index.hosts[pid].user, environ.job, tracked)
        }
        untracked = {pid: job for pid, job in claimed.items() if job not in jobs.ended}
        self._untracked = {environs[pid].job: environs[pid] for pid in reversed(untracked)}
        everyone = {*(each.job for each in running), *untracked.values(), *self.slurm.present()}
        given, conflicts, unresolved = job_allocations(
            {job: self.slurm.held(job, self._job_environ(job)) for job in everyone}, index.devices
        )
        inferred = _inferred(index, environs, given)
        strangers, taken = _strangers(index, {*untracked, *inferred}, given, self._user)
        inferred = {**inferred, **strangers}
        trust = _trust(given, untracked.values(), inferred.values())
        untracked |= inferred
        running += _as_running(untracked, index)
        self._ask(everyone.union(claimed.values(), (jobs.cgroup_of(group.cgroup) for group in index.groups)), running)
        self._first.update(everyone, now)
        users = _users(running)
        owners = {job: self._owner(job, users.get(job, "")) for job in everyone if not self._waits(job, now)}
        steps = _steps(running)
        return replace(
            jobs,
            untracked=untracked,
            owners=owners,
            allocations=given,
            cgroups={each.job: each.cgroup.job_path for each in running if each.cgroup.job_path} | dict(node.cgroups),
            info={
                owner: job_info(self.slurm.job(job), self._job_environ(job), steps.get(job, ""), trust.get(job, EXACT))
                for job, owner in owners.items()
            },
            conflicts=Counter(conflicts) + _elsewhere(running, given) + taken + self._contest(given),
            unresolved=unresolved,
        )

    def _contest(self, given: Mapping[str, JobAllocation]) -> Counter[str]:
        """Have slurmctld asked about jobs that contradict each other; returns the number of their GPUs by source."""
        found = contested({job: each for job, each in given.items() if not self.slurm.pending(job)})
        self.slurm.contest({job for jobs in found.values() for job in jobs})
        return Counter({STEPS: len(found)})

    def _ask(self, jobs: Iterable[str], running: Iterable[_Running]) -> None:
        parents = {each.cgroup.job_path.rpartition("/")[0] for each in running if each.cgroup.job_path}
        self.slurm.noticed({job for job in jobs if job.isdecimal()}, parents)

    def _waits(self, job: str, now: MonotonicTime) -> bool:
        return self.slurm.job(job) is None and self.slurm.pending(job) and self._first.age(job, now) < HOLD_SECONDS

    def _owner(self, job: str, user: str) -> Owner:
        user = user or self.slurm.node.users.get(job, "")
        return job_owner(job, self.slurm.job(job), self._job_environ(job), user)

    def _may_be_of(self, user: str, job: str, tracked: Mapping[str, str]) -> bool:
        """An environment is the user's own text: it names no job of somebody else.

        `tracked` is who runs in the cgroups of jobs.
        """
        return user in ("", "root") or (self._user(job) or tracked.get(job, "")) in ("", user)

    def _user(self, job: str) -> str:
        """Whose the job is, by Slurm or the kernel; empty where neither reports."""
        known = self.slurm.job(job)
        return known.user if known else self.slurm.node.users.get(job, "")

    def _job_environ(self, job: str) -> JobEnviron | None:
        return self.slurm.node.job_environ.get(job) or self._untracked.get(job)

    def _read_untracked(self, index: ProcessIndex) -> Mapping[int, JobEnviron]:
        """What processes say that Slurm may track without cgroups; each is read once."""
        untracked = [pid for group in index.groups if _may_be_slurms(group.cgroup) for pid in group.pids]
        return self.environs.of({pid: index.hosts[pid].start_time for pid in untracked})


def _running(index: ProcessIndex, jobs: JobsNow) -> Iterator[_Running]:
    for group in index.groups:
        if job := jobs.job_of(group.cgroup):
            yield _Running(job, group.cgroup, group.user, group.targets)


def _trust(given: Mapping[str, JobAllocation], untracked: Iterable[str], inferred: Iterable[str]) -> Mapping[str, str]:
    """By job: what is reported of it is trusted less than exact. `untracked` and `inferred` are jobs of processes."""
    found = dict.fromkeys((job for job, each in given.items() if each.low_trust), LOW)
    return found | dict.fromkeys(untracked, LOW) | dict.fromkeys(inferred, INFERRED)


def _may_be_slurms(cgroup: Cgroup) -> bool:
    return cgroup.of_host and not cgroup.delegated and (not cgroup.unit or cgroup.unit.endswith(_SLURMD))


def _inferred(
    index: ProcessIndex, environs: Mapping[int, JobEnviron], given: Mapping[str, JobAllocation]
) -> Mapping[int, str]:
    """Slurm's processes that do not say whose they are: of the only job that the prolog's files put on their GPU."""
    slurmds = {pid for group in index.groups if group.cgroup.unit.endswith(_SLURMD) for pid in group.pids}
    silent = [pid for pid, environ in environs.items() if not environ.job and pid in slurmds]
    return {pid: job for pid in silent if (job := _sole_holder(index.targets_of(pid), given))}


def _strangers(
    index: ProcessIndex,
    known: Collection[int],
    given: Mapping[str, JobAllocation],
    user_of: Callable[[str], str],
) -> tuple[Mapping[int, str], Counter[str]]:
    """Processes of no job on GPUs that jobs hold, as from a login: of the one job there if it is the same user's.

    Any other is a conflict with who reports that the job holds the GPU. Root's are let be: they watch, and serve MPS.
    Those in `known` have their job.
    """
    found: dict[int, str] = {}
    conflicts: Counter[str] = Counter()
    holders: dict[str, set[str]] = defaultdict(set)
    for job, each in given.items():
        for uuid in () if each.low_trust else each.targets:
            holders[uuid].add(job)
    for group in index.groups:
        if not group.cgroup.of_host or group.cgroup.unit.endswith(_SLURMD) or group.user in ("", "root"):
            continue
        for pid in group.pids.difference(known):
            targets = index.targets_of(pid)
            jobs = set[str]().union(*(holders.get(uuid, ()) for uuid in targets))
            alone = next(iter(jobs)) if len(jobs) == 1 else ""
            if alone and given[alone].targets.keys() >= set(targets) and user_of(alone) == group.user:
                found[pid] = alone
            else:
                conflicts.update(given[job].source for job in jobs)
    return found, conflicts


def _sole_holder(uuids: Iterable[str], given: Mapping[str, JobAllocation]) -> str:
    wanted = set(uuids)
    holders = [job for job, each in given.items() if each.source == MAPPING and wanted & each.targets.keys()]
    return holders[0] if len(holders) == 1 else ""


def _as_running(untracked: Mapping[int, str], index: ProcessIndex) -> Iterator[_Running]:
    kinds = (
        {pid: group for group in index.groups for pid in group.pids if pid in untracked}
        if untracked
        else dict[int, ProcessGroup]()
    )
    for pid, job in untracked.items():
        yield _Running(job, kinds[pid].cgroup, kinds[pid].user, index.targets_of(pid))


def _users(running: Iterable[_Running]) -> Mapping[str, str]:
    """Who a job's processes run as; root only where nobody else does."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in running:
        found[each.job].add(each.user)
    return {job: min(users - {"root", ""} or users) for job, users in found.items()}


def _steps(running: Iterable[_Running]) -> Mapping[str, str]:
    """The step that a job's processes are of, where it is one."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in running:
        if each.cgroup.step not in _STEPS_OF_SLURM:
            found[each.job].add(each.cgroup.step)
    return {job: next(iter(steps)) for job, steps in found.items() if len(steps) == 1}


def _elsewhere(running: Iterable[_Running], given: Mapping[str, JobAllocation]) -> Counter[str]:
    """Targets that a job runs on although its allocation leaves them out."""
    out = {(each.job, uuid) for each in running if each.job in given for uuid in each.targets}
    return Counter(given[job].source for job, uuid in out if uuid not in given[job].targets)
