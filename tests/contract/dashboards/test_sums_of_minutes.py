"""What is summed over a time range is recorded once a minute: sixty such sums are taken for an hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest

from deploy.prometheus.recordings import GROUPS
from tests.contract.dashboards.inference import walk
from tests.contract.dashboards.reading import NAMES, queries

RARE = {rule.record for group in GROUPS if group.interval != "1m" for rule in group.rules}


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
