"""How often what panels look back at is recorded: sums are of minutes, and a change is between two samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest

from deploy.prometheus.recordings import GROUPS
from tests.contract.dashboards.inference import walk
from tests.contract.dashboards.reading import NAMES, load, queries

SECONDS = {
    rule.record: promql.parse_duration(group.interval).total_seconds() for group in GROUPS for rule in group.rules
}
RARE = {
    rule.record
    for group in GROUPS
    if group.interval != "1m"
    for rule in group.rules
    if not rule.record.endswith(":increase")
}
"""Without growth since the last recorded value: it is added up however rarely it is recorded."""


def summed(expr: Any) -> Iterator[str]:
    """Metrics whose samples a query adds up or counts over time."""
    for each in walk(expr):
        if isinstance(each, promql.Call) and each.func.name in {"sum_over_time", "count_over_time"}:
            yield from (inner.vector_selector.name for inner in walk(each) if isinstance(inner, promql.MatrixSelector))


@pytest.mark.parametrize("name", NAMES)
def test_no_panel_adds_up_what_is_recorded_rarely(name: str) -> None:
    assert {metric for query in queries(name) for metric in summed(promql.parse(query.promql))} & RARE == set()


def test_hours_of_a_day_are_of_what_is_recorded_every_minute() -> None:
    rules = [rule for group in GROUPS for rule in group.rules]

    assert {metric for rule in rules for metric in summed(promql.parse(rule.expr))} & RARE == set()


def test_a_sum_is_found() -> None:
    found = set(summed(promql.parse("max(sum_over_time(node:gpu_power_watts:sum[1h]) * 60)")))

    assert found == {"node:gpu_power_watts:sum"}
    assert found <= RARE


OF_TWO = {"changes", "delta", "deriv", "increase", "rate", "resets"}
"""Functions that say nothing of one sample."""


def too_short(expr: str) -> Iterator[str]:
    """Recordings that a query looks back at for so short that it may meet one sample, where it needs two."""
    for each in walk(promql.parse(expr)):
        if isinstance(each, promql.Call) and each.func.name in OF_TWO:
            [looked] = [inner for inner in walk(each) if isinstance(inner, promql.MatrixSelector)]
            name = looked.vector_selector.name
            if looked.range.total_seconds() < 2 * SECONDS.get(name, 0):
                yield name


@pytest.mark.parametrize("name", NAMES)
def test_panels_and_marks_meet_two_samples_of_what_changes(name: str) -> None:
    asked = [query.promql for query in queries(name)] + [each["expr"] for each in load(name)["annotations"]["list"]]

    assert {metric for expr in asked for metric in too_short(expr)} == set()


def test_a_look_that_is_too_short_is_found() -> None:
    started = "workload:gpu_workload_start_time_seconds:max"

    assert set(too_short(f"sum(changes({started}[2m]))")) == {started}
    assert set(too_short(f"sum(changes({started}[5m]) or rate(gpu_busy_seconds_total[1m]))")) == set()
