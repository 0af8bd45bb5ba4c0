"""Rules and runbooks ask for series and labels there are: those the exporter declares, or a recording rule makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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

from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import CORRELATION, render, render_recordings
from exporter.core.families import Type
from exporter.faults.rules import NAMES
from exporter.sampling.families import families
from exporter.tools.report.definitions import SCRAPE
from tests.stack import ROOT

TARGET = {"job", "instance", "node", "cluster", "rack", "site"}
OF_SCRAPERS = set(SCRAPE.split(", "))
"""Labels that whoever scrapes, or a site's ruler, may add."""
OTHERS = {
    "up": {"slurm_partition"},
    "gpu_accounting_scheduler_difference_ratio": set(),
    "gpu_accounting_day_gpu_seconds": set(),
    "gpu_accounting_unread_nodes": set(),
    "gpu_accounting_waiting_gpus": {"reason"},
    "gpu_accounting_waiting_jobs": {"size"},
    "gpu_accounting_waiting_seconds": {"quantile"},
    "gpu_accounting_waiting_smallest_gpus": set(),
    "kube_pod_container_resource_requests": {"namespace", "pod", "container", "node", "resource", "unit"},
    "kube_pod_created": {"namespace", "pod"},
    "kube_pod_status_phase": {"namespace", "pod", "phase"},
    "kube_pod_status_unschedulable": {"namespace", "pod"},
    "kube_node_status_allocatable": {"resource", "unit"},
    "kueue_pending_workloads": {"cluster_queue", "status"},
    "kueue_reserving_active_workloads": {"cluster_queue"},
    "kueue_cluster_queue_resource_reservation": {"cohort", "cluster_queue", "flavor", "resource"},
    "kube_node_created": set(),
    "kube_node_info": set(),
    "gpu:price_per_hour": {"cluster", "model", "profile", "pool", "currency"},
    "team:gpu_site_team:group": {"team", "site_team"},
    "kube_node_status_condition": {"condition", "status"},
    "kube_node_spec_unschedulable": set(),
    "kube_node_status_capacity": {"resource", "unit"},
    "kube_node_spec_taint": {"key"},
    "process_cpu_seconds_total": set(),
    "ALERTS": {
        "alertstate",
        "alertname",
        "severity",
        "audience",
        "runbook",
        "uuid",
        "wave",
        "user",
        "workload_namespace",
    },
    "ALERTS_FOR_STATE": {"alertname", "severity", "audience", "runbook"},
}
ENGINES = Path(__file__).with_name("engines")
RECORDED = {rule.record: set(rule.by) for rules in (*(group.rules for group in GROUPS), CORRELATION) for rule in rules}
QUERY = re.compile(r"```promql\n(.*?)```|`([^`\n]*\b(?:gpu_|ALERTS|up\{)[^`\n]*)`", re.DOTALL)


def known() -> Mapping[str, set[str]]:
    declared = {family.name: set(family.all_labels) for family in families(("pool",))}
    return {**OTHERS, **engines(), **RECORDED, **declared}


def engines() -> Mapping[str, set[str]]:
    """Series of serving engines, with the labels of a pod that is scraped; `model_id` is TGI's, where it has one."""
    found: dict[str, set[str]] = {}
    for path in sorted(ENGINES.glob("*.prom")):
        for name, text in re.findall(r"^([a-z0-9_:]+)(\{.*\})? ", path.read_text(), re.MULTILINE):
            found.setdefault(name, {"namespace", "pod", "model_id"}).update(re.findall(r'([a-z_]+)="', text))
    now, before = "inter_token_latency", "time_per_output_token"  # what releases call the same
    others = {name.replace(one, other): found[name] for name in found for one, other in ((now, before), (before, now))}
    return {**others, **found}


def selectors(expr: Expr) -> Iterator[VectorSelector]:
    """The vector selectors of an expression, wherever they are in it."""
    if isinstance(expr, VectorSelector):
        yield expr
    elif isinstance(expr, MatrixSelector):
        yield from selectors(expr.vector_selector)
    elif isinstance(expr, BinaryExpr):
        yield from selectors(expr.lhs)
        yield from selectors(expr.rhs)
    elif isinstance(expr, Call):
        for argument in expr.args:
            yield from selectors(argument)
    elif isinstance(expr, AggregateExpr | ParenExpr | SubqueryExpr | UnaryExpr):
        yield from selectors(expr.expr)


def labels(expr: Expr) -> Iterator[str]:
    """Labels that `by`, `without`, `on` and the groupings name."""
    text = expr.prettify()
    for found in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)", text):
        yield from (name.strip() for name in found.split(",") if name.strip())


def wrong(query: str) -> list[str]:
    expr, series = parse(query), known()
    found = [f"no series {each.name}" for each in selectors(expr) if each.name not in series]
    for each in selectors(expr):
        names = {matcher.name for matcher in each.matchers.matchers}
        found += [f"{each.name} has no label {name}" for name in names - series.get(str(each.name), names) - TARGET]
    made = re.findall(r'"([a-z_]+)", "[^"]*", "[a-z_]*", "', query)
    all_labels = TARGET.union(OF_SCRAPERS, made, *(series.get(str(each.name), set()) for each in selectors(expr)))
    return found + [f"no label {name}" for name in labels(expr) if name not in all_labels]


def rules() -> list[tuple[str, str]]:
    documents: list[dict[str, Any]] = [render(), render_recordings()]
    return [
        (rule.get("alert") or rule["record"], rule["expr"])
        for document in documents
        for group in document["groups"]
        for rule in group["rules"]
    ]


@pytest.mark.parametrize(("name", "expr"), rules(), ids=[name for name, _ in rules()])
def test_rule_asks_for_what_there_is(name: str, expr: str) -> None:
    assert wrong(expr) == [], name


@pytest.mark.parametrize("path", sorted((ROOT / "docs/runbooks").glob("*.md")), ids=lambda path: path.stem)
def test_runbook_asks_for_what_there_is(path: Any) -> None:
    queries = [block or span for block, span in QUERY.findall(path.read_text()) if span not in NAMES]  # of the check

    assert [each for query in queries for each in wrong(query)] == []


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("rate(gpu_bussy_seconds_total[5m])", "no series gpu_bussy_seconds_total"),
        ('gpu_up{uid="x"}', "gpu_up has no label uid"),
        ("sum by (modell) (gpu_info)", "no label modell"),
    ],
)
def test_misspelt_name_is_found(query: str, complaint: str) -> None:
    assert wrong(query) == [complaint]


def test_counters_are_asked_as_counters() -> None:
    """A counter is read through a rate or an increase, or compared with what it was; never summed raw."""
    counters = {family.name for family in families() if family.type is Type.COUNTER}
    raw = {"gpu_ecc_errors_total", "gpu_xid_errors_total", "gpu_workload_steps_total", "gpu_throttled_seconds_total"}
    levels = re.compile(r"(?<![\w:])(gpu_\w+_total)(?!\w)(?:\{[^}]*\})?(?!\[|\{|\w)")

    for name, expr in rules():
        assert {found for found in levels.findall(expr) if found in counters} <= raw, name
