"""Model FLOPs utilization, to stand beside utilization: what programs report over what their GPUs could do at most."""

from __future__ import annotations

from grafana_foundation_sdk.builders import prometheus

from dashboards.parts import look
from dashboards.parts.query import RANGE, now
from dashboards.parts.table import Value, gauge

_FLOPS, _PEAKS = "workload:gpu_workload_model_flops:rate5m", "workload:gpu_peak_bf16_flops:sum"
_BOUND = "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m"
MEANING = (
    "MFU: the model FLOPs that the program reports over what its GPUs could do at most. Of one that reports none, MFU at most is a "
    "bound by tensor activity and clock."
)


def reported(scope: str, by: str) -> str:
    """Over the range: both sides are integrals."""
    done = f"sum by ({by}) (sum_over_time({_FLOPS}{{{scope}}}[{RANGE}]))"
    return f"{done} / (sum by ({by}) (sum_over_time({_PEAKS}{{{scope}}}[{RANGE}])) > 0)"


def bound(scope: str) -> str:
    return f"avg_over_time({_BOUND}{{{scope}}}[{RANGE}])"


def beside(utilization: prometheus.Dataquery, scope: str) -> list[prometheus.Dataquery]:
    """The queries of one panel: utilization, and what there is of these two."""
    return [utilization, now(reported(scope, ""), "MFU"), now(f"avg({bound(scope)})", "MFU at most")]


def column(scope: str, by: str, only: str = "") -> Value:
    return gauge("MFU", reported(scope, by) + only, look.PLAIN, width=70)


def now_column(scope: str, only: str = "") -> Value:
    """Of the last minutes."""
    return gauge(
        "MFU", f"workload:gpu_workload_model_flops_utilization:ratio_rate5m{{{scope}}}{only}", look.PLAIN, width=70
    )


def bound_column(scope: str, only: str = "") -> Value:
    return gauge("MFU at most", bound(scope) + only, look.PLAIN, width=105)
