"""The digest asks what the Waste dashboard asks, at the prices the dashboards begin with."""

from __future__ import annotations

import pytest

from dashboards.parts.price import PRICES as BOARD_PRICES
from dashboards.waste import waste
from deploy.prometheus.states import BUSY, LOST
from exporter.report import promql
from exporter.report.price import PRICES, Price
from exporter.report.words import TITLES


def _exprs() -> set[str]:
    panels = waste().build().panels or []
    return {target.expr for panel in panels for target in getattr(panel, "targets", None) or []}


EXPRS = _exprs()
SCOPE, RANGE = 'cluster=~"$cluster"', "$__range"


def is_asked(expr: str) -> bool:
    """Whether a panel asks it; the workloads' table cuts all its columns to the rows of the first."""
    return any(each == expr or each.startswith(f"{expr} and on (") for each in EXPRS)


def asked(expr: str) -> str:
    """A query of the report as the dashboard would write it: prices by variable."""
    for board, row in zip(BOARD_PRICES, PRICES, strict=True):
        expr = expr.replace(f"3600 * {row.per_hour:.2f}", f"3600 * ${board.variable}")
    return expr


@pytest.mark.parametrize("level", ["account", "namespace", "user"])
@pytest.mark.parametrize("query", [promql.held, promql.wasted, promql.utilization, promql.wasted_on])
def test_queries_of_a_level_are_the_dashboards(level: str, query: object) -> None:
    assert query(level, SCOPE, RANGE) in EXPRS  # type: ignore[operator]


@pytest.mark.parametrize("level", ["account", "namespace", "user", "workload"])
def test_price_of_the_loss_is_the_dashboards(level: str) -> None:
    assert is_asked(asked(promql.price_of_waste(level, SCOPE, RANGE, PRICES)))


def test_workloads_and_causes_are_the_dashboards() -> None:
    assert is_asked(promql.held("workload", SCOPE, RANGE))
    assert is_asked(promql.utilization("workload", SCOPE, RANGE))
    assert f"topk(30, {promql.wasted('workload', SCOPE, RANGE)} > 0)" in EXPRS
    assert promql.causes(SCOPE, RANGE) in EXPRS


def test_prices_are_those_the_dashboards_begin_with() -> None:
    assert tuple(Price(row.models, float(row.default)) for row in BOARD_PRICES) == PRICES


def test_states_are_the_rules_states() -> None:
    assert (promql.BUSY, promql.WASTED) == (BUSY, LOST)


def test_states_are_called_as_on_the_dashboards() -> None:
    from dashboards.parts.states import TITLES as SHOWN  # noqa: PLC0415

    assert {state: TITLES[state] for state in SHOWN} == SHOWN
