"""Who runs and who was allocated what in one sampling cycle, by what the sources last reported. Joining never waits.

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
from exporter.attribution.process_index import ProcessIndex, ProcessIndexer
from exporter.attribution.source import Match, OwnerSource, View
from exporter.core.clock import MonotonicTime
from exporter.core.threads import Threads
from exporter.core.units import Share
from exporter.host.model import HostProcess

K = TypeVar("K")

LAST_OWNER_SECONDS = 60.0
"""A process that /proc no longer shows keeps its owner so long, if the driver still lists it."""


class _Run(NamedTuple):
    """An owner on some targets."""

    owner: Owner
    targets: Collection[str]
    own_work: bool
    """Not so of the kernels that a server runs for its clients, and of a process that /proc no longer shows."""


class Attribution:
    """Joins processes and allocations to owners. Used by one thread; the sources read in theirs."""

    def __init__(self, sources: Iterable[OwnerSource], cgroupfs: Path = Path("/sys/fs/cgroup")) -> None:
        """`sources` are in order of trust."""
        self._sources = tuple(sources)
        self._readers = [reader for source in self._sources for reader in source.readers]
        self._unreserved = UnreservedUse()
        self._indexer = ProcessIndexer(cgroupfs)
        self._index: ProcessIndex | None = None
        self._last = Ownership()
        self._labels: Mapping[Owner, Owner] = {}
        """What a source calls an owner, and the same with the labels that other sources added once."""
        self._gone: dict[int, tuple[Owner, MonotonicTime]] = {}
        """By pid: the last owner, and since when /proc does not show it."""
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

        Of the same processes, what has not changed are the same objects again.
        """
        index = self._indexer.index(targets, processes, hosts)
        views = self._views(index, now)
        ownership = self._joined(index, views, now)
        if self._index is not None and index.same(self._index):
            ownership = _with_same_objects(ownership, self._last)
        self._index, self._last = index, ownership
        return ownership

    def _views(self, index: ProcessIndex, now: MonotonicTime) -> Sequence[View]:
        """Ask the sources; each is shown the cgroups of the owners that those before it know."""
        views: list[View] = []
        for source in self._sources:
            view = source.view(index, now)
            views.append(view)
            index = index.beside(view.cgroups.values())
        return views

    def _joined(self, index: ProcessIndex, views: Sequence[View], now: MonotonicTime) -> Ownership:
        names = [view.names for view in views if view.names]
        matches = {pid: tuple(_of(pid, names)) for group in index.groups for pid in group.pids}
        self._labels = self._completed(matches, views)
        views = [_relabelled(view, self._labels) for view in views]
        owners, running = self._owners(index, matches, now)
        allocated = allocations(views)
        runners = _runners(running)
        parts = {
            uuid: weights(within_pods(allocated.get(uuid, {}), runners.get(uuid, ())), runners.get(uuid, ()))
            for uuid in {*allocated, *runners}
        }
        holders = {uuid: tuple(owner for owner in part if owner != NOBODY) for uuid, part in parts.items()}
        everyone = {owner for held in holders.values() for owner in held}
        return Ownership(
            processes=owners,
            holders={uuid: held for uuid, held in holders.items() if held},
            weights={(uuid, owner): part for uuid, each in parts.items() for owner, part in each.items()},
            unreserved=self._unreserved.of(
                _every_allocation(views),
                frozenset[str]().union(*(view.offered for view in views)),
                _runners(run for run in running if run.own_work),
                frozenset[Owner]().union(*(view.unsure for view in views)),
                now,
            ),
            cgroups=self._own_cgroups(everyone, views),
            info=self._infos(everyone, views),
            health=tuple(_health(index, views)),
        )

    def _completed(self, matches: Mapping[int, Sequence[Match]], views: Sequence[View]) -> Mapping[Owner, Owner]:
        """Return owners with labels from less trusted sources. A label on which its processes differ stays empty.

        Once complete, an owner stays as it is for as long as it is there: labels of a series never change.
        """
        by_path = [view.places for view in views if view.places]
        places = {path: tuple(_of(path, by_path)) for each in by_path for path in each}
        known = {owner for view in views for owner in (*view.allocated, *view.cgroups, *view.info)}
        at = {path: owner for view in reversed(views) for owner, path in view.cgroups.items() if path in places}
        found: dict[Owner, set[Owner]] = defaultdict(set)
        for first, *rest in set(matches.values()) - {()}:
            known.add(first.owner)
            if rest and first.owner != NOBODY:
                found[first.owner].add(_filled(first.owner, rest))
        for path, owner in at.items():
            found[owner].add(_filled(owner, places[path]))
        fresh = {owner: _agreed(owner, filled) for owner, filled in found.items()}
        kept = {owner: label for owner, label in self._labels.items() if owner in known and owner != label}
        return {**fresh, **kept}

    def _owners(
        self, index: ProcessIndex, matches: Mapping[int, Sequence[Match]], now: MonotonicTime
    ) -> tuple[Mapping[int, Owner], Sequence[_Run]]:
        """Return the owner by pid, and what each of them runs on."""
        owners: dict[int, Owner] = {}
        running: list[_Run] = []
        for group in index.groups:
            own = {pid: self._owner(matches[pid]) for pid in group.pids}
            owners |= own
            for owner in (everyone := set(own.values())):
                pids = [pid for pid in own if own[pid] == owner]
                targets = (
                    group.targets if len(everyone) == 1 else {uuid for pid in pids for uuid in index.targets_of(pid)}
                )
                running.append(_Run(owner, targets, not group.serves_clients))
        self._remember(owners, now)
        kept = {pid: self._gone[pid][0] if pid in self._gone else NOBODY for pid in index.unseen}
        running += [_Run(owner, index.targets_of(pid), own_work=False) for pid, owner in kept.items()]
        return owners | kept, running

    def _owner(self, matches: Sequence[Match]) -> Owner:
        owner = matches[0].owner if matches else NOBODY
        return self._labels.get(owner, owner)

    def _remember(self, owners: Mapping[int, Owner], now: MonotonicTime) -> None:
        gone = self._gone | {pid: (self._named[pid], now) for pid in self._named.keys() - owners.keys()}
        self._gone = {pid: entry for pid, entry in gone.items() if now - entry[1] < LAST_OWNER_SECONDS}
        self._named = owners

    def _own_cgroups(self, everyone: Iterable[Owner], views: Sequence[View]) -> Mapping[Owner, str]:
        """Return cgroups that are one owner's alone: what several in one used cannot be told apart.

        An owner keeps its cgroup for as long as it has something, also with no process left to tell it.
        """
        found = {owner: path for view in reversed(views) for owner, path in view.cgroups.items()}
        self._paths = {owner: path for owner in everyone if (path := found.get(owner) or self._paths.get(owner, ""))}
        users = Counter(self._paths.values())
        return {owner: path for owner, path in self._paths.items() if users[path] == 1}

    def _infos(self, everyone: Iterable[Owner], views: Sequence[View]) -> Mapping[Owner, WorkloadInfo]:
        found = {owner: info for view in reversed(views) for owner, info in view.info.items()}
        return {owner: found.get(owner) or self._last.info.get(owner) or WorkloadInfo() for owner in everyone}


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


def _of(key: K, words: Iterable[Mapping[K, Match]]) -> Iterator[Match]:
    """Yield the word of each source that knows a process or a place."""
    return (match for each in words if (match := each.get(key)) is not None)


def _filled(owner: Owner, others: Iterable[Match]) -> Owner:
    """Return an owner with the labels that others fill in."""
    for other in others:
        owner = Owner(*(own or more for own, more in zip(owner, other.owner, strict=True)))
    return owner


def _agreed(owner: Owner, filled: Iterable[Owner]) -> Owner:
    """Return an owner with the labels on which all agree."""
    return Owner(*(more[0] if len(set(more)) == 1 else own for own, *more in zip(owner, *filled, strict=True)))


def _relabelled(view: View, labels: Mapping[Owner, Owner]) -> View:
    if not labels:
        return view
    return replace(
        view,
        allocated={labels.get(owner, owner): each for owner, each in view.allocated.items()},
        info={labels.get(owner, owner): each for owner, each in view.info.items()},
        cgroups={labels.get(owner, owner): each for owner, each in view.cgroups.items()},
        unsure=frozenset(labels.get(owner, owner) for owner in view.unsure),
    )


def _every_allocation(views: Iterable[View]) -> Mapping[str, Collection[Owner]]:
    """Return, by target, the owners that any source says it was allocated to."""
    found: dict[str, set[Owner]] = defaultdict(set)
    for view in views:
        for owner, amounts in view.allocated.items():
            for uuid in amounts:
                found[uuid].add(owner)
    return found


def _runners(running: Iterable[_Run]) -> Mapping[str, tuple[Owner, ...]]:
    """Return the owners by target, without repeats."""
    found: dict[str, dict[Owner, None]] = defaultdict(dict)
    for run in running:
        for uuid in run.targets:
            found[uuid][run.owner] = None
    return {uuid: tuple(owners) for uuid, owners in found.items()}


def _health(index: ProcessIndex, views: Iterable[View]) -> Iterator[SourceHealth]:
    if index.groups or index.unseen:
        yield SourceHealth("cgroup", bool(index.groups), 0.0)
    for view in views:
        yield from view.health


def _with_same_objects(ownership: Ownership, last: Ownership) -> Ownership:
    """Return an ownership that shares with the last one what is equal in both."""
    names = ("processes", "holders", "weights", "cgroups", "info", "unreserved")
    same = {name: getattr(last, name) for name in names if getattr(last, name) == getattr(ownership, name)}
    return replace(ownership, **same)


H = TypeVar("H")


def within_pods(given: Mapping[Owner, float | None], runners: Collection[Owner]) -> Mapping[Owner, float | None]:
    """Return what each container has of a target: those of one pod hold it together.

    A pod that uses its GPU is not idle there. Those of the listed containers that run on it have what the others
    leave. If none of them runs, what else of the pod runs there has it: its source lists no init container and no
    workload of another scheduler inside, and which container runs is not always known.
    """
    pods: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner in given:
        if owner.kind == "pod":
            pods[owner.pod_name].append(owner)
    found = dict(given)
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


SETTLE_SECONDS = 15.0
"""A process is there sooner than the scheduler's word on it: so long nobody is named."""


class UnreservedUse:
    """Keeps which GPUs schedulers have ever given out: one that is given to nobody now is still theirs to give."""

    def __init__(self) -> None:
        self._given_before: frozenset[str] = frozenset()
        self._since: dict[tuple[str, Owner], MonotonicTime] = {}

    def of(
        self,
        given: Mapping[str, Collection[Owner]],
        offered: Collection[str],
        runners: Mapping[str, Iterable[Owner]],
        unsure: Collection[Owner],
        now: MonotonicTime,
    ) -> Mapping[str, frozenset[Owner]]:
        """Return, by target, those that run there although no source says that they were given it.

        `given` is the word of every source, `offered` what schedulers say they give out. `unsure` are owners that may
        have been given more than the sources report.
        """
        self._given_before |= given.keys()
        theirs = self._given_before.union(offered)
        found = {
            (uuid, owner)
            for uuid, owners in runners.items()
            if uuid in theirs
            for owner in owners
            if owner != NOBODY and owner not in unsure and not _holds(owner, given.get(uuid, ()))
        }
        self._since = {each: self._since.get(each, now) for each in found}
        settled: dict[str, set[Owner]] = {}
        for (uuid, owner), since in self._since.items():
            if now - since >= SETTLE_SECONDS:
                settled.setdefault(uuid, set()).add(owner)
        return {uuid: frozenset(owners) for uuid, owners in settled.items()}


def _holds(owner: Owner, holders: Iterable[Owner]) -> bool:
    """What one container of a pod was given is the whole pod's."""
    return any(
        holder == owner or (owner.pod and (holder.namespace, holder.pod) == (owner.namespace, owner.pod))
        for holder in holders
    )
