"""What stays of readings between passes: counters that never go back, and gauges only while they are fresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exporter.collector import AnyCollector, Pace
from exporter.metric import AnyFamily, Sample, Type


@dataclass(frozen=True, slots=True)
class Counted:
    """A published counter: `base` is what the driver's counter had reached before its resets."""

    base: float
    raw: float

    @property
    def value(self) -> float:
        return self.base + self.raw


Counts = Mapping[tuple[str, ...], Counted]
"""The counters of one family on one target, by label values."""


@dataclass(frozen=True, slots=True)
class Held:
    """The last good reading of one collector on one target, with its samples by family."""

    collector: AnyCollector
    reading: Any
    time: float
    monotonic: float
    samples: tuple[tuple[AnyFamily, tuple[Sample, ...]], ...]


def count(previous: Counts, samples: tuple[Sample, ...]) -> tuple[Counts, tuple[Sample, ...]]:
    """Carry a counter over the resets of its source, and keep the labels that have gone.

    A driver reload starts the driver's own counters at 0 again, and a reset GPU forgets its errors; what was
    published stays published.
    """
    counts = dict(previous)
    for sample in samples:
        before = counts.get(sample.labels)
        if before is None:
            counts[sample.labels] = Counted(0.0, sample.value)
        elif sample.value < before.raw:
            counts[sample.labels] = Counted(before.value, sample.value)
        elif sample.value > before.raw:
            counts[sample.labels] = Counted(before.base, sample.value)
    return counts, tuple([Sample(entry.base + entry.raw, labels) for labels, entry in counts.items()])


def lasting(family: AnyFamily) -> bool:
    """Whether a family outlives its device: counters keep their value and descriptions stay true, levels do not."""
    return family.type is not Type.GAUGE


def fresh(held: Held, monotonic: float, answered: float, stale: float) -> bool:
    """Whether gauges of `held` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return held.collector.pace is Pace.ONCE or monotonic - held.monotonic <= stale + 2 * held.collector.pace.value
