"""Recording rules of what programs report: over the nodes of a workload, and beside what its GPUs could do."""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import WHOLE
from deploy.prometheus.recordings_device import MODEL_PEAK, WORKLOAD_MODELS
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.tools.report.model import WORK

_BY = f"by (cluster, {', '.join(WHOLE)})"
_NODES = f"by (cluster, instance, {', '.join(KEPT_OWNER_LABELS)})"
_ON = f"on (cluster, {', '.join(WHOLE)})"
_GPU = "max by (cluster, instance, uuid)"
_PEAK = f"{_GPU} (gpu_peak_bf16_flops)"
_CLOCK = f'({_GPU} (gpu_clock_hertz{{domain="sm"}}) / {_GPU} (gpu_clock_max_hertz{{domain="sm"}}))'

_TENSOR = f"{_GPU} (rate(gpu_tensor_active_seconds_total[5m]))"


def _record(record: str, expr: str, help: str, more: tuple[str, ...] = ()) -> Recording:
    return Recording(record=record, expr=expr, help=help, by=(*WHOLE, *more))


def _summed(name: str, what: str) -> Recording:
    expr = f"sum {_BY} (max {_NODES} (rate(gpu_workload_{name}_total[5m])))"
    return _record(
        f"workload:gpu_workload_{name}:rate5m", expr, f"{what} a second over all nodes and pods of the workload."
    )


def _reported(otherwise: str = "or") -> str:
    """Return the counters of work that the workload reports, by the label `unit`; steps where it reports no other."""
    units = (f'label_replace(workload:gpu_workload_{name}:rate5m, "unit", "{name}", "", "")' for name in WORK)
    *work, steps = units
    return f" {otherwise} ".join(work) + f" or {_ON} {steps}"


def _steps(stat: str, operation: str, text: str) -> Recording:
    expr = f'{operation.format(by=_BY)}max {_NODES} (gpu_workload_step_duration_seconds{{stat="{stat}"}}))'
    return _record(f"workload:gpu_workload_step_duration_seconds:{stat}", expr, text)


_FLOPS, _PEAKS = "workload:gpu_workload_model_flops:rate5m", "workload:gpu_peak_bf16_flops:sum"
_MFU, _BOUND = (
    "workload:gpu_workload_model_flops_utilization:ratio_rate5m",
    "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m",
)

PROGRESS = (
    _summed("samples", "Samples"),
    _summed("images", "Images"),
    _summed("tokens", "Tokens"),
    _summed("requests", "Requests"),
    _summed("model_flops", "Floating point operations of the model itself"),
    _record(
        "workload:gpu_workload_steps:rate5m",
        f"max {_BY} (rate(gpu_workload_steps_total[5m]))",
        "Steps a second: the ranks of all nodes take them together.",
    ),
    _record(
        "workload_unit:gpu_workload_throughput:rate5m",
        _reported(f"or {_ON}"),
        "What it gets done a second, in the first of these units that it reports: " + ", ".join(WORK) + ".",
        ("unit",),
    ),
    _record(
        "workload_unit:gpu_workload_work:rate5m",
        _reported(),
        "What it gets done a second, in each of these units that it reports, and in steps if it reports no other.",
        ("unit",),
    ),
    _steps("min", "min {by} (", "Seconds the fastest rank on any node needs for a step without waiting for others."),
    _steps("median", "quantile {by} (0.5, ", "The middle one of the nodes' medians, in seconds of a step."),
    _steps("max", "max {by} (", "Seconds the slowest rank on any node needs for a step without waiting for others."),
    _record(
        "workload:gpu_workload_slowest_rank_step_seconds:max",
        f"topk {_BY} (1, max by (cluster, instance, rank, {', '.join(WHOLE)})"
        " (gpu_workload_slowest_rank_step_seconds))",
        "The slowest rank over all nodes, by name and instance, and the seconds it needs for a step.",
        ("instance", "rank"),
    ),
    _record(
        _PEAKS,
        f"sum {_BY} ({WORKLOAD_MODELS.record} * on (cluster, model) group_left () {MODEL_PEAK.record})",
        "BF16 operations a second that the allocated GPUs and parts of GPUs can do at most.",
    ),
    _record(_MFU, f"{_FLOPS} / ({_PEAKS} > 0)", "Model FLOPs utilization: what the program reports over the peak."),
)
PROGRESS_NOW = (
    _record(
        _BOUND,
        f"clamp_max(sum {_BY} ((max by (cluster, instance, uuid, {', '.join(KEPT_OWNER_LABELS)})"
        " (gpu_allocation_ratio) > bool 0)"
        f" * on (cluster, instance, uuid) group_left () ({_TENSOR} * on (cluster, instance, uuid) {_CLOCK}"
        f" * on (cluster, instance, uuid) {_PEAK})) / ({_PEAKS} > 0), 1) unless {_ON} {_MFU}",
        "Upper bound of the model FLOPs utilization of what reports none: tensor activity times clock over peak clock.",
    ),
)
