"""Counters that never go back, whatever their source does. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from exporter.core.families import Columns, one

Numbers = Mapping[Any, float]
"""By label values: a tuple of them, or a text where there is one label."""


class Counts(NamedTuple):
    """The counters of one family on one target, by label values.

    `raws` are the source's own; `bases` what it had reached before its resets, where it had any.
    """

    bases: Numbers
    raws: Numbers

    def only(self, labels: Collection[Any]) -> Counts:
        """Those of these labels."""
        return Counts(
            {each: base for each, base in self.bases.items() if each in labels},
            {each: raw for each, raw in self.raws.items() if each in labels},
        )


NO_COUNTS = Counts({}, {})


def count(previous: Counts, numbers: Numbers) -> Counts:
    """Carry a counter over the resets of its source, and keep the labels that have gone.

    A driver reload starts the driver's own counters at 0 again, and a reset GPU forgets its errors; what was
    published stays published. Every reading is compared with the one before, whether it is scraped or not.
    """
    bases, raws = previous
    if numbers == raws:
        return previous
    for labels, before in raws.items():
        now = numbers.get(labels)
        if now is None or not now >= before:
            return _with_resets(previous, numbers)
    return Counts(bases, numbers)


def _with_resets(previous: Counts, numbers: Numbers) -> Counts:
    bases, raws = dict(previous.bases), dict(previous.raws)
    for labels, now in numbers.items():
        before = raws.get(labels)
        if before is not None and now < before:
            bases[labels] = bases.get(labels, 0.0) + before
        if before is None or now > before or now < before:
            raws[labels] = now
    return Counts(bases, raws)


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
    for before, now in zip(raws, values, strict=True):
        if before is not None and (now is None or not now >= before):
            found = [_carried(*each) for each in zip(bases, raws, values, strict=True)]
            return Totals(tuple([base for base, _ in found]), tuple([raw for _, raw in found]))
    return Totals(bases, values)


def _carried(base: float, before: float | None, value: float | None) -> tuple[float, float | None]:
    if value is None:
        return base, before
    if before is None or value > before:
        return base, value
    return (base + before, value) if value < before else (base, before)


def totals(counts: Counts) -> Numbers:
    """What each has come to, over all resets of its source."""
    bases, raws = counts
    return {labels: bases.get(labels, 0.0) + raw for labels, raw in raws.items()}


def published(counts: Counts) -> Columns:
    """What a scrape shows of the counters."""
    found = totals(counts)
    return Columns(
        tuple([(labels,) if isinstance(labels, str) else labels for labels in found]),
        tuple(found.values()),
    )
