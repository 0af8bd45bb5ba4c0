"""Arithmetic of the measurements. Times are Unix seconds, a history is [(time, value), …] in order of time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

History = Sequence[tuple[float, float]]

_MICRO = 1e6
_UNITS = (("ns", 1e9), ("µs", 1e6), ("ms", 1e3), ("s", 1.0))
_NEAR = 3.0
"""A counter of time in force for a part of the time only still grows within this factor of its unit's rate."""


def error_percent(measured: float | None, reference: float | None) -> float | None:
    """By how much of the reference the measurement is over (+) or under (-); None where that cannot be said."""
    if measured is None or not reference:
        return None
    return (measured - reference) / abs(reference) * 100


def at(history: History, time: float) -> float | None:
    """The value at `time`, on the line between its neighbours; None outside of the history."""
    for (before, low), (after, high) in pairwise(history):
        if before <= time <= after:
            return high if after == before else low + (high - low) * (time - before) / (after - before)
    return None


def grown(history: History, begin: float, end: float) -> float | None:
    """By how much a counter grew from `begin` to `end`."""
    first, last = at(history, begin), at(history, end)
    return None if first is None or last is None else last - first


def rate(history: History, begin: float, end: float) -> float | None:
    growth = grown(history, begin, end)
    return None if growth is None or end <= begin else growth / (end - begin)


def integral(history: History, begin: float, end: float) -> float | None:
    """The area under a gauge, by trapezoids; None where the history does not cover the time."""
    first, last = at(history, begin), at(history, end)
    if first is None or last is None:
        return None
    inside = [(time, value) for time, value in history if begin < time < end]
    points = [(begin, first), *inside, (end, last)]
    return sum((after - before) * (low + high) / 2 for (before, low), (after, high) in pairwise(points))


def mean(history: History, begin: float, end: float) -> float | None:
    area = integral(history, begin, end)
    return None if area is None or end <= begin else area / (end - begin)


def common(*histories: History) -> tuple[float, float] | None:
    """The longest time that all the histories cover."""
    if not all(len(history) > 1 for history in histories):
        return None
    begin, end = max(history[0][0] for history in histories), min(history[-1][0] for history in histories)
    return (begin, end) if begin < end else None


def falls(values: Sequence[float]) -> int:
    """How often a counter went back."""
    return sum(after < before for before, after in pairwise(values))


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds."""

    calls: int
    minimum: float
    median: float
    p99: float


def timing(seconds: Sequence[float]) -> Timing:
    """Raises ValueError without a measurement."""
    if not seconds:
        raise ValueError("no call was timed")
    ordered = sorted(second * _MICRO for second in seconds)
    return Timing(
        calls=len(ordered),
        minimum=ordered[0],
        median=statistics.median(ordered),
        p99=ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
    )


@dataclass(frozen=True, slots=True)
class Cadence:
    """What a buffer of samples holds. Seconds; a period is None where there are not two samples."""

    samples: int
    span: float
    period_median: float | None
    period_min: float | None
    period_max: float | None
    newest_age: float | None
    """Of the newest sample by the wall clock: negative or huge when the stamps are of another clock."""


def cadence(stamps: Sequence[int], now: float) -> Cadence:
    """Of timestamps in µs, read at `now`."""
    ordered = sorted(stamps)
    periods = [(after - before) / _MICRO for before, after in pairwise(ordered)]
    return Cadence(
        samples=len(ordered),
        span=(ordered[-1] - ordered[0]) / _MICRO if ordered else 0.0,
        period_median=statistics.median(periods) if periods else None,
        period_min=min(periods, default=None),
        period_max=max(periods, default=None),
        newest_age=now - ordered[-1] / _MICRO if ordered else None,
    )


def time_unit(growth: float | None, seconds: float) -> str:
    """The unit of a counter of time that grew so much while its reason held for `seconds`."""
    if not growth:
        return "does not advance"
    if seconds <= 0:
        return "advances, though its reason was never seen in force"
    per_second = growth / seconds
    near = [name for name, unit in _UNITS if unit / _NEAR <= per_second <= unit * _NEAR]
    return near[0] if near else f"unclear: {per_second:.3g} per second in force"


@dataclass(frozen=True, slots=True)
class Paired:
    """Percent by which the second of each pair is over the first; `error` is the standard error of the mean."""

    pairs: int
    mean: float
    error: float | None
    lowest: float
    highest: float

    @property
    def measurable(self) -> bool:
        """Whether the effect stands out from its own scatter."""
        return self.error is None or abs(self.mean) > 2 * self.error


def paired(pairs: Sequence[tuple[float, float]]) -> Paired | None:
    """None where no pair has something to compare with."""
    percents = [percent for first, second in pairs if (percent := error_percent(second, first)) is not None]
    if not percents:
        return None
    error = statistics.stdev(percents) / len(percents) ** 0.5 if len(percents) > 1 else None
    return Paired(len(percents), statistics.fmean(percents), error, min(percents), max(percents))
