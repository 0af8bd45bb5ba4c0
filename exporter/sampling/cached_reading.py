"""What stays of readings between passes: the last good reading of a collector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from exporter.clock import MonotonicTime, UnixTime
from exporter.collectors.base import AnyCollector, Pace
from exporter.metrics.counters import Counts, count, count_value, published
from exporter.metrics.family import AnyFamily, Sample, Type

FamilySamples = tuple[tuple[AnyFamily, tuple[Sample, ...]], ...]


@dataclass(slots=True)
class CachedReading:
    """The last good reading of one collector on one target. Nothing of it changes but `_samples`, made once.

    Passes are many and scrapes few: every reading advances the counters, so that no reset between two scrapes is
    missed; samples are made of those readings alone that a scrape meets, and kept with them.
    """

    collector: AnyCollector
    reading: Any
    time: UnixTime
    monotonic: MonotonicTime
    counts: tuple[Counts, ...] = ()
    """Of the collector's counters, in their order."""
    _samples: FamilySamples | None = field(default=None, init=False)

    @property
    def samples(self) -> FamilySamples:
        """By family; raises what a family's function raises."""
        if self._samples is None:
            self._samples = tuple(self._made())
        return self._samples

    def _made(self) -> Iterator[tuple[AnyFamily, tuple[Sample, ...]]]:
        counts = iter(self.counts)
        for family in self.collector.families:
            counted = family.type is Type.COUNTER
            yield family, family.checked(published(next(counts))) if counted else family.collect(self.reading)


_NONE: Counts = {}


def counted(collector: AnyCollector, before: CachedReading | None, reading: Any) -> tuple[Counts, ...]:
    """The collector's counters after one more reading."""
    previous = before.counts if before else (_NONE,) * len(collector.counters)
    return tuple(
        [
            count_value(each, family.value(reading)) if family.value else count(each, family.samples(reading))
            for each, family in zip(previous, collector.counters, strict=True)
        ]
    )


def outlives_device(family: AnyFamily) -> bool:
    """Whether a family outlives its device: counters keep their value and descriptions stay true, levels do not."""
    return family.type is not Type.GAUGE


def is_fresh(cached: CachedReading, monotonic: MonotonicTime, answered: MonotonicTime, stale: float) -> bool:
    """Whether gauges of `cached` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return cached.collector.pace is Pace.ONCE or monotonic - cached.monotonic <= stale + 2 * cached.collector.pace.value
