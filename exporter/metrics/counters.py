"""Counters that never go back, whatever their source does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.metrics.family import Columns, Values, one


class Counted(NamedTuple):
    """A published counter: `base` is what the driver's counter had reached before its resets."""

    base: float
    raw: float

    @property
    def value(self) -> float:
        return self.base + self.raw


Counts = Mapping[Values, Counted]
"""The counters of one family on one target, by label values."""


def count(previous: Counts, samples: Iterable[tuple[float, Values]]) -> Counts:
    """Carry a counter over the resets of its source, and keep the labels that have gone.

    A driver reload starts the driver's own counters at 0 again, and a reset GPU forgets its errors; what was
    published stays published. Every reading is compared with the one before, whether it is scraped or not.
    """
    changed: dict[Values, Counted] | None = None
    for value, labels in samples:
        before = previous.get(labels)
        if before is None:
            now = Counted(0.0, value)
        elif value > before[1]:
            now = Counted(before[0], value)
        elif value < before[1]:
            now = Counted(before[0] + before[1], value)
        else:
            continue
        if changed is None:
            changed = dict(previous)
        changed[labels] = now
    return previous if changed is None else changed


class Totals(NamedTuple):
    """The counters of several families that have one number each; None: there was none yet."""

    bases: tuple[float, ...]
    raws: tuple[float | None, ...]

    def published(self) -> Iterator[Columns]:
        """What a scrape shows of each."""
        for base, raw in zip(self.bases, self.raws, strict=True):
            yield one(None if raw is None else base + raw)


def count_values(previous: Totals | None, values: tuple[float | None, ...]) -> Totals:
    """As `count`; None where the reading has no sample."""
    if previous is None:
        return Totals((0.0,) * len(values), values)
    bases, raws = previous
    if raws == values:
        return previous
    if None in values:
        values = tuple([before if now is None else now for before, now in zip(raws, values, strict=True)])
    pairs = tuple(zip(raws, values, strict=True))
    if not [now for before, now in pairs if before is not None and (now is None or not now >= before)]:
        return Totals(bases, values)
    found = [_carried(base, before, now) for base, (before, now) in zip(bases, pairs, strict=True)]
    return Totals(tuple([base for base, _ in found]), tuple([raw for _, raw in found]))


def _carried(base: float, before: float | None, value: float | None) -> tuple[float, float | None]:
    if value is None:
        return base, before
    if before is None or value > before:
        return base, value
    return (base + before, value) if value < before else (base, before)


def published(counts: Counts) -> Columns:
    """What a scrape shows of the counters."""
    return Columns(tuple(counts), tuple([base + raw for base, raw in counts.values()]))
