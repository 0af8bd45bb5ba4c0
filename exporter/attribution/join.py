"""One pass's answer to who runs and who holds what, from what the sources last said. Joining never waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from exporter.attribution import naming
from exporter.attribution.allocations import weights
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.job_owners import JobOwners, JobsNow
from exporter.attribution.kubernetes import Kubernetes
from exporter.attribution.naming import ContainerNames
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, SourceHealth, Target, WorkloadInfo
from exporter.attribution.pod_owners import PodOwners, PodsNow
from exporter.attribution.seen import Eyes, Seen
from exporter.attribution.slurm import Slurm
from exporter.host.model import HostProcess

LAST_OWNER_SECONDS = 60.0
"""A process that /proc no longer shows keeps its owner so long, while the driver still lists it."""


class Attribution:
    """Joins processes and allocations to owners. Used by one thread; the sources read in theirs."""

    def __init__(
        self,
        kubernetes: Kubernetes | None = None,
        slurm: Slurm | None = None,
        *,
        procfs: Path = Path("/proc"),
        containers: ContainerNames | None = None,
    ) -> None:
        self._kubernetes = kubernetes
        self._slurm = slurm
        self._pods = PodOwners(kubernetes) if kubernetes else None
        self._jobs = JobOwners(slurm, procfs) if slurm else None
        self._containers = containers or ContainerNames()
        self._eyes = Eyes()
        self._last: dict[int, tuple[Owner, float]] = {}
        """By pid: who it was when /proc last showed it, and when."""
        self._paths: dict[Owner, str] = {}

    def start(self) -> None:
        for source in (self._kubernetes, self._slurm):
            if source:
                source.start()

    def stop(self) -> None:
        for source in (self._kubernetes, self._slurm):
            if source:
                source.stop()

    def join(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: float,
    ) -> Ownership:
        """Owners of this pass. `processes` are pids by target uuid, `hosts` what /proc shows of them."""
        seen = self._eyes.see(targets, processes, hosts, now)
        pods = self._pods.join(seen) if self._pods else PodsNow()
        jobs = self._jobs.join(seen, pods.place) if self._jobs else JobsNow()
        owners = self._owners(seen, pods, jobs)
        given = _given(pods, jobs)
        runners = _runners(owners, processes)
        parts = {uuid: weights(given.get(uuid, {}), runners.get(uuid, ())) for uuid in {*given, *runners}}
        holders = {uuid: tuple(owner for owner in part if owner != NOBODY) for uuid, part in parts.items()}
        everyone = {*owners.values(), *(owner for held in holders.values() for owner in held)} - {NOBODY}
        self._paths = self._own_cgroups(everyone, owners, seen, jobs)
        return Ownership(
            processes=owners,
            holders={uuid: held for uuid, held in holders.items() if held},
            weights={(uuid, owner): part for uuid, each in parts.items() for owner, part in each.items()},
            cgroups=_unshared(self._paths),
            info={owner: _info(owner, pods, jobs) for owner in everyone},
            health=tuple(self._health(seen, pods, jobs)),
        )

    def _owners(self, seen: Seen, pods: PodsNow, jobs: JobsNow) -> Mapping[int, Owner]:
        same: dict[tuple[str, str, str, str], Owner] = {}
        owners: dict[int, Owner] = {}
        for pid in seen.places:
            cgroup = seen.cgroups.get(pid)
            if cgroup is None:
                owners[pid] = self._last_known(pid, seen.now)
                continue
            host = seen.hosts[pid]
            key = (host.cgroup, host.command, host.user, jobs.jobs.get(pid, ""))
            if key not in same:
                same[key] = self._owner(cgroup, host, pods, jobs, key[-1])
            owners[pid] = same[key]
        self._last = {
            pid: (owner, seen.now) if pid in seen.cgroups else self._last[pid]
            for pid, owner in owners.items()
            if pid in seen.cgroups or pid in self._last
        }
        return owners

    def _owner(self, cgroup: Cgroup, host: HostProcess, pods: PodsNow, jobs: JobsNow, job: str) -> Owner:
        if job:
            return jobs.owners.get(job, NOBODY)
        if cgroup.pod:
            place = pods.place(cgroup)
            if place:
                return naming.pod_owner(place)
            return NOBODY if cgroup.pod in pods.waiting else naming.nameless_pod(cgroup.pod)
        return naming.host_owner(cgroup, host.command, host.user, self._containers.name(cgroup))

    def _last_known(self, pid: int, now: float) -> Owner:
        owner, at = self._last.get(pid, (NOBODY, now))
        return owner if now - at <= LAST_OWNER_SECONDS else NOBODY

    def _own_cgroups(
        self, everyone: Iterable[Owner], owners: Mapping[int, Owner], seen: Seen, jobs: JobsNow
    ) -> dict[Owner, str]:
        """An owner keeps its cgroup for as long as it holds something, also with no process left to tell it."""
        found: dict[Owner, str] = {}
        for pid, cgroup in seen.cgroups.items():
            owner = owners[pid]
            path = naming.own_cgroup(owner, cgroup)
            if found.setdefault(owner, path) != path:  # several containers of a pod: the pod's own
                found[owner] = cgroup.pod_path if owner.kind == "pod" else ""
        found |= {owner: jobs.cgroups[job] for job, owner in jobs.owners.items() if job in jobs.cgroups}
        return {owner: path for owner in everyone if (path := found.get(owner) or self._paths.get(owner, ""))}

    def _health(self, seen: Seen, pods: PodsNow, jobs: JobsNow) -> Iterator[SourceHealth]:
        if seen.places:
            yield SourceHealth("cgroup", bool(seen.cgroups), 0.0)
        if self._kubernetes:
            yield from self._kubernetes.health(seen.now, pods.conflicts)
        if self._slurm:
            yield from self._slurm.health(seen.now, jobs.conflicts)


def _given(pods: PodsNow, jobs: JobsNow) -> Mapping[str, Mapping[Owner, float | None]]:
    """By target: those it was given to, with the amount each has. A job in a pod outranks the pod it runs in."""
    found: dict[str, dict[Owner, float | None]] = defaultdict(dict)
    for job, allocation in jobs.given.items():
        owner = jobs.owners.get(job)
        if owner:
            for uuid, amount in allocation.targets.items():
                found[uuid][owner] = amount
    for place, amounts in pods.given.items():
        for uuid, amount in amounts.items():
            if not any((owner.namespace, owner.pod) == (place.namespace, place.pod) for owner in found[uuid]):
                found[uuid][naming.pod_owner(place)] = amount
    return found


def _runners(owners: Mapping[int, Owner], processes: Mapping[str, Sequence[int]]) -> Mapping[str, tuple[Owner, ...]]:
    return {uuid: tuple(dict.fromkeys(owners[pid] for pid in pids)) for uuid, pids in processes.items() if pids}


def _unshared(paths: Mapping[Owner, str]) -> Mapping[Owner, str]:
    """Without the cgroups that several owners are in: what they used cannot be told apart."""
    users = Counter(paths.values())
    return {owner: path for owner, path in paths.items() if users[path] == 1}


def _info(owner: Owner, pods: PodsNow, jobs: JobsNow) -> WorkloadInfo:
    if owner in jobs.info:
        return jobs.info[owner]
    return pods.info(owner) if owner.kind == "pod" else WorkloadInfo()
