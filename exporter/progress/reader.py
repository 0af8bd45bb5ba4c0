"""From reports to workloads: whose each reporter is, and what its reports add to the workload's totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, SourceHealth
from exporter.clock import NEVER, MonotonicClock, monotonic_time
from exporter.progress.folder_source import FolderSource
from exporter.progress.pace import Phases, step_times
from exporter.progress.processes import cgroup_paths, lives
from exporter.progress.progress import Progress, Reported
from exporter.progress.rank import Rank
from exporter.progress.reporters import Process, Reporter, Reporters
from exporter.progress.socket_source import SocketSource
from exporter.threads.runner import Threads

_LOOKS_EVERY = 2.0
"""Seconds between two looks at whether reporters still live."""
_MAX_PHASES = 24
"""Of one workload, over all its processes."""

_PER_RANK = frozenset({"steps", "epochs"})
"""Taken by all ranks together: the furthest rank counts. All other counters add up over the groups."""


@dataclass(slots=True)
class _Totals:
    """Of one workload. `last` are the values already counted, by group or process, and by name."""

    counters: dict[str, float] = field(default_factory=dict[str, float])
    by_rank: dict[tuple[object, str], float] = field(default_factory=dict[tuple[object, str], float])
    """What ranks take together, by rank: a rank that was started anew goes on where it was."""
    phases: dict[str, float] = field(default_factory=dict[str, float])
    last: dict[tuple[object, str], float] = field(default_factory=dict[tuple[object, str], float])


class ProgressReader:
    """Used by the thread of the passes; the sources read on theirs. No method waits."""

    def __init__(
        self,
        socket: Path | None,
        folder: Path | None,
        procfs: Path = Path("/proc"),
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self.reporters = Reporters()
        self._socket = SocketSource(socket, self.reporters, procfs, clock) if socket else None
        self._folder = FolderSource(folder, self.reporters, procfs, clock) if folder else None
        self._procfs = procfs
        self._clock = clock
        self._looked = NEVER
        self._paths: dict[Process, tuple[str, ...]] = {}
        self._owners: dict[Process, Owner] = {}
        """Whose a process was last: what it reported before it ended still counts."""
        self._spent = Phases()
        self._totals: dict[Owner, _Totals] = {}

    def start(self, threads: Threads) -> None:
        if self._socket:
            threads.start("progress-socket", self._socket.run)
        if self._folder:
            threads.start("progress-folder", self._folder.run)

    def stop(self) -> None:
        for source in (self._socket, self._folder):
            if source:
                source.stop()

    def health(self) -> tuple[SourceHealth, ...]:
        found = (("progress_socket", self._socket), ("progress_folder", self._folder))
        return tuple(SourceHealth(name, not source.error, 0.0) for name, source in found if source)

    def read(self, ownership: Ownership) -> Reported:
        """Progress of the owners there are; a reporter is a workload's if it runs on its GPU or in its cgroup."""
        reporters = self.reporters.all()
        by_owner: dict[Owner, list[Reporter]] = {}
        for reporter in reporters:
            owner = self._owner(reporter.process, ownership)
            if owner != NOBODY:
                by_owner.setdefault(owner, []).append(reporter)
        present = {*by_owner, *(owner for held in ownership.holders.values() for owner in held)}
        self._totals = {owner: totals for owner, totals in self._totals.items() if owner in present}
        ranks = self._spent.ranks(reporters, self._clock())
        owners = {owner: self._progress(owner, found) for owner, found in by_owner.items()}
        self._forget(reporters)
        return Reported(owners, self.reporters.results(), _by_owner(by_owner, ranks))

    def _forget(self, reporters: Iterable[Reporter]) -> None:
        """Of those that have ended, once what they reported is counted."""
        now = self._clock()
        if now - self._looked < _LOOKS_EVERY:
            return
        self._looked = now
        gone = [each for each in reporters if not lives(each.process, self._procfs)]
        self.reporters.forget(gone)
        left = {each.process for each in self.reporters.all()}
        self._paths = {process: paths for process, paths in self._paths.items() if process in left}
        self._owners = {process: owner for process, owner in self._owners.items() if process in left}

    def _owner(self, process: Process, ownership: Ownership) -> Owner:
        owner = ownership.processes.get(process.pid) or self._by_cgroup(process, ownership)
        if owner != NOBODY:
            self._owners[process] = owner
        elif process in self._owners and lives(process, self._procfs):
            del self._owners[process]  # it goes on without the workload
        return self._owners.get(process, NOBODY)

    def _by_cgroup(self, process: Process, ownership: Ownership) -> Owner:
        if process not in self._paths:
            self._paths[process] = tuple(cgroup_paths(process.pid, self._procfs))
        for candidate, path in ownership.cgroups.items():
            if path and any(each == path or each.startswith(f"{path}/") for each in self._paths[process]):
                return candidate
        return NOBODY

    def _progress(self, owner: Owner, reporters: list[Reporter]) -> Progress:
        totals = self._totals.setdefault(owner, _Totals())
        for (group, name), value in _by_group(reporters).items():
            gained = _gained(totals, (group, name), value)
            totals.counters[name] = totals.counters.get(name, 0.0) + gained
        for reporter in reporters:
            self._add_per_rank(totals, reporter)
            self._phases(totals, reporter)
        ratios = [each.report.ratio for each in reporters if each.report.ratio is not None]
        left = [each.report.remaining for each in reporters if each.report.remaining is not None]
        return Progress(
            dict(totals.counters),
            dict(totals.phases),
            min(ratios, default=None),
            max(left, default=None),
            step_times(reporters),
            max(
                (each.report.time_to_target for each in reporters if each.report.time_to_target is not None),
                default=None,
            ),
        )

    @staticmethod
    def _add_per_rank(totals: _Totals, reporter: Reporter) -> None:
        rank: object = reporter.process if reporter.report.rank is None else reporter.report.rank
        for name in _PER_RANK & reporter.report.counters.keys():
            gained = _gained(totals, (reporter.process, name), reporter.report.counters[name])
            reached = totals.by_rank[rank, name] = totals.by_rank.get((rank, name), 0.0) + gained
            totals.counters[name] = max(totals.counters.get(name, 0.0), reached)

    @staticmethod
    def _phases(totals: _Totals, reporter: Reporter) -> None:
        for name, seconds in reporter.report.phases.items():
            if name not in totals.phases and len(totals.phases) >= _MAX_PHASES:
                continue
            gained = _gained(totals, (reporter.process, f"phase {name}"), seconds)
            totals.phases[name] = totals.phases.get(name, 0.0) + gained


def _gained(totals: _Totals, key: tuple[object, str], value: float) -> float:
    """What a value has gained since it was last counted; one that fell back has gained nothing."""
    before = totals.last.get(key, 0.0)
    totals.last[key] = max(value, before)
    return max(0.0, value - before)


def _by_owner(
    by_owner: Mapping[Owner, Sequence[Reporter]], ranks: Mapping[Process, Rank]
) -> Mapping[Owner, tuple[Rank, ...]]:
    return {owner: tuple(ranks[each.process] for each in found) for owner, found in by_owner.items()}


def _by_group(reporters: Iterable[Reporter]) -> Mapping[tuple[object, str], float]:
    """What adds up, once per group: the member that is furthest. Who names no group is one of its own.

    Who reports how large its group is counts for its part, wherever the others are.
    """
    found: dict[tuple[object, str], float] = {}
    for reporter in reporters:
        alone = reporter.report.group_size > 1 or not reporter.report.group
        group: object = reporter.process if alone else reporter.report.group
        for name, value in reporter.report.counters.items():
            if name in _PER_RANK:
                continue
            found[group, name] = max(found.get((group, name), 0.0), value / reporter.report.group_size)
    return found
