"""Counters that never go back, whatever their source does. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.metrics.family import Sample


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
