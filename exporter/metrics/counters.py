"""Counters that never go back, whatever their source does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.metrics.family import Sample


class Counted(NamedTuple):
    """A published counter: `base` is what the driver's counter had reached before its resets."""

    base: float
    raw: float

    @property
    def value(self) -> float:
        return self.base + self.raw


Counts = Mapping[tuple[str, ...], Counted]
"""The counters of one family on one target, by label values."""


def count(previous: Counts, samples: Iterable[Sample]) -> Counts:
    """Carry a counter over the resets of its source, and keep the labels that have gone.

    A driver reload starts the driver's own counters at 0 again, and a reset GPU forgets its errors; what was
    published stays published. Every reading is compared with the one before, whether it is scraped or not.
    """
    changed: dict[tuple[str, ...], Counted] | None = None
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


def count_value(previous: Counts, value: float | None) -> Counts:
    """As `count`, of a family without labels of its own; None where the reading has no sample."""
    if value is None:
        return previous
    before = previous.get(())
    if before is None:
        return {(): Counted(0.0, value)}
    base, raw = before
    if value > raw:
        return {(): Counted(base, value)}
    return {(): Counted(base + raw, value)} if value < raw else previous


def published(counts: Counts) -> tuple[Sample, ...]:
    """What a scrape shows of the counters."""
    return tuple([Sample(base + raw, labels) for labels, (base, raw) in counts.items()])
