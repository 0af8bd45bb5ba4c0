"""What a workload's programs report together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from exporter.attribution.owner import Owner
from exporter.progress.reporters import Reporter
from exporter.record import record

WAITING_PHASES = frozenset({"communication"})
"""Phases in which a rank waits for the others: the slow rank is the one that spends the least in them."""


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


@record
class Reported:
    """Everything reported on this node: by owner, and how many reports became what."""

    owners: Mapping[Owner, Progress] = field(default_factory=dict[Owner, Progress])
    results: Mapping[str, int] = field(default_factory=dict[str, int])


def step_times(reporters: Iterable[Reporter]) -> StepTimes | None:
    """The pace of each rank between its last report and an earlier one."""
    found = sorted((seconds, _name(each)) for each in reporters if (seconds := _step_seconds(each)) is not None)
    if not found:
        return None
    times = [seconds for seconds, _ in found]
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    return StepTimes(times[0], median, times[-1], found[-1][1])


def _step_seconds(reporter: Reporter) -> float | None:
    before, now = reporter.earlier, reporter.report
    if before is None or "steps" not in before.counters or "steps" not in now.counters:
        return None
    steps = now.counters["steps"] - before.counters["steps"]
    if steps <= 0:
        return None
    if now.phases:
        own = sum(
            seconds - before.phases.get(name, 0.0) for name, seconds in now.phases.items() if name not in WAITING_PHASES
        )
        return max(0.0, own) / steps
    return (reporter.time - reporter.earlier_time) / steps


def _name(reporter: Reporter) -> str:
    return f"pid {reporter.process.pid}" if reporter.report.rank is None else str(reporter.report.rank)
