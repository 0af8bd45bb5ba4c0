"""Recording rules of the levels that are made of workloads: the workload, and its namespace, account and user."""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import WHOLE, by, once, record, summed
from deploy.prometheus.recordings_device import GPU_BUSY
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.tools.report.definitions import GOOD, HIGH


def _of_parts(name: str, operation: str, expr: str, help: str) -> Recording:
    """Of the pods, and of the parts on other nodes, that are one workload."""
    return record(f"workload:{name}", WHOLE, f"{operation} {by(WHOLE)} ({expr})", help)


PART_STATES = record(
    "part_state:gpu_workload_gpu_seconds:rate5m",
    ("instance", *KEPT_OWNER_LABELS, "state"),
    once((*KEPT_OWNER_LABELS, "state"), "rate(gpu_workload_gpu_seconds_total[5m]) > 0"),
    "GPUs' worth of held time of a container of a pod, or of a job on one of its nodes, in each state that took any.",
)
PART_USED = record(
    "part:gpu_workload_used:rate5m",
    ("instance", *KEPT_OWNER_LABELS),
    summed(
        ("instance", *KEPT_OWNER_LABELS),
        once(("uuid", *KEPT_OWNER_LABELS), "rate(gpu_workload_busy_gpu_seconds_total[5m]) > 0"),
    ),
    "GPUs' worth of time that a container of a pod, or a job on one of its nodes, ran kernels, whatever it holds.",
)
_STARTED = "workload:gpu_workload_start_time_seconds:max"
_RESTARTED = "workload:gpu_workload_restarts:max"
_COUNTED = f"max_over_time({_RESTARTED}[1d]) - min_over_time({_RESTARTED}[1d])"
WORKLOAD_USED = _of_parts(
    "gpu_workload_used:rate5m",
    "sum",
    PART_USED.record,
    "GPUs' worth of time that it ran kernels, whatever it holds.",
)
WORKLOAD_PARTS = (
    _of_parts(
        "gpu_workload_start_time_seconds:max",
        "max",
        "gpu_workload_start_time_seconds",
        "Unix time the newest of its parts started.",
    ),
    _of_parts(
        "gpu_workload_restarts:max",
        "max",
        "gpu_workload_restarts",
        "How often the scheduler says that it was started again, the most of its parts.",
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
            f"Share of its observed time in which a kernel ran on the {which} used GPU that it holds, 0 to 1.",
        )
        for operation, which in (("min", "least"), ("max", "most"))
    ),
    _of_parts(
        "gpu_straggling:ratio_rate5m",
        "max",
        "rate(gpu_workload_straggler_seconds_total[5m])",
        "Share of time in which the others waited for the slowest of its GPUs.",
    ),
    _of_parts(
        "gpu_workload_parts:count",
        "count",
        f"count {by(('instance', *KEPT_OWNER_LABELS))} (gpu_workload_allocated_gpus > 0)",
        "Its parts that hold GPUs: containers of pods, a job on each of its nodes.",
    ),
)
"""What is asked of this moment, not summed over time."""
_WORKLOAD_SECONDS = "workload_state:gpu_workload_gpu_seconds:rate5m"


_MARK = "workload:gpu_utilization_good:ratio"
MARK = record(
    _MARK,
    ("workload",),
    f"max {by(('workload',))} ("
    + " or ".join(f'{good:g} * gpu_workload_info{{class="{name}"}}' for name, good in GOOD.items() if good != HIGH)
    + ")",
    f"Utilization from which on a workload is good, of classes with a mark of their own; else it is {HIGH:g}.",
)


def owner_share(level: str, labels: tuple[str, ...]) -> Recording:
    return record(
        f"{level}:gpu_utilization:ratio_rate5m",
        labels,
        f"{level}:gpu_workload_busy:rate5m / ({level}:gpu_workload_observed:rate5m > 0)",
        "Share of the held and observed GPU time in which a kernel ran and did more than wait, 0 to 1.",
    )


def _total(level: str, labels: tuple[str, ...], name: str, expr: str, help: str) -> Recording:
    """The sum of `expr` over the parts of a workload, or of what is recorded so of the workloads of a level."""
    total = once(KEPT_OWNER_LABELS, expr) if level == "workload" else f'workload:{name}{{{labels[0]}!=""}}'
    return record(f"{level}:{name}", labels, summed(labels, total), help)


def owner_held(level: str, labels: tuple[str, ...]) -> tuple[Recording, ...]:
    """What a level that is made of workloads holds."""
    return (
        _total(level, labels, "gpu_workload_allocated_gpus:sum", "gpu_workload_allocated_gpus", "Allocated GPUs."),
        _total(
            level,
            labels,
            "gpu_workload_memory_bytes:sum",
            "gpu_workload_memory_bytes",
            "GPU memory its processes use, bytes.",
        ),
    )


def owner_level(level: str, labels: tuple[str, ...]) -> tuple[Recording, ...]:
    """The rules of a level that is made of workloads; all but `workload` itself add up that one."""
    base = level == "workload"
    own = "" if base else f'{labels[0]}!=""'
    state = f"{level}_state:gpu_workload_gpu_seconds:rate5m"
    seconds = f"{_WORKLOAD_SECONDS}{{{own}}}"
    if base:
        seconds = PART_STATES.record
    held = f"{level}:gpu_workload_allocated:rate5m"
    observed = f"{level}:gpu_workload_observed:rate5m"

    def part(matcher: str) -> str:
        return f"{summed(labels, f'{state}{{{matcher}}}')} or 0 * {held}"

    rows = [
        (held, summed(labels, state), "GPUs' worth of time that was held."),
        (
            observed,
            part('state!="unobserved"'),
            "GPUs' worth of time that was held and of which it is known what the GPU did.",
        ),
        (
            f"{level}:gpu_workload_busy:rate5m",
            part(f'state=~"{regex(BUSY)}"'),
            "GPUs' worth of time a kernel ran.",
        ),
        (
            f"{level}:gpu_workload_good:rate5m",
            f"{observed} * on (cluster, workload) group_left () {_MARK} or {HIGH:g} * {observed}"
            if base
            else summed(labels, f"workload:gpu_workload_good:rate5m{{{own}}}"),
            "GPUs' worth of time that a kernel would run at the mark of its class of work.",
        ),
        (
            f"{level}:gpu_waste:rate5m",
            part(f'state=~"{regex(LOST)}"'),
            "GPUs' worth of time that was held and lost (idle, waiting or throttled).",
        ),
    ]
    ledger = record(
        state,
        (*labels, "state"),
        summed((*labels, "state"), seconds),
        "The owners' ledger: GPUs' worth of held time in each state that took any. Sums to the Allocated GPUs.",
    )
    energy = "rate(gpu_workload_energy_joules_total[5m])"
    return (
        ledger,
        _total(level, labels, "gpu_workload_energy_joules:rate5m", energy, "Energy, joules/s."),
        *(record(name, labels, expr, text) for name, expr, text in rows),
    )
