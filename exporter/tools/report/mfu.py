"""Model FLOPs utilization of groups of workloads, from recorded series: what is reported, and the bound of what is not.

A workload that reports its operations is in the first, one that does not is in the second; none is in both.
"""

from __future__ import annotations

from exporter.tools.report.promql import DEVICE

FLOPS = "workload:gpu_workload_model_flops:rate5m"
PEAKS = "workload:gpu_peak_bf16_flops:sum"
BOUND = "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m"


def reported(scope: str, by: str, window: str = "") -> str:
    """Of the window, or now: operations over what the GPUs of the same workloads could do at most."""
    done, peaks = _summed(FLOPS, scope, window), _summed(PEAKS, scope, window)
    return f"sum by ({by}) ({done}) / (sum by ({by}) ({peaks} and {done}) > 0)"


def bound(scope: str, by: str, window: str = "") -> str:
    """The mean of the bounds, each weighted by what its GPUs could do."""
    most = f"avg_over_time({BOUND}{{{scope}}}[{window}])" if window else f"{BOUND}{{{scope}}}"
    peaks = _summed(PEAKS, scope, window)
    return f"sum by ({by}) ({most} * {peaks}) / (sum by ({by}) ({peaks} and {most}) > 0)"


def peak_flops(selector: str, window: str) -> str:
    """Operations a second that a GPU of one workload can do at most: the mean of its GPUs, each by its share."""
    share = f"max by ({DEVICE}) (max_over_time(gpu_owner_share{{{selector}}}[{window}]))"
    peak = f"max by ({DEVICE}) (last_over_time(gpu_peak_bf16_flops[{window}]))"
    return f"sum ({share} * on ({DEVICE}) {peak}) / (sum ({share} and on ({DEVICE}) {peak}) > 0)"


def flops_bound(selector: str, window: str) -> str:
    """As recorded: an upper bound of the model FLOPs utilization of one workload."""
    return f"avg (avg_over_time({BOUND}{{{selector}}}[{window}]))"


def _summed(recorded: str, scope: str, window: str) -> str:
    return f"sum_over_time({recorded}{{{scope}}}[{window}])" if window else f"{recorded}{{{scope}}}"
