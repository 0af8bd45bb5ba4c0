"""What a workload's programs report, together and each by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.attribution.owner import Owner
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.progress.reporters import Process, Reporter


@record
class Rank:
    """One reporting process. `phases` are the parts of the last second or so that it spent in each; they may overlap.

    `step_seconds` is what it needs for a step without what it waits for other ranks; None where it does not report its
    steps, or not how long it waits for others.
    """

    pid: int
    name: str = ""
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    step_seconds: float | None = None


@record
class StepTimes:
    """Seconds of one step by rank, without what a rank waited for others. `slowest` is a rank's name."""

    minimum: float
    median: float
    maximum: float
    slowest: str


@record
class Progress:
    """One workload on this node. Counters and phases are totals that never go down while the workload is there."""

    counters: Mapping[str, float] = field(default_factory=dict[str, float])
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    ratio: float | None = None
    """Part of the work that is done, 0 to 1: that of the rank that is least far."""
    remaining: float | None = None
    """Seconds to the end, by the rank that needs longest."""
    steps: StepTimes | None = None
    time_to_target: float | None = None
    """Seconds until the target quality was reached, by the program's own clock."""


@record
class Reported:
    """Everything reported on this node: by owner, and how many reports became what."""

    owners: Mapping[Owner, Progress] = field(default_factory=dict[Owner, Progress])
    results: Mapping[str, int] = field(default_factory=dict[str, int])
    ranks: Mapping[Owner, tuple[Rank, ...]] = field(default_factory=dict[Owner, tuple[Rank, ...]])
    """The processes behind it, as the ledger needs them."""


_MAX_PHASES = 24
"""Over all processes."""
_MAX_RANKS = 512
"""Kept of ranks that report no more: more than any node has, and few enough where somebody makes them up."""

_PER_RANK = frozenset({"steps", "epochs"})
"""Taken by all ranks together: the furthest rank counts. All other counters add up over the groups."""

Ended = Callable[[Process], bool]


@dataclass(slots=True)
class _Group:
    """Those who work on the same data, and what of it is counted."""

    members: set[Process] = field(default_factory=set[Process])
    last: dict[str, float] = field(default_factory=dict[str, float])


class Totals:
    """Of one workload; they never go down."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.phases: dict[str, float] = {}
        self._last: dict[Process, dict[str, float]] = {}
        """What each process reported when it was last counted."""
        self._groups: dict[str, _Group] = {}
        self._ranks: dict[tuple[object, str], float] = {}
        """What ranks take together, by rank: a rank that was started anew goes on where it was."""

    def add(self, reporters: Sequence[Reporter], ended: Ended) -> None:
        """Count what has been gained since the last time; `ended` says whether a process is there no more."""
        groups: dict[str, list[Reporter]] = defaultdict(list)
        for reporter in reporters:
            last = self._last.setdefault(reporter.process, {})
            self._add_per_rank(last, reporter)
            self._add_phases(last, reporter)
            group = _group(reporter)
            if group:
                groups[group].append(reporter)
            else:
                self._add(last, _summed(reporter))
        self._leave({each.process: group for group, members in groups.items() for each in members})
        for group, members in groups.items():
            self._add_group(group, members, ended)
        if len(self._ranks) > _MAX_RANKS:
            reported = {_rank(each) for each in reporters}
            self._ranks = {key: reached for key, reached in self._ranks.items() if key[0] in reported}

    def counts(self, processes: Collection[Process]) -> bool:
        """Whether any of these was counted: it reports totals, of which only what is new may be added."""
        return not self._last.keys().isdisjoint(processes)

    def keep(self, processes: Collection[Process]) -> None:
        """Forget all processes but these."""
        self._last = {process: last for process, last in self._last.items() if process in processes}
        for group in self._groups.values():
            group.members.intersection_update(processes)
        self._groups = {name: group for name, group in self._groups.items() if group.members}

    def _add(self, last: dict[str, float], values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.counters[name] = self.counters.get(name, 0.0) + _gained(last, name, value)

    def _leave(self, groups: Mapping[Process, str]) -> None:
        """A process is in the group that it named last, and a group that all have left is none."""
        for name, group in self._groups.items():
            group.members -= {each for each in group.members if groups.get(each, name) != name}
        self._groups = {name: group for name, group in self._groups.items() if group.members}

    def _add_group(self, name: str, reporters: Sequence[Reporter], ended: Ended) -> None:
        """What adds up, once per group: the member that is furthest.

        Who comes while the others are there works on what they do. Who comes after them begins a group anew, once they
        are forgotten and their last reports have been counted.
        """
        group = self._groups.setdefault(name, _Group())
        new = {each.process for each in reporters} - group.members
        if new and not (group.members and all(map(ended, group.members))):
            group.members |= new
        furthest: dict[str, float] = {}
        for reporter in reporters:
            for counter, value in _summed(reporter).items() if reporter.process in group.members else ():
                furthest[counter] = max(furthest.get(counter, 0.0), value)
        self._add(group.last, furthest)

    def _add_per_rank(self, last: dict[str, float], reporter: Reporter) -> None:
        rank = _rank(reporter)
        for name in _PER_RANK & reporter.report.counters.keys():
            gained = _gained(last, name, reporter.report.counters[name])
            reached = self._ranks[rank, name] = self._ranks.get((rank, name), 0.0) + gained
            self.counters[name] = max(self.counters.get(name, 0.0), reached)

    def _add_phases(self, last: dict[str, float], reporter: Reporter) -> None:
        for name, seconds in reporter.report.phases.items():
            if name in self.phases or len(self.phases) < _MAX_PHASES:
                self.phases[name] = self.phases.get(name, 0.0) + _gained(last, f"phase {name}", seconds)


def _gained(last: dict[str, float], name: str, value: float) -> float:
    """What a value has gained since it was last counted; one that fell back has gained nothing."""
    before = last.get(name, 0.0)
    last[name] = max(value, before)
    return max(0.0, value - before)


def _rank(reporter: Reporter) -> object:
    return reporter.process if reporter.report.rank is None else reporter.report.rank


def _group(reporter: Reporter) -> str:
    """Empty for one that counts for itself: it names no group, or reports how large that is on all nodes together."""
    return "" if reporter.report.group_size > 1 else reporter.report.group


def _summed(reporter: Reporter) -> Mapping[str, float]:
    """What adds up over the groups: of a group of a stated size this one's part."""
    report = reporter.report
    return {name: value / report.group_size for name, value in report.counters.items() if name not in _PER_RANK}


_FRESH = 3.0
"""Seconds after its last report from which nothing is known of what a process does now."""
_LEAST = 1e-6
"""Of a step: less is no step, and no time can be told by it."""
COMMUNICATION = "communication"
"""The phase in which a rank waits for the others: the slow rank is the one that spends the least in it."""


@record
class _PhaseTotals:
    """The phases of a process when they were last looked at, and its parts of the time before that."""

    time: MonotonicTime
    totals: Mapping[str, float]
    parts: Mapping[str, float]


class Phases:
    """Carried from pass to pass."""

    def __init__(self) -> None:
        self._seen: dict[Process, _PhaseTotals] = {}

    def ranks(self, reporters: Sequence[Reporter], now: MonotonicTime) -> Mapping[Process, Rank]:
        seen = {each.process: self._look(each) for each in reporters}
        self._seen = seen
        return {
            each.process: Rank(
                each.process.pid,
                rank_name(each),
                seen[each.process].parts if now - each.time <= _FRESH else {},
                step_seconds(each) if COMMUNICATION in each.report.phases else None,
            )
            for each in reporters
        }

    def _look(self, reporter: Reporter) -> _PhaseTotals:
        before, totals = self._seen.get(reporter.process), reporter.report.phases
        if before is None:
            return _PhaseTotals(reporter.time, totals, {})
        seconds = reporter.time - before.time
        if seconds <= 0:
            return before
        gains = {name: total - before.totals.get(name, 0.0) for name, total in totals.items()}
        parts = {name: min(1.0, gained / seconds) for name, gained in gains.items() if gained > 0}
        return _PhaseTotals(reporter.time, totals, parts)


def step_times(reporters: Iterable[Reporter]) -> StepTimes | None:
    """The pace of each rank between its last report and an earlier one."""
    found = sorted((seconds, rank_name(each)) for each in reporters if (seconds := step_seconds(each)) is not None)
    if not found:
        return None
    times = [seconds for seconds, _ in found]
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    return StepTimes(times[0], median, times[-1], found[-1][1])


def step_seconds(reporter: Reporter) -> float | None:
    """By the program's own clock where it reports; else by when its reports came, without what it waited for others."""
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
