"""The definitions as numbers: of hours by state what was held, used, wasted, and at which price."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from exporter.tools.report import definitions

HOURS: Mapping[str, float] = {
    "computing": 3.0,
    "memory_bound": 1.0,
    "wait_storage": 2.0,
    "wait_other": 1.0,
    "allocated_idle": 1.0,
    "unobserved": 2.0,
    "free": 6.0,
}
UNSEEN: Mapping[str, float] = {"unobserved": 2.0, "free": 6.0}


@pytest.mark.parametrize(
    ("number", "expected", "of_unseen"),
    [
        (definitions.allocated, 10.0, 2.0),
        (definitions.observed, 8.0, 0.0),
        (definitions.used, 4.0, None),
        (definitions.utilization, 0.5, None),
        (definitions.busy_ratio, 4 / 14, 0.0),
        (definitions.target_ratio, 0.5 / 0.7, None),
        (lambda hours: definitions.target_ratio(hours, "service"), 0.5 / 0.35, None),
        (lambda hours: definitions.target_ratio(hours, "a class of its own"), 0.5 / 0.7, None),
        (lambda hours: definitions.cost(hours, 2.5), 25.0, 5.0),
    ],
)
def test_numbers_of_hours(
    number: Callable[[definitions.Hours], float | None], expected: float, of_unseen: float | None
) -> None:
    assert number(HOURS) == pytest.approx(expected)
    assert number(UNSEEN) == of_unseen


def test_what_was_wasted_is_what_nothing_came_of_and_is_priced_so() -> None:
    lost = sum(hours for state, hours in HOURS.items() if state in definitions.LOST)

    assert definitions.lost(HOURS) == lost > 0
    assert definitions.cost_of_waste(HOURS, 2.5) == pytest.approx(2.5 * lost)
    assert definitions.lost(UNSEEN) is definitions.cost_of_waste(UNSEEN, 2.5) is None
    assert definitions.busy_ratio({}) is None
    assert definitions.busy_ratio({"computing": 0.25, "free": 0.25}) == 0.5
