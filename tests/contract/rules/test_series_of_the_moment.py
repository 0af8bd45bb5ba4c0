"""An alert that reads series of the moment is kept where a scrape of them fails: by a time, or by what it remembers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence

import pytest
from promql_parser import (
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    MatrixSelector,
    ParenExpr,
    SubqueryExpr,
    UnaryExpr,
    VectorSelector,
    parse,
)

from deploy.prometheus.declaration import Alert
from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import ALERTS, CORRELATION, render

_ENOUGH = dt.timedelta(minutes=5)
"""What a selector must look back, to have a sample also where a few scrapes have failed."""
_RECORDED = {rule.record: rule.expr for rules in (*(group.rules for group in GROUPS), CORRELATION) for rule in rules}
_OF_RULES = {"up", "ALERTS", "ALERTS_FOR_STATE"}
"""What Prometheus itself writes, whether a scrape fails or not."""
_UNITS = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}


def momentary(expr: Expr) -> Iterator[str]:
    """The series without which `expr` gives nothing at once, where a scrape fails."""
    if isinstance(expr, VectorSelector):
        name = str(expr.name)
        if name not in _RECORDED:
            yield from () if name in _OF_RULES else (name,)
        elif name not in _RECORDED[name]:  # else it remembers itself
            yield from momentary(parse(_RECORDED[name]))
    for operand in operands(expr):
        yield from momentary(operand)


def operands(expr: Expr) -> Sequence[Expr]:
    """The parts of `expr` that must be there for it to be there."""
    if isinstance(expr, MatrixSelector | SubqueryExpr):
        inner = expr.vector_selector if isinstance(expr, MatrixSelector) else expr.expr
        return () if expr.range >= _ENOUGH else (inner,)
    if isinstance(expr, BinaryExpr):
        return halves(expr)
    if isinstance(expr, Call):
        return expr.args
    return (expr.expr,) if isinstance(expr, AggregateExpr | ParenExpr | UnaryExpr) else ()


def halves(expr: BinaryExpr) -> Sequence[Expr]:
    """Both, but for what is taken away, and what is remembered anyway."""
    if str(expr.op) == "unless":
        return (expr.lhs,)
    return (expr.rhs,) if str(expr.op) == "or" and remembers(expr) else (expr.lhs, expr.rhs)


def remembers(expr: BinaryExpr) -> bool:
    """Whether the second half is the first one as it was: what the alert stood on, or the same series a while ago."""
    before = expr.rhs.prettify()
    return "ALERTS_FOR_STATE" in before or set(momentary(expr.lhs)) <= set(
        re.findall(r"last_over_time\(\s*(\w+)", before)
    )


def minutes(duration: str) -> float:
    return float(duration[:-1]) * _UNITS[duration[-1]]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alert_on_series_of_the_moment_is_kept_for_two_evaluations(alert: Alert) -> None:
    (group, rule) = next(
        (group, rule) for group in render()["groups"] for rule in group["rules"] if rule.get("alert") == alert.name
    )
    kept = minutes(rule.get("keep_firing_for", "0s"))

    assert kept >= max(5, 2 * minutes(group["interval"])) or sorted(set(momentary(parse(rule["expr"])))) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("gpu_up == 0", {"gpu_up"}),
        ("max by (uuid) (max_over_time(gpu_up[2m])) > 0", {"gpu_up"}),
        ("max by (uuid) (max_over_time(gpu_up[6m])) > 0", set()),
        ("rate(gpu_busy_seconds_total[10m]) > 1 and on (uuid) gpu_up", {"gpu_up"}),
        ("rate(gpu_busy_seconds_total[10m]) > 1 unless on (uuid) gpu_up", set()),
        ("gpu_up == 0 or rate(gpu_busy_seconds_total[10m]) > 1", {"gpu_up"}),
        ("gpu_up or last_over_time(gpu_up[6m]) unless on (instance) up == 1", set()),
        ('gpu_up or ALERTS_FOR_STATE{alertname="GpuX"} and on (instance) up == 0', set()),
        ("cluster:gpu_exporters:count > 1", {"gpu_exporter_build_info"}),
        ("instance:gpu_node_maintenance:last", set()),
    ],
)
def test_series_of_the_moment_are_found(query: str, found: set[str]) -> None:
    assert set(momentary(parse(query))) == found
