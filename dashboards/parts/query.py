"""Prometheus queries, and the selectors and expressions that many panels need."""

from __future__ import annotations

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.parts import states

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

CLUSTER = 'cluster=~"$cluster"'
NODE = 'cluster=~"$cluster", instance=~"$instance"'
DEVICE = 'cluster=~"$cluster", instance=~"$instance", gpu=~"$gpu"'
POD = 'cluster=~"$cluster", kind!="slurm", namespace=~"$namespace", workload=~"$workload"'
SLURM = 'cluster=~"$cluster", kind="slurm", account=~"$account", user=~"$user", workload=~"$workload"'

THERMAL = 'reason=~"sw_thermal|hw_thermal|thermal"'
GPU_LABELS = "cluster, instance, gpu, uuid"
ALERTS = 'alertname=~"Gpu.*", alertstate="firing"'
GPU_HOURS = "suffix: GPU h"
"""Not the unit for hours, which turns 48 of them into two days."""
RULE_SECONDS = 60
"""Between two evaluations of a recording rule: sums over time of one, times this, are integrals in seconds."""


def over_time(expr: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(SOURCE).range()


def now(expr: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(SOURCE).instant()


def rows(expr: str) -> prometheus.Dataquery:
    return now(expr).format(PromQueryFormat.TABLE)


def rate(selector: str) -> str:
    return f"rate({selector}[$__rate_interval])"


def hours(recorded: str) -> str:
    """GPU hours in the dashboard's range, from a recorded rate that is evaluated once a minute."""
    return f"sum_over_time({recorded}[$__range]) * {RULE_SECONDS} / 3600"


def in_range(moments: str) -> str:
    """Of series whose value is a moment, those whose last one lies in the dashboard's range; as seconds ago."""
    return f"(time() - max_over_time({moments}[$__range]) < $__range_s)"


def dominant(expr: str, by: str) -> str:
    """The place in the table of the state in which each `by` spent most: one number, for a state timeline."""
    top = f"topk by ({by}) (1, sum by ({by}, state) ({expr}))"
    return f"max by ({by}) (0 * {top} + on (state) group_left () ({states.codes()}))"


def worst(scope: str, count: int = 12) -> str:
    """The workloads that wasted most in the range, the same ones at every step of a graph."""
    waste = f"sum_over_time(workload:gpu_waste:rate5m{{{scope}}}[$__range] @ end())"
    return f"topk({count}, sum by (cluster, workload) ({waste}))"
