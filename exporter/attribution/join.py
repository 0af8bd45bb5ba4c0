"""One pass's answer to who runs and who holds what, from what the sources last reported. Joining never waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from exporter.attribution import naming
from exporter.attribution.allocations import Amounts, weights, within_pods
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.containers.names import ContainerNames
from exporter.attribution.host_owners import HostNow, HostOwners
from exporter.attribution.kubernetes.pod_owners import PodOwners, PodsNow
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesView
from exporter.attribution.nomad.source import Nomad, NomadView
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, SourceHealth, Target, WorkloadInfo
from exporter.attribution.process_index import ProcessGroup, ProcessIndex, ProcessIndexer
from exporter.attribution.slurm.job_owners import JobOwners, JobsNow
from exporter.attribution.slurm.local_view import NodeView
from exporter.attribution.slurm.source import Slurm
from exporter.attribution.unreserved import UnreservedUse, unsure_of
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.core.threads import Threads
from exporter.host.model import HostProcess

LAST_OWNER_SECONDS = 60.0
"""A process that /proc no longer shows keeps its owner so long, if the driver still lists it."""
_ANEW_SECONDS = 30.0
"""All is joined anew this often, changed or not: so the parts know who was there lately."""


class _Run(NamedTuple):
    """An owner on some targets, by processes of one cgroup."""

    owner: Owner
    cgroup: Cgroup
    targets: Collection[str]
    serves_clients: bool = False


class _Sources(NamedTuple):
    """What the sources reported when they were asked for a join."""

    kubernetes: KubernetesView | None
    slurm: NodeView | None
    nomad: NomadView | None


@record
class _Joined:
    """A join, and what it was made of."""

    index: ProcessIndex
    sources: _Sources
    pods: PodsNow
    jobs: JobsNow
    ownership: Ownership
    settled: bool
    """It stays as it is for as long as what it was made of does: no name is waited for, and nothing runs out."""

    def holds(self, index: ProcessIndex, sources: _Sources) -> bool:
        young = index.now - self.index.now < _ANEW_SECONDS
        return self.settled and young and index.same(self.index) and sources == self.sources


class Attribution:
    """Joins processes and allocations to owners. Used by one thread; the sources read in theirs."""

    def __init__(
        self,
        kubernetes: Kubernetes | None = None,
        slurm: Slurm | None = None,
        nomad: Nomad | None = None,
        *,
        procfs: Path = Path("/proc"),
        cgroupfs: Path = Path("/sys/fs/cgroup"),
        containers: ContainerNames | None = None,
    ) -> None:
        self._kubernetes = kubernetes
        self._slurm = slurm
        self._nomad = nomad
        self._pods = PodOwners(kubernetes) if kubernetes else None
        self._jobs = JobOwners(slurm, procfs) if slurm else None
        self._host = HostOwners(containers or ContainerNames(), nomad)
        self._unreserved = UnreservedUse()
        self._indexer = ProcessIndexer(cgroupfs)
        self._joined: _Joined | None = None
        """The last one."""
        self._last: Mapping[int, Owner] = {}
        self._gone: dict[int, tuple[Owner, MonotonicTime]] = {}
        """By pid: the last owner, and since when /proc does not show it."""
        self._paths: dict[Owner, str] = {}

    def start(self, threads: Threads | None = None) -> None:
        threads = threads or Threads()
        for source in (self._kubernetes, self._slurm, self._jobs, self._host):
            if source:
                source.start(threads)

    def stop(self) -> None:
        for source in (self._kubernetes, self._slurm, self._jobs, self._host):
            if source:
                source.stop()

    def join(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: MonotonicTime,
    ) -> Ownership:
        """Owners of this pass. `processes` are pids by target uuid, `hosts` what /proc shows of them.

        Where nothing has changed, what it consists of are the same objects again, but for `health`.
        """
        index, sources = self._indexer.index(targets, processes, hosts, now), self._sources(now)
        joined = self._joined
        if joined is None or not joined.holds(index, sources):
            joined = self._joined = self._join(index, sources)
        return replace(joined.ownership, health=tuple(self._health(index, joined.pods, joined.jobs)))

    def _sources(self, now: MonotonicTime) -> _Sources:
        return _Sources(
            self._kubernetes.view(now) if self._kubernetes else None,
            self._slurm.node if self._slurm else None,
            self._nomad.view(now) if self._nomad else None,
        )

    def _join(self, read: ProcessIndex, sources: _Sources) -> _Joined:
        index = self._pods.outward(read) if self._pods else read
        pods = self._pods.join(index, self._jobs.in_pods() if self._jobs else ()) if self._pods else PodsNow()
        jobs = self._jobs.join(index, pods.place) if self._jobs else JobsNow()
        host = self._host.join(index)
        owners, running = self._owners(index, pods, jobs, host)
        given = _given(pods, jobs, host)
        runners = _runners(running)
        parts = {
            uuid: weights(within_pods(given.get(uuid, {}), runners.get(uuid, ())), runners.get(uuid, ()))
            for uuid in {*given, *runners}
        }
        holders = {uuid: tuple(owner for owner in part if owner != NOBODY) for uuid, part in parts.items()}
        everyone = {owner for held in holders.values() for owner in held}
        self._paths = self._own_cgroups(everyone, running, jobs)
        ownership = Ownership(
            processes=owners,
            holders={uuid: held for uuid, held in holders.items() if held},
            weights={(uuid, owner): part for uuid, each in parts.items() for owner, part in each.items()},
            unreserved=self._unreserved.of(
                given,
                {*pods.offered, *jobs.offered, *host.offered},
                _runners(run for run in running if not run.serves_clients),
                unsure_of(pods, jobs, host),
                index.now,
            ),
            cgroups=_unshared(self._paths),
            info={owner: _info(owner, pods, jobs, host) for owner in everyone},
        )
        open_ = (pods.open, jobs.open, host.open, self._unreserved.open, self._gone.keys() & index.unseen)
        return _Joined(read, sources, pods, jobs, ownership, settled=not any(open_))

    def _owners(
        self, index: ProcessIndex, pods: PodsNow, jobs: JobsNow, host: HostNow
    ) -> tuple[Mapping[int, Owner], Sequence[_Run]]:
        """Owner by pid, and the few kinds of process with theirs."""
        owners: dict[int, Owner] = {}
        running: list[_Run] = []
        for group in index.groups:
            own = group.pids - jobs.untracked.keys()
            if own:
                owner = self._owner(group, pods, jobs, host)
                owners.update(dict.fromkeys(own, owner))
                targets = group.targets if len(own) == len(group.pids) else _targets(own, index)
                running.append(_Run(owner, group.cgroup, targets, group.serves_clients))
        for pid, job in jobs.untracked.items():
            owner = jobs.owners.get(job, NOBODY)
            running.append(_Run(owner, Cgroup(), index.targets_of(pid)))
            owners[pid] = owner
        self._remember(owners, index.now)
        kept = {pid: self._gone[pid][0] if pid in self._gone else NOBODY for pid in index.unseen}
        running += [_Run(owner, Cgroup(), index.targets_of(pid)) for pid, owner in kept.items()]
        return owners | kept, running

    def _remember(self, owners: Mapping[int, Owner], now: MonotonicTime) -> None:
        gone = self._gone | {pid: (self._last[pid], now) for pid in self._last.keys() - owners.keys()}
        self._gone = {pid: entry for pid, entry in gone.items() if now - entry[1] < LAST_OWNER_SECONDS}
        self._last = owners

    def _owner(self, group: ProcessGroup, pods: PodsNow, jobs: JobsNow, host: HostNow) -> Owner:
        cgroup = group.cgroup
        job = jobs.job_of(cgroup)
        if jobs.left_by(cgroup) and not cgroup.pod:
            return naming.host_owner(Cgroup(), group.command, group.user)
        if job:
            return jobs.owners.get(job, NOBODY if self._jobs else naming.job_owner(job, None, None, group.user))
        if cgroup.pod:
            place = pods.place(cgroup)
            if place:
                return pods.owner(place) or NOBODY
            return NOBODY if cgroup.pod in pods.waiting else naming.nameless_pod(cgroup.pod)
        return host.owner(group)

    def _own_cgroups(self, everyone: Iterable[Owner], running: Iterable[_Run], jobs: JobsNow) -> dict[Owner, str]:
        """An owner keeps its cgroup for as long as it holds something, also with no process left to tell it."""
        found: dict[Owner, str] = {}
        for owner, cgroup, *_ in running:
            path = naming.own_cgroup(owner, cgroup)
            if found.setdefault(owner, path) != path:  # several containers of a pod: the pod's own
                found[owner] = cgroup.pod_path if owner.kind == "pod" else ""
        found |= {owner: jobs.cgroups[job] for job, owner in jobs.owners.items() if job in jobs.cgroups}
        return {owner: path for owner in everyone if (path := found.get(owner) or self._paths.get(owner, ""))}

    def _health(self, index: ProcessIndex, pods: PodsNow, jobs: JobsNow) -> Iterator[SourceHealth]:
        if index.groups or index.unseen:
            yield SourceHealth("cgroup", bool(index.groups), 0.0)
        if self._kubernetes:
            yield from self._kubernetes.health(index.now, pods.conflicts, pods.unresolved)
        if self._slurm:
            yield from self._slurm.health(index.now, jobs.conflicts, jobs.unresolved)
        if self._jobs:
            yield from self._jobs.health(jobs.conflicts)
        yield from self._host.health(index.now)


def _given(pods: PodsNow, jobs: JobsNow, host: HostNow) -> Mapping[str, Mapping[Owner, float | None]]:
    """By target: those it was given to, with the amount each has. A job in a pod outranks the pod it runs in."""
    found: dict[str, dict[Owner, float | None]] = defaultdict(dict)
    for owner, amounts in (*_given_to_jobs(pods, jobs, host), *host.given.items()):
        for uuid, amount in amounts.items():
            found[uuid][owner] = amount
    for place, amounts in pods.given.items():
        pod = pods.owner(place)
        for uuid, amount in amounts.items() if pod else ():
            if not any(owner.slurm_job and owner.pod_name == (place.namespace, place.pod) for owner in found[uuid]):
                found[uuid][cast("Owner", pod)] = amount
    return found


def _given_to_jobs(pods: PodsNow, jobs: JobsNow, host: HostNow) -> Iterator[tuple[Owner, Amounts]]:
    """A job's own word takes nothing that somebody else was given, or shares, by a better one: its user wrote it."""
    sure = {uuid for each in jobs.given.values() if not each.low_trust for uuid in each.targets}
    sure.update(*host.given.values())
    in_pods: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for place, amounts in pods.given.items():
        for uuid in amounts:
            in_pods[uuid].add((place.namespace, place.pod))
    for job, allocation in jobs.given.items():
        owner = jobs.owners.get(job)
        if owner is None:
            continue
        own = (owner.namespace, owner.pod)
        yield (
            owner,
            {
                uuid: amount
                for uuid, amount in allocation.targets.items()
                if not allocation.low_trust or (uuid not in sure and own in in_pods.get(uuid, {own}))
            },
        )


def _targets(pids: Iterable[int], index: ProcessIndex) -> set[str]:
    return {uuid for pid in pids for uuid in index.targets_of(pid)}


def _runners(running: Iterable[_Run]) -> Mapping[str, tuple[Owner, ...]]:
    """By target, without repeats."""
    found: dict[str, dict[Owner, None]] = defaultdict(dict)
    for owner, _, targets, _ in running:
        for uuid in targets:
            found[uuid][owner] = None
    return {uuid: tuple(owners) for uuid, owners in found.items()}


def _unshared(paths: Mapping[Owner, str]) -> Mapping[Owner, str]:
    """Without the cgroups that several owners are in: what they used cannot be distinguished."""
    users = Counter(paths.values())
    return {owner: path for owner, path in paths.items() if users[path] == 1}


def _info(owner: Owner, pods: PodsNow, jobs: JobsNow, host: HostNow) -> WorkloadInfo:
    found = jobs.info.get(owner) or host.info.get(owner)
    return found or (pods.info(owner) if owner.kind == "pod" else WorkloadInfo())
