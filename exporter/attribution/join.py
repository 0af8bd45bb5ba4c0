"""Owners of processes and of allocations in one sampling cycle, by the last reports of the sources. Never waits.

Two rules join the sources, which stand in order of trust:
- The first source that knows a process is believed. Labels that it leaves empty come from the next ones.
- What an owner was allocated, and who was allocated a GPU, comes from the most trusted source that says so, alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from exporter.attribution.owner import NOBODY, Owner, Ownership, SourceHealth, Target, WorkloadInfo
from exporter.attribution.source import Match, OwnerSource, ProcessIndex, ProcessIndexer, View
from exporter.core.clock import MonotonicTime
from exporter.core.threads import Threads
from exporter.core.units import Fraction
from exporter.host.model import HostProcess

K = TypeVar("K")

LAST_OWNER_SECONDS = 60.0
"""A process that /proc no longer shows keeps its owner so long, if the driver still lists it."""


class _Run(NamedTuple):
    """An owner on some targets."""

    owner: Owner
    targets: Collection[str]
    own_work: bool
    """False for kernels that a server runs for its clients, and for a process that /proc no longer shows."""


class Attribution:
    """Joins processes and allocations to owners. Used by one thread; the sources read in theirs."""

    def __init__(self, sources: Iterable[OwnerSource], cgroupfs: Path = Path("/sys/fs/cgroup")) -> None:
        """`sources` are in order of trust."""
        self._sources = tuple(sources)
        self._readers = [reader for source in self._sources for reader in source.readers]
        self._unallocated = UnallocatedUse()
        self._indexer = ProcessIndexer(cgroupfs)
        self._last = Ownership()
        self._labels: Mapping[Owner, Owner] = {}
        """Owner of a source to the same owner with the labels that other sources added once."""
        self._gone: dict[int, tuple[Owner, MonotonicTime]] = {}
        """Last owner by pid, and the time since which /proc does not show it."""
        self._named: Mapping[int, Owner] = {}
        self._paths: Mapping[Owner, str] = {}

    def start(self, threads: Threads | None = None) -> None:
        threads = threads or Threads()
        for reader in self._readers:
            reader.start(threads)

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()

    def join(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: MonotonicTime,
    ) -> Ownership:
        """Return the owners of one cycle. `processes` are pids by target uuid, `hosts` what /proc shows of them.

        Each source is shown the cgroups of the owners that those before it know.
        """
        index = self._indexer.index(targets, processes, hosts)
        views: list[View] = []
        for source in self._sources:
            view = source.view(index, now)
            views.append(view)
            index = index.beside(view.cgroups.values())
        self._last = self._join_views(index, views, now)
        return self._last

    def _join_views(self, index: ProcessIndex, views: Sequence[View], now: MonotonicTime) -> Ownership:
        names = [view.names for view in views if view.names]
        matches = {pid: tuple(_known_matches(pid, names)) for group in index.groups for pid in group.pids}
        self._labels = self._complete_labels(matches, views)
        if self._labels:
            views = [_relabel_view(view, self._labels) for view in views]
        owners, running = self._owners(index, matches, now)
        allocated = allocations(views)
        runners = _runners_by_target(running)
        parts = {
            uuid: weights(within_pods(allocated.get(uuid, {}), runners.get(uuid, ())), runners.get(uuid, ()))
            for uuid in {*allocated, *runners}
        }
        holders = {uuid: tuple(owner for owner in part if owner != NOBODY) for uuid, part in parts.items()}
        everyone = {owner for owners in holders.values() for owner in owners}
        infos = {owner: info for view in reversed(views) for owner, info in view.info.items()}
        cgroup_health = [SourceHealth("cgroup", bool(index.groups), 0.0)] if index.groups or index.unseen else []
        allocated_by_any: dict[str, set[Owner]] = defaultdict(set)
        for view in views:
            for owner, amounts in view.allocated.items():
                for uuid in amounts:
                    allocated_by_any[uuid].add(owner)
        return Ownership(
            processes=owners,
            holders={uuid: owners for uuid, owners in holders.items() if owners},
            weights={(uuid, owner): part for uuid, each in parts.items() for owner, part in each.items()},
            unallocated=self._unallocated.of(
                allocated_by_any,
                frozenset[str]().union(*(view.offered for view in views)),
                _runners_by_target(run for run in running if run.own_work),
                frozenset[Owner]().union(*(view.unsure for view in views)),
                now,
            ),
            cgroups=self._own_cgroups(everyone, views),
            info={owner: infos.get(owner) or self._last.info.get(owner) or WorkloadInfo() for owner in everyone},
            health=(*cgroup_health, *(health for view in views for health in view.health)),
            ended={name: end for view in reversed(views) for name, end in view.ended.items()},
        )

    def _complete_labels(self, matches: Mapping[int, Sequence[Match]], views: Sequence[View]) -> Mapping[Owner, Owner]:
        """Return owners with labels from less trusted sources. A label on which its processes differ stays empty.

        Once complete, an owner stays as it is for as long as it is there: labels of a series never change.
        """
        by_path = [view.places for view in views if view.places]
        places = {path: tuple(_known_matches(path, by_path)) for each in by_path for path in each}
        known = {owner for view in views for owner in (*view.allocated, *view.cgroups, *view.info)}
        at = {path: owner for view in reversed(views) for owner, path in view.cgroups.items() if path in places}
        found: dict[Owner, set[Owner]] = defaultdict(set)
        for first, *rest in set(matches.values()) - {()}:
            known.add(first.owner)
            if rest and first.owner != NOBODY:
                found[first.owner].add(_fill_labels(first.owner, rest))
        for path, owner in at.items():
            found[owner].add(_fill_labels(owner, places[path]))
        fresh = {
            owner: Owner(*(more[0] if len(set(more)) == 1 else own for own, *more in zip(owner, *filled, strict=True)))
            for owner, filled in found.items()
        }
        kept = {owner: label for owner, label in self._labels.items() if owner in known and owner != label}
        return {**fresh, **kept}

    def _owners(
        self, index: ProcessIndex, matches: Mapping[int, Sequence[Match]], now: MonotonicTime
    ) -> tuple[Mapping[int, Owner], Sequence[_Run]]:
        """Return the owner by pid, and what each of them runs on."""
        owners: dict[int, Owner] = {}
        running: list[_Run] = []
        for group in index.groups:
            for pid in group.pids:
                owner = matches[pid][0].owner if matches[pid] else NOBODY
                owners[pid] = self._labels.get(owner, owner)
            own = {owners[pid] for pid in group.pids}
            for owner in own:
                pids = [pid for pid in group.pids if owners[pid] == owner]
                targets = group.targets if len(own) == 1 else {uuid for pid in pids for uuid in index.targets_of(pid)}
                running.append(_Run(owner, targets, not group.serves_clients))
        gone = self._gone | {pid: (self._named[pid], now) for pid in self._named.keys() - owners.keys()}
        self._gone = {pid: entry for pid, entry in gone.items() if now - entry[1] < LAST_OWNER_SECONDS}
        self._named = owners
        kept = {pid: self._gone[pid][0] if pid in self._gone else NOBODY for pid in index.unseen}
        running += [_Run(owner, index.targets_of(pid), own_work=False) for pid, owner in kept.items()]
        return owners | kept, running

    def _own_cgroups(self, everyone: Iterable[Owner], views: Sequence[View]) -> Mapping[Owner, str]:
        """Return cgroups that are one owner's alone: what several in one used cannot be told apart.

        An owner keeps its cgroup for as long as it has something, also with no process left to tell it.
        """
        found = {owner: path for view in reversed(views) for owner, path in view.cgroups.items()}
        self._paths = {owner: path for owner in everyone if (path := found.get(owner) or self._paths.get(owner, ""))}
        users = Counter(self._paths.values())
        return {owner: path for owner, path in self._paths.items() if users[path] == 1}


def allocations(views: Iterable[View]) -> Mapping[str, Mapping[Owner, float | None]]:
    """Return, by target, the owners that it was allocated to, with the amount of each."""
    found: dict[str, dict[Owner, float | None]] = {}
    known: set[Owner] = set()
    for view in views:
        own: dict[str, dict[Owner, float | None]] = defaultdict(dict)
        for owner, amounts in view.allocated.items():
            for uuid, amount in amounts.items() if owner not in known else ():
                if uuid not in found:
                    own[uuid][owner] = amount
        found |= own
        known |= view.allocated.keys()
    return found


def _known_matches(key: K, words: Iterable[Mapping[K, Match]]) -> Iterator[Match]:
    """Yield the word of each source that knows a process or a place."""
    return (match for each in words if (match := each.get(key)) is not None)


def _fill_labels(owner: Owner, others: Iterable[Match]) -> Owner:
    """Return an owner with the labels that others fill in."""
    for other in others:
        owner = Owner(*(own or more for own, more in zip(owner, other.owner, strict=True)))
    return owner


def _relabel_view(view: View, labels: Mapping[Owner, Owner]) -> View:
    return replace(
        view,
        allocated={labels.get(owner, owner): each for owner, each in view.allocated.items()},
        info={labels.get(owner, owner): each for owner, each in view.info.items()},
        cgroups={labels.get(owner, owner): each for owner, each in view.cgroups.items()},
        unsure=frozenset(labels.get(owner, owner) for owner in view.unsure),
    )


def _runners_by_target(running: Iterable[_Run]) -> Mapping[str, tuple[Owner, ...]]:
    """Return the owners by target, without repeats."""
    found: dict[str, dict[Owner, None]] = defaultdict(dict)
    for run in running:
        for uuid in run.targets:
            found[uuid][run.owner] = None
    return {uuid: tuple(owners) for uuid, owners in found.items()}


def within_pods(allocated: Mapping[Owner, float | None], runners: Collection[Owner]) -> Mapping[Owner, float | None]:
    """Return the amounts of a target with those of each pod moved to its containers that run there.

    If none of the listed containers runs, the pod's other processes have it: the kubelet lists no init container and no
    workload of another scheduler inside.
    """
    pods: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner in allocated:
        if owner.kind == "pod":
            pods[owner.pod_name].append(owner)
    found = dict(allocated)
    for name, containers in pods.items():
        running = [owner for owner in containers if owner in runners]
        running = running or [owner for owner in runners if owner.pod_name == name]
        if not running or running == containers:
            continue
        amounts = [found.pop(owner) for owner in containers]
        known = [amount for amount in amounts if amount is not None]
        part = sum(known) / len(running) if len(known) == len(amounts) else None
        found |= dict.fromkeys(running, part)
    return found


def weights(allocated: Mapping[Owner, float | None], runners: Iterable[Owner]) -> Mapping[Owner, Fraction]:
    """Return the fraction of one target that each owner has: by amount where all have one, else even fractions.

    Runners have none of a target that was allocated to others, and all of one that was allocated to no owner.
    """
    runners = tuple(runners)
    amounts = allocated or dict.fromkeys(runners)
    stated = [amount for amount in amounts.values() if amount]
    if len(stated) == len(amounts) and stated:
        total = sum(stated)
        parts = {holder: Fraction((amount or 0.0) / total) for holder, amount in amounts.items()}
    else:
        parts = {holder: Fraction(1.0 / len(amounts)) for holder in amounts}
    return {**dict.fromkeys(runners, Fraction(0.0)), **parts}


SETTLE_SECONDS = 15.0
"""Delay before an owner is named: a process may be there sooner than its scheduler's report."""


class UnallocatedUse:
    """Use of targets by owners that they were not allocated to. Remembers every target that was ever allocated."""

    def __init__(self) -> None:
        self._allocated_before: frozenset[str] = frozenset()
        self._since: dict[tuple[str, Owner], MonotonicTime] = {}

    def of(
        self,
        given: Mapping[str, Collection[Owner]],
        offered: Collection[str],
        runners: Mapping[str, Iterable[Owner]],
        unsure: Collection[Owner],
        now: MonotonicTime,
    ) -> Mapping[str, frozenset[Owner]]:
        """Return, by target, the owners that run there and that no source allocated it to.

        `given` has the owners by target from every source, `offered` the targets that schedulers allocate. `unsure` are
        owners that may have been allocated more than the sources report.
        """
        self._allocated_before |= given.keys()
        theirs = self._allocated_before.union(offered)
        found = {
            (uuid, owner)
            for uuid, owners in runners.items()
            if uuid in theirs
            for owner in owners
            if owner != NOBODY
            and owner not in unsure
            and not any(  # not allocated to it, nor to another container of its pod
                holder == owner or (owner.pod and (holder.namespace, holder.pod) == (owner.namespace, owner.pod))
                for holder in given.get(uuid, ())
            )
        }
        self._since = {each: self._since.get(each, now) for each in found}
        settled: dict[str, set[Owner]] = {}
        for (uuid, owner), since in self._since.items():
            if now - since >= SETTLE_SECONDS:
                settled.setdefault(uuid, set()).add(owner)
        return {uuid: frozenset(owners) for uuid, owners in settled.items()}
