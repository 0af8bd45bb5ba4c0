"""How fast each process gets on, and what it spends its time in, by what its totals gained between two reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.progress.progress import Rank, StepTimes
from exporter.progress.reporters import Process, Reporter

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
