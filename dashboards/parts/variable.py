"""Variables. Every dashboard begins with the data source and the cluster, then come those of its scope."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.parts import absence
from dashboards.parts.query import ALERTS, CLUSTER, SOURCE
from exporter.attribution.owner import OWNER_LABELS
from exporter.ledger.states import POSSIBLY_LOST
from exporter.tools.report.definitions import BUSY, LOST, REPLICAS

DOCS = "https://github.com/gpu-exporter/gpu-exporter/blob/main/docs/"
_ALL = model.VariableOption(text="All", value="$__all")


def datasource() -> build.DatasourceVariable:
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def cluster() -> build.QueryVariable:
    """All of them unless one is chosen; a Prometheus without a cluster label has just All."""
    return (
        _query("cluster", "Cluster", "label_values(gpu_exporter_build_info, cluster)")
        .include_all(True)
        .all_value(".*")
        .current(_ALL)
    )


def docs() -> build.ConstantVariable:
    """Return the address of the runbooks and the table of states: change it for a copy of your own.

    A constant is not read from the address of the page: `?var-docs=` would lead people anywhere.
    """
    made = build.ConstantVariable("docs").label("Documentation").value(DOCS)
    made._internal.skip_url_sync = True  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the builder has no method
    return made.description("Where runbooks and the table of states are, up to the last /")


CONSTANTS = {
    "replicas": REPLICAS,
    "lost_states": "|".join((*LOST, *POSSIBLY_LOST)),
    "busy_states": "|".join(BUSY),
    "firing": ALERTS,
    "xid_labels": "cluster, instance, gpu, uuid, xid, class",
    "owner_labels": ", ".join(OWNER_LABELS),
    **absence.CONSTANTS,
}
"""Texts that expressions name by a variable."""
_DESCRIPTIONS = {
    "replicas": "Labels by which replicas of Prometheus and of rulers differ",
    "lost_states": "States in which allocated GPU time is lost, or possibly lost",
    "busy_states": "States in which a kernel ran",
    "firing": "Alerts of these rules that fire",
    "xid_labels": "Labels of the XIDs of a GPU",
    "owner_labels": "Labels of the owner of a GPU",
    "not_scraped": "Text of a panel where no exporter is scraped",
    "no_rules": "Text of a panel where the recording rules are missing, or younger than their window",
    "no_alerts": "Text of a panel where the alert rules are missing, or younger than their window",
    "unreachable": "Text of an empty panel where some nodes are unreachable",
}


def constants() -> Iterator[build.TextBoxVariable]:
    """Hidden. Change the replica labels where replicas of Prometheus or of rulers have other ones."""
    for name, value in CONSTANTS.items():
        label = name.replace("_", " ").capitalize()
        yield text(name, label, value, _DESCRIPTIONS[name]).hide(model.VariableHide.HIDE_VARIABLE)


def node() -> build.QueryVariable:
    return one("instance", "Node", f"label_values(gpu_exporter_build_info{{{CLUSTER}}}, instance)")


def nodes() -> build.QueryVariable:
    return many("instance", "Node", f"label_values(gpu_exporter_build_info{{{CLUSTER}}}, instance)")


def models() -> build.QueryVariable:
    return many("model", "GPU model", f"label_values(gpu:gpu_info:first{{{CLUSTER}}}, model)")


def one(name: str, label: str, query: str) -> build.QueryVariable:
    """Exactly one value at a time."""
    return _query(name, label, query).multi(False).include_all(False)


def many(name: str, label: str, query: str) -> build.QueryVariable:
    """Any number of values; All also matches series on which the label is empty."""
    return _query(name, label, query).multi(True).include_all(True).all_value(".*").current(_ALL)


def allocated_to(owner: str) -> build.QueryVariable:
    """Return, hidden, the nodes with GPUs allocated to the selection, so that queries read those alone."""
    query = f"label_values(gpu_allocation_ratio{{{owner}}}, instance)"
    return (
        _query("instance", "Nodes", query)
        .multi(True)
        .include_all(True)
        .current(_ALL)
        .hide(model.VariableHide.HIDE_VARIABLE)
    )


def shown(scope: str, count: int = 12) -> build.QueryVariable:
    """Return, hidden, the workloads of the selection that wasted most in the range, for graphs and long tables."""
    return _worst(
        count,
        *(
            f"sum by (workload) (sum_over_time(workload:{each}{{{scope}}}[$__range]))"
            for each in ("gpu_waste:rate5m", "gpu_workload_allocated:rate5m")
        ),
    )


def shown_of_month(scope: str, count: int) -> build.QueryVariable:
    """Return the same by the recorded top lists, and of those that work now: a month has too many workloads to read."""
    now = "max by (workload) (workload:{}:rate5m{{{}}})".format
    listed = f"max by (workload) (sum_over_time(workload:gpu_waste_hours:topk1h{{{scope}}}[$__range]))"
    return _worst(count, f"{listed} or {now('gpu_waste', scope)}", now("gpu_workload_allocated", scope))


def _worst(count: int, waste: str, allocated: str) -> build.QueryVariable:
    return (
        _query("shown", "Shown", f"query_result(topk({count}, {waste} or 0 * {allocated}))")
        .regex('/workload="([^"]*)"/')
        .multi(True)
        .include_all(True)
        .current(_ALL)
        .hide(model.VariableHide.HIDE_VARIABLE)
    )


def text(name: str, label: str, default: str, description: str) -> build.TextBoxVariable:
    return (
        build.TextBoxVariable(name)
        .label(label)
        .description(description)
        .default_value(default)
        .current(model.VariableOption(text=default, value=default))
        .options([model.VariableOption(text=default, value=default, selected=True)])
    )


def _query(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name, "qryType": 1})
        .definition(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NATURAL_ASC)
    )
