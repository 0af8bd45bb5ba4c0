"""Counters never go back; that no reading is lost on the way is held in the tests of what is kept between passes."""

from __future__ import annotations

import math

import pytest

from exporter.core.counters import NO_COUNTS, Counts, Totals, count, count_values, published, totals
from exporter.core.families import Columns


def test_only_the_counters_that_are_asked_for_are_kept() -> None:
    counts = count(count(NO_COUNTS, {"a": 5.0, "b": 7.0}), {"a": 1.0, "b": 2.0})

    assert counts == Counts({"a": 5.0, "b": 7.0}, {"a": 1.0, "b": 2.0})
    assert counts.only({"a"}) == Counts({"a": 5.0}, {"a": 1.0})
    assert counts.only(()) == NO_COUNTS


def test_counter_that_falls_twice_has_both_added() -> None:
    counts = NO_COUNTS
    for raw in (5.0, 2.0, 3.0, 1.0):
        counts = count(counts, {"a": raw})

    assert totals(counts) == {"a": 9.0}
    assert published(counts) == Columns((("a",),), (9.0,))


def test_what_is_no_number_changes_no_counter() -> None:
    counts = count(count(NO_COUNTS, {"a": 5.0, "b": 1.0}), {"a": math.nan, "b": 2.0})

    assert totals(counts) == {"a": 5.0, "b": 2.0}
    assert count_values(count_values(None, (5.0, 1.0)), (math.nan, 2.0)) == Totals((0.0, 0.0), (5.0, 2.0))


def test_reading_that_says_the_same_makes_nothing_new() -> None:
    counts, kept = count(NO_COUNTS, {"a": 5.0}), count_values(None, (5.0, None))

    assert count(counts, {"a": 5.0}) is counts
    assert count_values(kept, (5.0, None)) is kept


@pytest.mark.parametrize("values", [(1.0,), (1.0, 2.0, 3.0)], ids=["fewer", "more"])
def test_readings_of_other_counters_are_not_taken_for_these(values: tuple[float, ...]) -> None:
    kept = count_values(count_values(None, (5.0, 6.0)), (5.5, 6.5))

    with pytest.raises(ValueError, match=r"shorter|longer"):
        count_values(kept, values)
