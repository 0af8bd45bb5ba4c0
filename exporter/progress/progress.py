"""Progress of workloads: the totals of their programs' reports, and the pace of each process.

Memory is bounded by the number of living processes, because programs choose the names of groups and ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.attribution.owner import Owner
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.host.model import Rank
from exporter.progress.protocol import Report
from exporter.progress.reporters import Process, Reporter


@record
class StepTimes:
    """Seconds of one step over the ranks, without waiting for others. `slowest` is a rank's name."""

    minimum: float
    median: float
    maximum: float
    slowest: str


@record
class Progress:
    """One workload on this node. Counters and phases are totals that never decrease while it exists."""

    counters: Mapping[str, float] = field(default_factory=dict[str, float])
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    ratio: float | None = None
    """Fraction of the work that is done, by the rank that has done least."""
    remaining: float | None = None
    """Seconds to the end, by the rank with the most."""
    steps: StepTimes | None = None
    time_to_target: float | None = None
    """Seconds until the target quality was reached."""


@record
class Reported:
    """Progress on this node by owner, and the number of reports by result."""

    owners: Mapping[Owner, Progress] = field(default_factory=dict[Owner, Progress])
    results: Mapping[str, int] = field(default_factory=dict[str, int])
    ranks: Mapping[Owner, tuple[Rank, ...]] = field(default_factory=dict[Owner, tuple[Rank, ...]])
    """Reporting processes by owner, for the ledger."""


_MAX_PHASES = 24
"""Limit over all processes of a workload."""
_MAX_RANKS = 512
"""Limit of ranks that no longer report: more than any node has, and few enough if they are invented."""

MAX_RANK_NAMES = 64
"""Limit of ranks of one workload that are named in a label: more than a node has, also over some restarts."""
_OTHER_RANK = "other"

_PER_RANK = frozenset({"steps", "epochs"})
"""Counters of all ranks together: the furthest rank counts. All other counters add up over the groups."""

Ended = Callable[[Process], bool]


@dataclass(slots=True)
class _Group:
    """Processes that work on the same data, and their counted totals."""

    members: set[Process] = field(default_factory=set[Process])
    last: dict[str, float] = field(default_factory=dict[str, float])


class Totals:
    """Totals of one workload. They never decrease."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.phases: dict[str, float] = {}
        self._last: dict[Process, dict[str, float]] = {}
        """Counted totals of each process."""
        self._groups: dict[str, _Group] = {}
        self._named_ranks: set[str] = set()
        self._ranks: dict[tuple[object, str], float] = {}
        """Counters of all ranks together, by rank: a restarted rank continues its count."""

    def add(self, reporters: Sequence[Reporter], ended: Ended) -> None:
        """Count the gains since the last call; `ended` returns whether a process has ended."""
        groups: dict[str, list[Reporter]] = defaultdict(list)
        for reporter in reporters:
            last = self._last.setdefault(reporter.process, {})
            self._add_per_rank(last, reporter, reporters, ended)
            for name, seconds in reporter.report.phases.items():
                if name in self.phases or len(self.phases) < _MAX_PHASES:
                    self.phases[name] = self.phases.get(name, 0.0) + _gain_since(last, f"phase {name}", seconds)
            # a group of a stated size is divided by it, and counts by process
            group = "" if reporter.report.group_size > 1 else reporter.report.group
            if group:
                groups[group].append(reporter)
            else:
                self._add(last, _summed_counters(reporter))
        current = {each.process: group for group, members in groups.items() for each in members}
        for name, known in self._groups.items():
            known.members -= {each for each in known.members if current.get(each, name) != name}
        self._groups = {name: known for name, known in self._groups.items() if known.members}
        for group, members in groups.items():
            self._add_group(group, members, ended)
        if len(self._ranks) > _MAX_RANKS:
            reported = {_rank_key(each) for each in reporters}
            self._ranks = {key: reached for key, reached in self._ranks.items() if key[0] in reported}

    def counts(self, processes: Collection[Process]) -> bool:
        """Return whether any of these was counted: of its totals only the gain may be added."""
        return not self._last.keys().isdisjoint(processes)

    def name_rank(self, name: str) -> str:
        """Return the name of a rank for a label: the first `MAX_RANK_NAMES` have their own."""
        if name not in self._named_ranks and len(self._named_ranks) >= MAX_RANK_NAMES:
            return _OTHER_RANK
        self._named_ranks.add(name)
        return name

    def keep(self, processes: Collection[Process]) -> None:
        """Forget all processes but these."""
        self._last = {process: last for process, last in self._last.items() if process in processes}
        for group in self._groups.values():
            group.members.intersection_update(processes)
        self._groups = {name: group for name, group in self._groups.items() if group.members}

    def _add(self, last: dict[str, float], values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.counters[name] = self.counters.get(name, 0.0) + _gain_since(last, name, value)

    def _add_group(self, name: str, reporters: Sequence[Reporter], ended: Ended) -> None:
        """Count the furthest member of a group.

        A process that comes while others live is a member. One that comes after they all ended begins a new group.
        """
        group = self._groups.setdefault(name, _Group())
        new = {each.process for each in reporters} - group.members
        if new and not (group.members and all(map(ended, group.members))):
            group.members |= new
        furthest: dict[str, float] = {}
        for reporter in reporters:
            for counter, value in _summed_counters(reporter).items() if reporter.process in group.members else ():
                furthest[counter] = max(furthest.get(counter, 0.0), value)
        self._add(group.last, furthest)

    def _add_per_rank(
        self, last: dict[str, float], reporter: Reporter, reporters: Sequence[Reporter], ended: Ended
    ) -> None:
        """Count from where the rank was when the process came, or when those of the same rank came that still live."""
        rank = _rank_key(reporter)
        for name in _PER_RANK & reporter.report.counters.keys():
            start, reached = f"start {name}", self._ranks.get((rank, name), 0.0)
            if start not in last:
                same = [each.process for each in reporters if _rank_key(each) == rank]
                beside = [
                    self._last[each][start] for each in same if start in self._last.get(each, ()) and not ended(each)
                ]
                last[start] = min(beside, default=reached)
            _gain_since(last, name, reporter.report.counters[name])
            self._ranks[rank, name] = max(reached, last[start] + last[name])
            self.counters[name] = max(self.counters.get(name, 0.0), self._ranks[rank, name])


def _gain_since(last: dict[str, float], name: str, value: float) -> float:
    """Return the gain of a value since it was last counted; 0 if it decreased."""
    before = last.get(name, 0.0)
    last[name] = max(value, before)
    return max(0.0, value - before)


def _rank_key(reporter: Reporter) -> object:
    return reporter.process if reporter.report.rank is None else reporter.report.rank


def _summed_counters(reporter: Reporter) -> Mapping[str, float]:
    """Return the counters that add up over the groups, divided by a stated group size."""
    report = reporter.report
    return {name: value / report.group_size for name, value in report.counters.items() if name not in _PER_RANK}


_FRESH, _FRESH_INTERVALS = 3.0, 1.5
"""Seconds after its last report, and times those between its last two, in which the phases of a process are current."""
_LEAST = 1e-6
"""Fraction of a step below which no time of a step can be computed."""
_PAUSE_SECONDS, _PAUSE_INTERVALS = 30.0, 3.0
"""A program that takes no step for longer than both takes none any more: its pace is one of the past."""
COMMUNICATION = "communication"
"""Phase in which a rank waits for others: the slow rank spends least in it."""


@record
class _PhaseTotals:
    """Phases and steps of a process at its last report, and its fractions of the time before that."""

    time: MonotonicTime
    totals: Mapping[str, float]
    steps: float
    stepped: MonotonicTime
    """Time of the last report with more steps than the one before."""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    interval: float = 0.0
    """Seconds between the last two of these reports."""
    between: float = 0.0
    """Seconds between the last two reports."""

    def is_fresh(self, now: MonotonicTime) -> bool:
        return now - self.time <= min(_PAUSE_SECONDS, max(_FRESH, _FRESH_INTERVALS * self.between))

    def goes_on(self, now: MonotonicTime) -> bool:
        return now - self.stepped <= max(_PAUSE_SECONDS, _PAUSE_INTERVALS * self.interval)


class Phases:
    """Fractions of time by phase, and times of steps, kept between sampling cycles."""

    def __init__(self) -> None:
        self._seen: dict[Process, _PhaseTotals] = {}

    def ranks(self, reporters: Sequence[Reporter], now: MonotonicTime) -> Mapping[Process, Rank]:
        seen = {each.process: self._measure_phases(each) for each in reporters}
        self._seen = seen
        return {
            each.process: Rank(
                each.process.pid,
                rank_name(each),
                seen[each.process].parts if seen[each.process].is_fresh(now) else {},
                step_seconds(each) if COMMUNICATION in each.report.phases and seen[each.process].goes_on(now) else None,
                seen[each.process].is_fresh(now)
                and seen[each.process].goes_on(now)
                and _step_count(each.report) > _step_count(each.earlier or each.report),
            )
            for each in reporters
        }

    def _measure_phases(self, reporter: Reporter) -> _PhaseTotals:
        before, totals = self._seen.get(reporter.process), reporter.report.phases
        steps = _step_count(reporter.report)
        if before is None:
            return _PhaseTotals(reporter.time, totals, steps, reporter.time)
        seconds = reporter.time - before.time
        if seconds <= 0:
            return before
        gains = {name: total - before.totals.get(name, 0.0) for name, total in totals.items()}
        parts = {name: min(1.0, gained / seconds) for name, gained in gains.items() if gained > 0}
        stepped, interval = before.stepped, before.interval
        if steps > before.steps:
            stepped, interval = reporter.time, reporter.time - stepped
        return _PhaseTotals(reporter.time, totals, steps, stepped, parts, interval, seconds)


def _step_count(report: Report) -> float:
    return report.counters.get("steps", 0.0)


def step_times(reporters: Iterable[Reporter]) -> StepTimes | None:
    """Return the step times over ranks, between the last report of each and an earlier one."""
    found = sorted((seconds, rank_name(each)) for each in reporters if (seconds := step_seconds(each)) is not None)
    if not found:
        return None
    median = (found[(len(found) - 1) // 2][0] + found[len(found) // 2][0]) / 2
    return StepTimes(found[0][0], median, *found[-1])


def step_seconds(reporter: Reporter) -> float | None:
    """Return the time of a step by the program's own clock, else by the times of its reports without communication."""
    before, now = reporter.earlier, reporter.report
    if before is None or "steps" not in before.counters or "steps" not in now.counters:
        return None
    steps = now.counters["steps"] - before.counters["steps"]
    if steps < _LEAST:
        return None
    if now.step_seconds is not None and before.step_seconds is not None:
        return max(0.0, now.step_seconds - before.step_seconds) / steps
    waited = now.phases.get(COMMUNICATION, 0.0) - before.phases.get(COMMUNICATION, 0.0)
    return max(0.0, reporter.time - reporter.earlier_time - waited) / steps


def rank_name(reporter: Reporter) -> str:
    return f"pid {reporter.process.pid}" if reporter.report.rank is None else str(reporter.report.rank)
