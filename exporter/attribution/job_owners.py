"""Slurm jobs in one pass: those that run, those that only hold, and the names of both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution import naming, slurm_environ
from exporter.attribution.allocations import JobAllocation, job_allocations
from exporter.attribution.cgroup import Cgroup, parse_path
from exporter.attribution.naming import NO_POD, PodPlace
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.seen import HOLD_SECONDS, FirstSeen, Kin, Seen
from exporter.attribution.slurm import MAPPING, Slurm
from exporter.attribution.slurm_environ import Claimed

_SLURMD = ("slurmd.service", "slurmstepd.scope")
_STEPS_OF_SLURM = ("extern", "")


@dataclass(frozen=True, slots=True)
class JobsNow:
    """What one pass knows of jobs. One without an owner is waiting for its name."""

    sluids: Mapping[str, str] = field(default_factory=dict[str, str])
    strays: Mapping[int, str] = field(default_factory=dict[int, str])
    """Pid to job, of processes that Slurm tracks without cgroups."""
    owners: Mapping[str, Owner] = field(default_factory=dict[str, Owner])
    given: Mapping[str, JobAllocation] = field(default_factory=dict[str, JobAllocation])
    cgroups: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    conflicts: Mapping[str, int] = field(default_factory=dict[str, int])

    def of(self, cgroup: Cgroup) -> str:
        """The raw id of the cgroup's job; the SLUID itself while its id is not known; empty where it is none's."""
        return self.sluids.get(cgroup.sluid, "") or cgroup.sluid if cgroup.sluid else cgroup.job


@dataclass(frozen=True, slots=True)
class _Running:
    """A job's processes of one kind."""

    job: str
    cgroup: Cgroup
    user: str
    targets: Collection[str]


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
        told = JobsNow(sluids=node.sluids)
        running = [_Running(job, kin.cgroup, kin.user, kin.targets) for kin in seen.kin if (job := told.of(kin.cgroup))]
        claims = self._read_strays(seen) if node.present or running else dict[int, Claimed]()
        strays = {pid: claim.job for pid, claim in claims.items() if claim.job}
        everyone = {*(each.job for each in running), *strays.values(), *self._slurm.present()}
        given, conflicts = job_allocations(
            {job: self._slurm.held(job, self._claimed(job)) for job in everyone}, seen.devices
        )
        trust = dict.fromkeys((job for job, each in given.items() if each.low_trust), naming.LOW)
        trust |= dict.fromkeys(strays.values(), naming.LOW)
        inferred = _inferred(seen, claims, given)
        trust |= dict.fromkeys(inferred.values(), naming.INFERRED)
        strays |= inferred
        running += _as_running(strays, seen)
        self._ask(everyone, running)
        self._first.update(everyone, seen.now)
        self._pods = self._places(everyone, running, pod_of)
        users = _users(running)
        owners = {job: self._owner(job, users.get(job, "")) for job in everyone if not self._waits(job, seen.now)}
        steps = _steps(running)
        return JobsNow(
            sluids=node.sluids,
            strays=strays,
            owners=owners,
            given=given,
            cgroups={each.job: each.cgroup.job_path for each in running if each.cgroup.job_path} | dict(node.cgroups),
            info={
                owner: naming.job_info(
                    self._slurm.job(job), self._claimed(job), steps.get(job, ""), trust.get(job, naming.EXACT)
                )
                for job, owner in owners.items()
            },
            conflicts=Counter(conflicts) + _elsewhere(running, given),
        )

    def _ask(self, jobs: Iterable[str], running: Iterable[_Running]) -> None:
        parents = {each.cgroup.job_path.rpartition("/")[0] for each in running if each.cgroup.job_path}
        self._slurm.noticed({job for job in jobs if job.isdecimal()}, parents)

    def _waits(self, job: str, now: float) -> bool:
        return self._slurm.job(job) is None and self._slurm.pending(job) and self._first.age(job, now) < HOLD_SECONDS

    def _owner(self, job: str, user: str) -> Owner:
        user = user or self._slurm.node.users.get(job, "")
        return naming.job_owner(job, self._slurm.job(job), self._claimed(job), user, self._pods.get(job, NO_POD))

    def _claimed(self, job: str) -> Claimed | None:
        found = self._slurm.node.claimed.get(job)
        return found or next((claim for claim in self._strays.values() if claim.job == job), None)

    def _places(
        self, everyone: Iterable[str], running: Iterable[_Running], pod_of: Callable[[Cgroup], PodPlace | None]
    ) -> dict[str, PodPlace]:
        """Pods that jobs run in, by their processes or by where their cgroup is; once known, it stays."""
        inside = {each.job: each.cgroup for each in running if each.cgroup.pod}
        for job, path in self._slurm.node.cgroups.items():
            if "pod" in path and job not in inside:
                inside[job] = parse_path(path)
        found = {job: place for job, cgroup in inside.items() if cgroup.pod and (place := pod_of(cgroup))}
        return {job: place for job in everyone if (place := self._pods.get(job) or found.get(job))}

    def _read_strays(self, seen: Seen) -> Mapping[int, Claimed]:
        """What processes say that Slurm may track without cgroups; each is read once."""
        strays = [pid for kin in seen.kin if _may_be_slurms(kin.cgroup) for pid in kin.pids]
        keys = {pid: (pid, seen.hosts[pid].start_time) for pid in strays}
        self._strays = {
            key: self._strays.get(key) or slurm_environ.read(pid, self._procfs) for pid, key in keys.items()
        }
        return {pid: self._strays[key] for pid, key in keys.items()}


def _may_be_slurms(cgroup: Cgroup) -> bool:
    told = cgroup.job or cgroup.sluid or cgroup.pod or cgroup.container
    return not told and (not cgroup.unit or cgroup.unit.endswith(_SLURMD))


def _inferred(seen: Seen, claims: Mapping[int, Claimed], given: Mapping[str, JobAllocation]) -> Mapping[int, str]:
    """Slurm's processes that do not say whose they are: of the only job that the prolog's files put on their GPU."""
    slurmds = {pid for kin in seen.kin if kin.cgroup.unit.endswith(_SLURMD) for pid in kin.pids}
    silent = [pid for pid, claim in claims.items() if not claim.job and pid in slurmds]
    return {pid: job for pid in silent if (job := _sole_holder(seen.targets_of(pid), given))}


def _sole_holder(uuids: Iterable[str], given: Mapping[str, JobAllocation]) -> str:
    wanted = set(uuids)
    holders = [job for job, each in given.items() if each.source == MAPPING and wanted & each.targets.keys()]
    return holders[0] if len(holders) == 1 else ""


def _as_running(strays: Mapping[int, str], seen: Seen) -> Iterator[_Running]:
    kinds = {pid: kin for kin in seen.kin for pid in kin.pids if pid in strays} if strays else dict[int, Kin]()
    for pid, job in strays.items():
        yield _Running(job, kinds[pid].cgroup, kinds[pid].user, seen.targets_of(pid))


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
