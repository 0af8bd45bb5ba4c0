"""What stays of readings between passes: the last good reading of a collector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.collectors.base import AnyCollector, Pace
from exporter.core.block import Block
from exporter.core.clock import MonotonicTime
from exporter.core.counters import NO_COUNTS, Counts, Totals, count, count_values, published
from exporter.core.families import AnyFamily, Columns, Type


class Carried(NamedTuple):
    """The counters of a collector on one target, in their order."""

    totals: Totals | None = None
    """Of those that are one number each."""
    counts: tuple[Counts, ...] = ()
    """Of those by labels."""


_NONE = Carried()


@dataclass(slots=True)
class CachedReading:
    """The last good reading of one collector on one target. Nothing of it changes but `made`.

    Passes are many and scrapes few: every reading advances the counters, so that no reset between two scrapes is
    missed; samples are made of those readings alone that a scrape meets.
    """

    collector: AnyCollector
    reading: Any
    monotonic: MonotonicTime
    carried: Carried = _NONE
    made: tuple[Block, ...] | None = None
    """Its samples, once a page has asked for them."""

    def blocks(self, prefix: tuple[str, ...]) -> tuple[Block, ...]:
        """Its samples by family, labelled with `prefix`; raises what a family's function raises."""
        found = self.made
        if found is None or (found and found[0].prefix != prefix):
            found = self.made = tuple([Block(family, prefix, made) for family, made in self._made() if made.labels])
        return found

    def _made(self) -> Iterator[tuple[AnyFamily, Columns]]:
        totals = self.carried.totals.published() if self.carried.totals else iter(())
        counts = iter(self.carried.counts)
        for family in self.collector.families:
            if family.type is not Type.COUNTER or family.summed:
                yield family, family.columns(self.reading)
            else:
                yield family, next(totals) if family.value else family.checked(published(next(counts)))


def kept(
    collector: AnyCollector, before: CachedReading | None, reading: Any, monotonic: MonotonicTime
) -> CachedReading:
    """What is kept of one more good reading.

    It has the samples of the one before where it says the same, as most do that are read seldom.
    """
    counters = carried(collector, before, reading) if collector.counts else _NONE
    made = None
    if before is not None and collector.pace is not Pace.PASS and before.reading == reading:
        made = before.made if before.carried == counters else None
    return CachedReading(collector, reading, monotonic, counters, made)


def carried(collector: AnyCollector, before: CachedReading | None, reading: Any) -> Carried:
    """The collector's counters after one more reading."""
    totals, counts = before.carried if before else Carried(counts=(NO_COUNTS,) * len(collector.counters))
    if collector.numbers:
        totals = count_values(totals, tuple([number(reading) for number in collector.numbers]))
    if collector.counters:
        labelled = zip(counts, collector.counters, strict=True)
        counts = tuple([count(each, family.by_labels(reading)) for each, family in labelled])
    return Carried(totals, counts)


def outlives_device(family: AnyFamily) -> bool:
    """Whether a family outlives its device: counters keep their value and descriptions stay true, levels do not."""
    return family.type is not Type.GAUGE


def is_fresh(cached: CachedReading, monotonic: MonotonicTime, answered: MonotonicTime, stale: float) -> bool:
    """Whether gauges of `cached` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return cached.collector.pace is Pace.ONCE or monotonic - cached.monotonic <= stale + 2 * cached.collector.pace
