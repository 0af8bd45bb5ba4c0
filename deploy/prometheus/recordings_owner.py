"""Recording rules of workloads: allocation and use now. Totals of owners are in recordings_accounting."""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import WHOLE, by, once, record, summed
from deploy.prometheus.recordings_device import GPU_BUSY
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.tools.report.definitions import GOOD, HIGH


def _of_parts(name: str, operation: str, expr: str, help: str) -> Recording:
    """Record over the pods, and over the parts on other nodes, that are one workload."""
    return record(f"workload:{name}", WHOLE, f"{operation} {by(WHOLE)} ({expr})", help)


PART_STATES = record(
    "part_state:gpu_workload_gpu_seconds:rate5m",
    ("instance", *KEPT_OWNER_LABELS, "state"),
    once((*KEPT_OWNER_LABELS, "state"), "rate(gpu_workload_gpu_seconds_total[5m]) > 0"),
    "GPUs' worth of allocated time of a pod's container, or of a job on one of its nodes, in each state that took any.",
)
PART_USED = record(
    "part:gpu_workload_used:rate5m",
    ("instance", *KEPT_OWNER_LABELS),
    summed(
        ("instance", *KEPT_OWNER_LABELS),
        once(("uuid", *KEPT_OWNER_LABELS), "rate(gpu_workload_busy_gpu_seconds_total[5m]) > 0"),
    ),
    "GPUs' worth of time that a pod's container, or a job on one of its nodes, ran kernels, whatever it was allocated.",
)
_STARTED = "workload:gpu_workload_start_time_seconds:max"
_RESTARTED = "workload:gpu_workload_restarts:max"
_COUNTED = f"max_over_time({_RESTARTED}[1d]) - min_over_time({_RESTARTED}[1d])"
WORKLOAD_USED = _of_parts(
    "gpu_workload_used:rate5m",
    "sum",
    PART_USED.record,
    "GPUs' worth of time that it ran kernels, whatever is allocated to it.",
)
WORKLOAD_PARTS = (
    _of_parts(
        "gpu_workload_start_time_seconds:max",
        "max",
        "gpu_workload_start_time_seconds",
        "Unix time the newest of its parts started.",
    ),
    record(
        "workload_job_name:gpu_workload_start_time_seconds:max",
        ("workload", "job_name"),
        "max by (cluster, workload, job_name) (gpu_workload_start_time_seconds * on (cluster, workload)"
        " group_left (job_name) topk by (cluster, workload) (1, max by (cluster, workload, job_name)"
        ' (gpu_workload_info{job_name!=""})))',
        "Unix time the newest of its parts started, with the name of the job.",
    ),
    _of_parts(
        "gpu_workload_restarts:max",
        "max",
        "gpu_workload_restarts",
        "How often it was started again by the scheduler's count, the most of its parts.",
    ),
)
STARTS = record(
    "workload:gpu_workload_starts:changes1d",
    WHOLE,
    f"max {by(WHOLE)} ("
    f'label_replace(changes({_STARTED}[1d]), "told", "start", "", "")'
    f' or label_replace({_COUNTED}, "told", "restarts", "", ""))',
    "How often something of it was started again in the last 24 hours: new pods, restarted containers, requeues. "
    "What starts within two and a half minutes counts once.",
)
WORKLOAD_NOW = (
    *(
        _of_parts(
            f"gpu_utilization:{operation}",
            operation,
            f"0 * ({once(('uuid', *KEPT_OWNER_LABELS), 'gpu_allocation_ratio')} > 0)"
            f" + on (cluster, instance, uuid) group_left () {GPU_BUSY.record}",
            f"Fraction of its observed time in which a kernel ran on the {which} used of its allocated GPUs, 0 to 1.",
        )
        for operation, which in (("min", "least"), ("max", "most"))
    ),
    _of_parts(
        "gpu_straggling:ratio_rate5m",
        "max",
        "rate(gpu_workload_straggler_seconds_total[5m])",
        "Fraction of time in which the others waited for the slowest of its GPUs.",
    ),
    _of_parts(
        "gpu_workload_parts:count",
        "count",
        f"count {by(('instance', *KEPT_OWNER_LABELS))} (gpu_workload_allocated_gpus > 0)",
        "Its parts with allocated GPUs: containers of pods, a job on each of its nodes.",
    ),
)
"""Rules that are asked of this moment, not summed over time."""
_WORKLOAD_SECONDS = "workload_state:gpu_workload_gpu_seconds:rate5m"


_TARGET = "workload:gpu_utilization_good:ratio"
TARGET_UTILIZATION = record(
    _TARGET,
    ("workload",),
    f"max {by(('workload',))} ("
    + " or ".join(f'{good:g} * gpu_workload_info{{class="{name}"}}' for name, good in GOOD.items() if good != HIGH)
    + ")",
    f"Utilization from which on a workload is good, of classes with a target of their own; else it is {HIGH:g}.",
)


_ALLOCATED = "workload:gpu_workload_allocated:rate5m"
_OBSERVED = "workload:gpu_workload_observed:rate5m"
WORKLOAD_UTILIZATION = record(
    "workload:gpu_utilization:ratio_rate5m",
    WHOLE,
    f"workload:gpu_workload_busy:rate5m / ({_OBSERVED} > 0)",
    "Fraction of the allocated and observed GPU time in which a kernel ran and did more than wait, 0 to 1.",
)


_SCALED = "Deployment|StatefulSet|ReplicaSet|Rollout|LeaderWorkerSet|InferenceService"
"""Kinds whose number of pods an autoscaler changes."""


def _scaled(expr: str) -> str:
    """Return the expression with the owner's kind and bare name: a label's value in Kubernetes has no slash."""
    for number, label in enumerate(("owner_kind", "owner_name"), 1):
        expr = f'label_replace({expr}, "{label}", "${number}", "workload", "[^/]+/([^/]+)/(.+)")'
    return expr


_OF_SCALED = f'{{workload=~"[^/]+/({_SCALED})/.+"}}'
_SCALED_SERIES = f"gpu_workload_allocated_gpus{_OF_SCALED}"
_SCALED_GPUS = record(
    "part:gpu_workload_allocated_gpus:scaled",
    KEPT_OWNER_LABELS,
    # A single scrape has no rate: what ran is unknown, and not 0.
    once(KEPT_OWNER_LABELS, f"{_SCALED_SERIES} and count_over_time({_SCALED_SERIES}[1m]) > 1"),
    "Allocated GPUs of each part of a workload that autoscalers scale, of parts with two scrapes in the last minute.",
)
_SCALED_BUSY = once(("uuid", *KEPT_OWNER_LABELS), f"rate(gpu_workload_busy_gpu_seconds_total{_OF_SCALED}[1m])")
_SCALED_SUM = summed(WHOLE, f"{_SCALED_BUSY} or 0 * {_SCALED_GPUS.record}")
SCALED = (
    _SCALED_GPUS,
    record(
        "workload:gpu_utilization:ratio_rate1m",
        (*WHOLE, "owner_kind", "owner_name"),
        _scaled(f"\n{_SCALED_SUM}\n/ ({summed(WHOLE, _SCALED_GPUS.record)} > 0)"),
        "Fraction of the last minute in which the GPUs of a workload that autoscalers scale ran kernels, 0 to 1.",
    ),
)


_LOST_SECONDS = f'{_WORKLOAD_SECONDS}{{state=~"{regex(LOST)}"}}'


def _total(name: str, expr: str, help: str) -> Recording:
    """The sum of `expr` over the parts of a workload."""
    return record(f"workload:{name}", WHOLE, summed(WHOLE, once(KEPT_OWNER_LABELS, expr)), help)


WORKLOAD_ALLOCATED = (
    _total("gpu_workload_allocated_gpus:sum", "gpu_workload_allocated_gpus", "Allocated GPUs."),
    _total("gpu_workload_memory_bytes:sum", "gpu_workload_memory_bytes", "GPU memory its processes use, bytes."),
)
"""GPUs that workloads have allocated now."""


def _part(matcher: str) -> str:
    return f"{summed(WHOLE, f'{_WORKLOAD_SECONDS}{{{matcher}}}')} or 0 * {_ALLOCATED}"


WORKLOAD_LEVEL = (
    record(
        _WORKLOAD_SECONDS,
        (*WHOLE, "state"),
        summed((*WHOLE, "state"), PART_STATES.record),
        "The owners' ledger: GPUs' worth of allocated time in each state that took any. Sums to the Allocated GPUs.",
    ),
    _total("gpu_workload_energy_joules:rate5m", "rate(gpu_workload_energy_joules_total[5m])", "Energy, joules/s."),
    record(_ALLOCATED, WHOLE, summed(WHOLE, _WORKLOAD_SECONDS), "GPUs' worth of time that was allocated."),
    record(
        _OBSERVED,
        WHOLE,
        _part('state!="unobserved"'),
        "GPUs' worth of time that was allocated and observed.",
    ),
    record(
        "workload:gpu_workload_busy:rate5m",
        WHOLE,
        _part(f'state=~"{regex(BUSY)}"'),
        "GPUs' worth of time a kernel ran.",
    ),
    record(
        "workload:gpu_workload_good:rate5m",
        WHOLE,
        f"{_OBSERVED} * on (cluster, workload) group_left () {_TARGET} or {HIGH:g} * {_OBSERVED}",
        "GPUs' worth of time that a kernel would run at the target of its class of work.",
    ),
    record(
        "workload:gpu_waste:rate5m",
        WHOLE,
        f"{summed(WHOLE, _LOST_SECONDS)} or 0 * ({_OBSERVED} > 0)",
        "GPUs' worth of time that was allocated and lost (idle, waiting or throttled), of what was observed.",
    ),
)
