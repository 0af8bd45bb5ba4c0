"""Counters that never go back, whatever their source does. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from exporter.core.families import Columns

Numbers = Mapping[Any, float]
"""Key: label values, or what else distinguishes the counters of a family."""


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


def totals(counts: Counts) -> Numbers:
    """Return the total of each counter over all resets of its source."""
    bases, raws = counts
    return {labels: bases.get(labels, 0.0) + raw for labels, raw in raws.items()}


def published(counts: Counts) -> Columns:
    """Return the counters as a scrape shows them."""
    found = totals(counts)
    return Columns(tuple(found), tuple(found.values()))
