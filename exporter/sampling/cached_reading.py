"""What stays of readings between passes: the last good reading of a collector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.collectors.base import AnyCollector, Pace
from exporter.core.block import Block
from exporter.core.clock import MonotonicTime
from exporter.core.counters import NO_COUNTS, Counts, count, published
from exporter.core.families import AnyFamily, Columns, Type


@dataclass(slots=True)
class CachedReading:
    """The last good reading of one collector on one target. Nothing of it changes but `made`.

    Passes are many and scrapes few: every reading advances the counters, so that no reset between two scrapes is
    missed; samples are made of those readings alone that a scrape meets.
    """

    collector: AnyCollector
    reading: Any
    monotonic: MonotonicTime
    carried: tuple[Counts, ...] = ()
    """The collector's counters, in their order."""
    made: tuple[Block, ...] | None = None
    """Its samples, once a page has asked for them."""

    def blocks(self, prefix: tuple[str, ...]) -> tuple[Block, ...]:
        """Its samples by family, labelled with `prefix`; raises what a family's function raises."""
        found = self.made
        if found is None or (found and found[0].prefix != prefix):
            found = self.made = tuple([Block(family, prefix, made) for family, made in self._made() if made.labels])
        return found

    def _made(self) -> Iterator[tuple[AnyFamily, Columns]]:
        counts = iter(self.carried)
        for family in self.collector.families:
            counter = family.type is Type.COUNTER
            yield family, family.checked(published(next(counts))) if counter else family.columns(self.reading)


def kept(
    collector: AnyCollector, before: CachedReading | None, reading: Any, monotonic: MonotonicTime
) -> CachedReading:
    """What is kept of one more good reading.

    It has the samples of the one before where it says the same, as most do that are read seldom.
    """
    counters = carried(collector, before, reading)
    made = None
    if before is not None and collector.pace is not Pace.PASS and before.reading == reading:
        made = before.made if before.carried == counters else None
    return CachedReading(collector, reading, monotonic, counters, made)


def carried(collector: AnyCollector, before: CachedReading | None, reading: Any) -> tuple[Counts, ...]:
    """The collector's counters after one more reading."""
    counts = before.carried if before else (NO_COUNTS,) * len(collector.counters)
    counters = zip(counts, collector.counters, strict=True)
    return tuple([count(each, family.by_labels(reading)) for each, family in counters])


def outlives_device(family: AnyFamily) -> bool:
    """Whether a family outlives its device: counters keep their value and descriptions stay true, levels do not."""
    return family.type is Type.COUNTER or family.is_info


def is_fresh(cached: CachedReading, monotonic: MonotonicTime, answered: MonotonicTime, stale: float) -> bool:
    """Whether gauges of `cached` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return cached.collector.pace is Pace.ONCE or monotonic - cached.monotonic <= stale + 2 * cached.collector.pace
