"""Two targets may scrape one exporter, and two replicas evaluate the rules: no panel takes a series twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest

from dashboards.parts.once import SAME_TARGET, once
from exporter.tools.report.definitions import REPLICAS
from tests.contract.dashboards.inference import children, labels, selectors, walk
from tests.contract.dashboards.reading import NAMES, load, queries
from tests.contract.dashboards.vocabulary import RECORDED


@pytest.mark.parametrize("name", NAMES)
def test_what_two_targets_scrape_or_two_replicas_record_is_taken_once(name: str) -> None:
    asked = [query.promql for query in queries(name)] + [each["expr"] for each in load(name)["annotations"]["list"]]

    assert {(metric, expr) for expr in asked for metric in _twice(promql.parse(expr))} == set()


def _twice(expr: Any) -> Iterator[str]:
    """Metrics that more than the largest or smallest of their targets or replicas is taken of."""
    if isinstance(expr, promql.VectorSelector):
        yield str(expr.name)
    elif _is_extreme(expr) and all(map(_within_a_target, walk(expr.expr))):
        left = labels(expr) & {"job"}
        yield from (selector.name for selector in selectors(expr) if left and selector.name not in RECORDED)
    else:
        for child in (expr.lhs,) if _only_chooses(expr) else children(expr):
            yield from _twice(child)


def _is_extreme(expr: Any) -> bool:
    return isinstance(expr, promql.AggregateExpr) and str(expr.op) in {"max", "min"}


def _only_chooses(expr: Any) -> bool:
    """Whether what is behind it is one metric of which only the presence matters."""
    return (
        isinstance(expr, promql.BinaryExpr)
        and str(expr.op) in {"and", "unless"}
        and not any(isinstance(each, promql.BinaryExpr) and labels(each.rhs) for each in walk(expr.rhs))
    )


def _within_a_target(expr: Any) -> bool:
    """Whether it is no join, or joins what was scraped together."""
    if not isinstance(expr, promql.BinaryExpr) or not labels(expr.rhs):
        return True
    return expr.modifier is not None and expr.modifier.matching is not None and "job" in expr.modifier.matching.labels


_OF_GPU = "max by (cluster, instance, gpu, uuid)"
_OF_RULE = f"max without ({REPLICAS})"
_OF_ALERT = f"max without (job, endpoint, service, {REPLICAS})"


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ("sum(gpu_up{})", f"sum({_OF_GPU} (gpu_up{{}}))"),
        ("rate(gpu_busy_seconds_total{}[5m]) > 0", f"{_OF_GPU} (rate(gpu_busy_seconds_total{{}}[5m])) > 0"),
        ("gpu_up{} offset $__range", f"{_OF_GPU} (gpu_up{{}} offset $__range)"),
        ("max by (gpu) (gpu_up{})", "max by (gpu) (gpu_up{})"),
        ("max (gpu_up{} * up{})", f"max ({_OF_GPU} (gpu_up{{}}) * max by (cluster, instance) (up{{}}))"),
        ("gpu_up{} and on (gpu) (gpu_up{} == 1)", f"{_OF_GPU} (gpu_up{{}}) and on (gpu) (gpu_up{{}} == 1)"),
        ("max by (gpu) (gpu_up{} > 0)", "max by (gpu) (gpu_up{} > 0)"),
        ("count(ALERTS{})", f"count({_OF_ALERT} (ALERTS{{}}))"),
        ("count_over_time(ALERTS{}[1h] @ end())", f"{_OF_ALERT} (count_over_time(ALERTS{{}}[1h] @ end()))"),
        ("sum(node:gpu_up:count{})", f"sum({_OF_RULE} (node:gpu_up:count{{}}))"),
        (f"{_OF_RULE} (sum_over_time(node:gpu_up:count{{}}[1h]))",) * 2,
        ("sum(another:rule:sum{})", "sum(another:rule:sum{})"),
        (f"max (up and {SAME_TARGET} gpu_up{{}})", f"max (up and {SAME_TARGET} gpu_up{{}})"),
    ],
)  # fmt: skip
def test_a_series_becomes_the_largest_of_its_targets_and_replicas(expr: str, wanted: str) -> None:
    assert once(expr) == wanted
