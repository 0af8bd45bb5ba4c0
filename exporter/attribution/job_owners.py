"""Slurm jobs in one pass: those that run, those that only hold, and the names of both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution import naming, slurm_environ
from exporter.attribution.allocations import JobAllocation, job_allocations
from exporter.attribution.cgroup import Cgroup, parse_path
from exporter.attribution.naming import NO_POD, PodPlace
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.seen import HOLD_SECONDS, FirstSeen, Seen
from exporter.attribution.slurm import MAPPING, Slurm
from exporter.attribution.slurm_environ import Claimed

_SLURMD = ("slurmd.service", "slurmstepd.scope")
_STEPS_OF_SLURM = ("extern", "")


@dataclass(frozen=True, slots=True)
class JobsNow:
    """What one pass knows of jobs. One without an owner is waiting for its name."""

    jobs: Mapping[int, str] = field(default_factory=dict[int, str])
    """By pid."""
    owners: Mapping[str, Owner] = field(default_factory=dict[str, Owner])
    given: Mapping[str, JobAllocation] = field(default_factory=dict[str, JobAllocation])
    cgroups: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    conflicts: Mapping[str, int] = field(default_factory=dict[str, int])


class JobOwners:
    """Joins jobs; keeps what it has read of processes outside job cgroups, and where jobs run in pods."""

    def __init__(self, slurm: Slurm, procfs: Path) -> None:
        self._slurm = slurm
        self._procfs = procfs
        self._first = FirstSeen()
        self._strays: dict[tuple[int, float], Claimed] = {}
        self._pods: dict[str, PodPlace] = {}

    def join(self, seen: Seen, pod_of: Callable[[Cgroup], PodPlace | None]) -> JobsNow:
        """`pod_of` tells the pod of a cgroup, for Slurm runs in pods too."""
        node = self._slurm.node
        jobs = {pid: job for pid, cgroup in seen.cgroups.items() if (job := self._by_cgroup(cgroup))}
        stray = self._read_strays(seen, jobs if node.present else seen.cgroups)
        jobs |= {pid: claim.job for pid, claim in stray.items() if claim.job}
        everyone = {*jobs.values(), *node.cgroups, *node.mapped}
        given, conflicts = job_allocations(
            {job: self._slurm.held(job, self._claimed(job)) for job in everyone}, seen.devices
        )
        trust = dict.fromkeys((job for job, each in given.items() if each.low_trust), naming.LOW)
        trust |= {claim.job: naming.LOW for claim in stray.values()}
        unnamed = [pid for pid, claim in stray.items() if not claim.job and seen.cgroups[pid].unit.endswith(_SLURMD)]
        inferred = {pid: job for pid in unnamed if (job := _sole_holder(seen.places[pid], given))}
        trust |= dict.fromkeys(inferred.values(), naming.INFERRED)
        jobs |= inferred
        self._ask(everyone, seen)
        self._first.update(everyone, seen.now)
        self._pods = {job: place for job in everyone if (place := self._pod(job, jobs, seen, pod_of))}
        users = _users(jobs, seen)
        owners = {job: self._owner(job, users.get(job, "")) for job in everyone if not self._waits(job, seen.now)}
        steps = _steps(jobs, seen)
        info = {
            owner: naming.job_info(
                self._slurm.job(job), self._claimed(job), steps.get(job, ""), trust.get(job, naming.EXACT)
            )
            for job, owner in owners.items()
        }
        return JobsNow(
            jobs=jobs,
            owners=owners,
            given=given,
            cgroups={jobs[pid]: cgroup.job_path for pid, cgroup in seen.cgroups.items() if cgroup.job_path}
            | dict(node.cgroups),
            info=info,
            conflicts=Counter(conflicts) + _elsewhere(jobs, given, seen),
        )

    def _by_cgroup(self, cgroup: Cgroup) -> str:
        if cgroup.sluid:
            return self._slurm.node.sluids.get(cgroup.sluid, "") or cgroup.sluid
        return cgroup.job

    def _ask(self, jobs: set[str], seen: Seen) -> None:
        parents = {cgroup.job_path.rpartition("/")[0] for cgroup in seen.cgroups.values() if cgroup.job_path}
        self._slurm.noticed({job for job in jobs if job.isdecimal()}, parents)

    def _waits(self, job: str, now: float) -> bool:
        return self._slurm.job(job) is None and self._slurm.pending(job) and self._first.age(job, now) < HOLD_SECONDS

    def _owner(self, job: str, user: str) -> Owner:
        user = user or self._slurm.node.users.get(job, "")
        return naming.job_owner(job, self._slurm.job(job), self._claimed(job), user, self._pods.get(job, NO_POD))

    def _claimed(self, job: str) -> Claimed | None:
        found = self._slurm.node.claimed.get(job)
        return found or next((claim for claim in self._strays.values() if claim.job == job), None)

    def _pod(
        self, job: str, jobs: Mapping[int, str], seen: Seen, pod_of: Callable[[Cgroup], PodPlace | None]
    ) -> PodPlace | None:
        if job in self._pods:
            return self._pods[job]
        path = self._slurm.node.cgroups.get(job)
        cgroups = [seen.cgroups[pid] for pid, each in jobs.items() if each == job]
        cgroups += [parse_path(path)] if path else []
        return next((place for cgroup in cgroups if cgroup.pod and (place := pod_of(cgroup))), None)

    def _read_strays(self, seen: Seen, named: Container[int]) -> Mapping[int, Claimed]:
        """What processes say that Slurm may track without cgroups; each is read once."""
        strays = [pid for pid, cgroup in seen.cgroups.items() if pid not in named and _may_be_slurms(cgroup)]
        keys = {pid: (pid, seen.hosts[pid].start_time) for pid in strays}
        self._strays = {
            key: self._strays.get(key) or slurm_environ.read(pid, self._procfs) for pid, key in keys.items()
        }
        return {pid: self._strays[key] for pid, key in keys.items()}


def _may_be_slurms(cgroup: Cgroup) -> bool:
    return not (cgroup.pod or cgroup.container) and (not cgroup.unit or cgroup.unit.endswith(_SLURMD))


def _sole_holder(uuids: Iterable[str], given: Mapping[str, JobAllocation]) -> str:
    """The only job that the prolog's files say holds one of these targets."""
    wanted = set(uuids)
    holders = [job for job, each in given.items() if each.source == MAPPING and wanted & each.targets.keys()]
    return holders[0] if len(holders) == 1 else ""


def _users(jobs: Mapping[int, str], seen: Seen) -> Mapping[str, str]:
    """Who a job's processes run as; root only where nobody else does."""
    found: dict[str, set[str]] = defaultdict(set)
    for pid, job in jobs.items():
        found[job].add(seen.hosts[pid].user)
    return {job: min(users - {"root", ""} or users) for job, users in found.items()}


def _steps(jobs: Mapping[int, str], seen: Seen) -> Mapping[str, str]:
    """The step that a job's processes are of, where it is one."""
    found: dict[str, set[str]] = defaultdict(set)
    for pid, job in jobs.items():
        step = seen.cgroups[pid].step
        if step not in _STEPS_OF_SLURM:
            found[job].add(step)
    return {job: next(iter(steps)) for job, steps in found.items() if len(steps) == 1}


def _elsewhere(jobs: Mapping[int, str], given: Mapping[str, JobAllocation], seen: Seen) -> Counter[str]:
    """Targets that a job runs on although its allocation leaves them out."""
    out = {(job, uuid) for pid, job in jobs.items() if job in given for uuid in seen.places[pid]}
    return Counter(given[job].source for job, uuid in out if uuid not in given[job].targets)
