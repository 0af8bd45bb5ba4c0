"""Counters never go back; that no reading is lost on the way is held in the tests of what is kept between cycles."""

from __future__ import annotations

import math

from exporter.core.counters import NO_COUNTS, Counts, count, published, totals
from exporter.core.families import Columns


def test_only_the_counters_that_are_asked_for_are_kept() -> None:
    counts = count(count(NO_COUNTS, {"a": 5.0, "b": 7.0}), {"a": 1.0, "b": 2.0})

    assert counts == Counts({"a": 5.0, "b": 7.0}, {"a": 1.0, "b": 2.0})
    assert counts.only({"a"}) == Counts({"a": 5.0}, {"a": 1.0})
    assert counts.only(()) == NO_COUNTS


def test_counter_that_falls_twice_has_both_added() -> None:
    counts = NO_COUNTS
    for raw in (5.0, 2.0, 3.0, 1.0):
        counts = count(counts, {("a",): raw})

    assert totals(counts) == {("a",): 9.0}
    assert published(counts) == Columns((("a",),), (9.0,))


def test_what_is_no_number_changes_no_counter() -> None:
    counts = count(count(NO_COUNTS, {"a": 5.0, "b": 1.0}), {"a": math.nan, "b": 2.0})

    assert totals(counts) == {"a": 5.0, "b": 2.0}


def test_reading_that_says_the_same_makes_nothing_new() -> None:
    counts = count(NO_COUNTS, {"a": 5.0})

    assert count(counts, {"a": 5.0}) is counts
