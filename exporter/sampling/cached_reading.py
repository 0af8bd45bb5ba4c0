"""What stays of readings between passes: the last good reading of a collector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exporter.collectors.base import AnyCollector, Pace
from exporter.metrics.family import AnyFamily, Sample, Type


@dataclass(frozen=True, slots=True)
class CachedReading:
    """The last good reading of one collector on one target, with its samples by family."""

    collector: AnyCollector
    reading: Any
    time: float
    monotonic: float
    samples: tuple[tuple[AnyFamily, tuple[Sample, ...]], ...]


def outlives_device(family: AnyFamily) -> bool:
    """Whether a family outlives its device: counters keep their value and descriptions stay true, levels do not."""
    return family.type is not Type.GAUGE


def is_fresh(cached: CachedReading, monotonic: float, answered: float, stale: float) -> bool:
    """Whether gauges of `cached` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return cached.collector.pace is Pace.ONCE or monotonic - cached.monotonic <= stale + 2 * cached.collector.pace.value
