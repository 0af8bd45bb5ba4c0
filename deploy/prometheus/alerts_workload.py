"""Alerts to the owners of GPU time. They carry the owner's labels and never name a free GPU."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.recordings_alert import GPU, GPU_IDLE, OWNER, WORKLOAD, WORKLOAD_IDLE
from deploy.prometheus.recordings_common import WHOLE
from deploy.prometheus.states import ADVICE
from deploy.prometheus.wording import (
    ALLOCATED,
    GPUS_OF_XIDS,
    HOURLY,
    OWNER_NAME,
    TOP_STATE,
    XIDS,
    counted,
    found,
    percent,
    threshold,
)

_LABELS = ", ".join(label for label in WHOLE if label != "workload")
ABOUT = "10m"
"""A workload was there before if any of its pods was about then."""


def _except(default: str, help: str) -> Param:
    return Param("except", default, Unit.SELECTOR, help)


EXCEPT = _except(
    'workload="-"',
    "Workloads whose gpu_workload_info this selects are left alone: classes, namespaces, accounts; none by default.",
)


def told(selector: str) -> str:
    """Return the info of the workloads of `selector`, now or minutes ago: an error may have ended them."""
    return f"last_over_time(gpu_workload_info{{{selector}}}[{ABOUT}])"


def named(expr: str, before: str = "") -> str:
    """`expr` of workloads, with the labels of their owners and without those of <except>.

    With `before` the owners of so long ago: the workload may have ended.
    """
    owner = f"({OWNER.record} offset {before})" if before else OWNER.record
    return f"({expr})\n* on {WORKLOAD} group_left ({_LABELS}) {owner}\nunless on {WORKLOAD} {told('<except>')}"


def there_before(window: str) -> str:
    """A younger workload is left alone."""
    return f"and on {WORKLOAD} last_over_time({OWNER.record}[{ABOUT}] offset <{window}>)"


def _summed(name: str) -> str:
    return f"sum by {WORKLOAD} (sum_over_time(workload:gpu_workload_{name}:rate5m[<window>]))"


UNDERUTILIZED = Alert(
    name="GpuUnderutilized",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    expr=named(
        f"""\
{_summed("busy")} / ({_summed("observed")} > 0) < <min_utilization_ratio>
{there_before("window")}
and on {WORKLOAD} sum by {WORKLOAD} (max_over_time(gpu_workload_allocated_gpus[2m])) > <max_ignored_gpus>"""
    ),
    # Measured: a job that alternates between 10 % and 55 % every 40 minutes is over the threshold for 45 of 80 minutes.
    keep_firing_for="1h",
    for_="10m",
    params=(
        Param(
            "min_utilization_ratio", 0.3, Unit.RATIO, "Fraction of the allocated GPU time in which a kernel must run."
        ),
        Param("window", "30m", Unit.DURATION, "Time it is measured over; a younger workload is left alone."),
        Param("max_ignored_gpus", 0, Unit.COUNT, "Workloads with no more allocated GPUs than this are left alone."),
        _except(
            'class=~"service|interactive"',
            "Workloads whose gpu_workload_info this selects are left alone: classes, namespaces, accounts.",
        ),
    ),
    title="Uses little of its GPU time",
    meaning="A workload ran kernels for a smaller fraction of its GPU time than the threshold.",
    summary=f"{OWNER_NAME} uses {percent()} of its GPU time",
    description=f"GPU utilization of {OWNER_NAME} was {percent()} over <window> (threshold "
    f"{threshold('min_utilization_ratio')}).{TOP_STATE}{HOURLY}",
)


def _over(ratio: str, window: str) -> str:
    return f"for more than {threshold(ratio)} of the last <{window}>"


def _idle(cause: str, window: str, ratio: str) -> str:
    idle = f'0 * max by {WORKLOAD} (avg_over_time({WORKLOAD_IDLE.record}{{cause="{cause}"}}[<{window}>]) > <{ratio}>)'
    return f"or on {WORKLOAD} {idle} {there_before(window)}"


_NO_KERNEL = f" {_over('min_idle_ratio', 'window')}: no process, or none that ran a kernel. {ADVICE['allocated_idle']}"
_WHY = (
    f"{{{{ if ge $value 1.0 }}}}{_NO_KERNEL}{{{{ else }}}}"
    + found(
        f"topk(1, max by (cause) (avg_over_time({WORKLOAD_IDLE.record}{{cluster=%[1]q,workload=%[2]q}}[<window>])))",
        f"{{{{ if eq .Labels.cause `requests` }}}} {_over('min_service_idle_ratio', 'service_window')}: "
        f"no request came. {ADVICE['wait_requests']}"
        f"{{{{ else if eq .Labels.cause `user` }}}} {_over('min_session_idle_ratio', 'session_window')}: the "
        f"session was not used. {ADVICE['wait_user']}"
        f"{{{{ else }}}}{_NO_KERNEL}{{{{ end }}}}",
        "cluster",
        "workload",
    )
    + "{{ end }}"
)
_SOME = f"{{{{ if ge $value 1.0 }}}}{counted('GPU or MIG instance', more='s')}{{{{ else }}}}{ALLOCATED}{{{{ end }}}}"

ALLOCATED_IDLE = Alert(
    name="GpuAllocatedIdle",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # One idle GPU of many (a crashed rank) counts, so it is asked per GPU and counted per workload; and pods that a
    # controller makes again and again are asked together, wherever they were.
    expr=named(
        f"count by {WORKLOAD} (max by (cluster, uuid, workload) (avg_over_time({GPU_IDLE.record}[<window>]) > "
        f"<min_idle_ratio> and {GPU_IDLE.record} offset <window>))\n"
        + "\n".join(
            (
                _idle("allocated", "window", "min_idle_ratio"),
                _idle("requests", "service_window", "min_service_idle_ratio"),
                _idle("user", "session_window", "min_session_idle_ratio"),
            )
        )
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param(
            "window", "1h", Unit.DURATION, "Time without a process, or without a kernel; a younger owner is left alone."
        ),
        Param("min_idle_ratio", 0.95, Unit.RATIO, "Fraction of that time."),
        Param("service_window", "12h", Unit.DURATION, "Time of a service without a request."),
        Param("min_service_idle_ratio", 0.95, Unit.RATIO, "Fraction of that time."),
        Param("session_window", "4h", Unit.DURATION, "Time of an interactive session in which nothing ran."),
        Param("min_session_idle_ratio", 0.98, Unit.RATIO, "Fraction of that time."),
        EXCEPT,
    ),
    title="Leaves GPUs idle",
    meaning="Allocated GPUs ran nothing for nearly the whole window: no process, kernel, request or user.",
    summary=f"{OWNER_NAME} leaves {_SOME} idle",
    description=f"{OWNER_NAME} left {_SOME} idle{_WHY}{HOURLY}",
)


XID_APPLICATION_SERIES = 'gpu_xid_last_timestamp_seconds{class="restart_app"}'
_NEW = f"""\
  changes({XID_APPLICATION_SERIES}[<recent>]) > 0 and {XID_APPLICATION_SERIES} offset <recent>
  or {XID_APPLICATION_SERIES} and on (cluster, instance) gpu_exporter_build_info offset <recent>\
 unless {XID_APPLICATION_SERIES} offset <recent>"""

_WHOLE = "max by (cluster, instance, uuid, workload) (gpu_allocation_ratio offset <recent> == 1)"

XID_APPLICATION = Alert(
    name="GpuXidApplication",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Only who alone was allocated the whole GPU before the error is named: the next job on it did nothing.
    expr=named(
        f"count by {WORKLOAD} (max by (cluster, uuid, workload) ({_WHOLE}"
        f" unless on {GPU} count by {GPU} ({_WHOLE}) > 1 and on {GPU} (\n{_NEW})))",
        "<recent>",
    ),
    keep_firing_for="1h",
    params=(
        Param("recent", "3m", Unit.DURATION, "Time in which an error is new; its owner must have had the GPU before."),
        EXCEPT,
    ),
    title="Program raised an XID",
    meaning="A program raised an XID that NVIDIA calls an error of the application.",
    summary=f"{OWNER_NAME} raised XID {XIDS} on {GPUS_OF_XIDS}",
    description=f"{counted('GPU')} reported XID {XIDS} while allocated to {OWNER_NAME}: {GPUS_OF_XIDS}. Errors of this "
    "class come from the program: an illegal access, a wrong index, or a kernel that does not end. Run "
    "the program under compute-sanitizer.",
)
HOST_MEMORY_FULL = Alert(
    name="GpuWorkloadMemoryNearLimit",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    expr=named(
        f"max by {WORKLOAD} (min_over_time(gpu_workload_resident_memory_bytes[<window>])"
        " / gpu_workload_memory_limit_bytes) > <max_memory_ratio>"
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "5m", Unit.DURATION, "Time it must have been as full all along."),
        Param("max_memory_ratio", 0.95, Unit.RATIO, "Fraction of the memory limit in use, page cache left out."),
        EXCEPT,
    ),
    title="Near its memory limit",
    meaning="The host memory of a workload is nearly at its limit, where the kernel kills it.",
    summary=f"{OWNER_NAME} is near its memory limit",
    description=f"{OWNER_NAME} uses {percent()} of its host memory limit. At the limit the kernel kills it. Use fewer "
    "loader workers, less prefetch, or raise the limit.",
)

WORKLOAD_ALERTS = (UNDERUTILIZED, ALLOCATED_IDLE, XID_APPLICATION, HOST_MEMORY_FULL)
