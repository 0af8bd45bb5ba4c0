"""The digest asks what the Waste dashboard asks, at the same recorded prices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dashboards.waste import SHOWN, waste
from deploy.prometheus.states import BUSY, LOST
from exporter.tools.report import definitions, promql


def _exprs() -> set[str]:
    panels = waste().build().panels or []
    return {target.expr for panel in panels for target in getattr(panel, "targets", None) or []}


EXPRS = _exprs()
SCOPE, RANGE = 'cluster=~"$cluster"', "$__range"


def is_asked(expr: str) -> bool:
    """Whether a column of a table asks it: whole, and perhaps of some rows alone."""
    return any(expr in each for each in EXPRS)


@pytest.mark.parametrize("level", ["account", "namespace", "user", "workload"])
@pytest.mark.parametrize("query", [promql.allocated_gpu_hours, promql.wasted, promql.utilization, promql.wasted_on])
def test_queries_of_a_level_are_the_dashboards(level: str, query: Callable[[str, str, str], str]) -> None:
    assert is_asked(query(level, SHOWN if level == "workload" else SCOPE, RANGE))


@pytest.mark.parametrize("level", ["account", "namespace", "user", "workload"])
def test_price_of_the_loss_is_the_dashboards(level: str) -> None:
    assert is_asked(promql.price_of_waste(level, SHOWN if level == "workload" else SCOPE, RANGE))


def test_causes_are_the_dashboards() -> None:
    assert is_asked(promql.causes(promql.TEAM, SCOPE, RANGE))


def test_states_are_the_rules_states() -> None:
    assert (definitions.BUSY, definitions.LOST) == (BUSY, LOST)
