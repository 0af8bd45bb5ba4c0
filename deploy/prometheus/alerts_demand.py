"""Alerts to owners of GPUs that wait for somebody, and of memory that is nearly full."""

from __future__ import annotations

from deploy.prometheus.alerts_workload import HELD_BEFORE, HELD_NOW, named
from deploy.prometheus.alerts_workload import WORKLOAD_LABELS as _WORKLOAD
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.states import ADVICE
from deploy.prometheus.wording import OWNER

_SECONDS = "gpu_workload_gpu_seconds_total"


def _waits(state: str) -> str:
    """Share of what they held meanwhile, of workloads that held GPUs all the time: services grow and shrink by load."""
    return named(
        f"""\
  (
      sum by {_WORKLOAD} (rate({_SECONDS}{{state="{state}"}}[<window>]))
    /
      avg_over_time((sum by {_WORKLOAD} (gpu_workload_allocated_gpus > 0))[<window>:5m])
  ) > <share>
  and on {_WORKLOAD} {HELD_NOW}
  and on {_WORKLOAD} {HELD_BEFORE}"""
    )


SERVICE_IDLE = Alert(
    name="GpuServiceIdle",
    audience=Audience.OWNER,
    severity=Severity.INFO,
    expr=_waits("wait_requests"),
    for_="15m",
    keep_firing_for="10m",
    params=(
        Param("window", "12h", Unit.DURATION, "Time it is measured over; a younger service is left alone."),
        Param("share", 0.95, Unit.RATIO, "Share of that time without a request to work on."),
    ),
    summary=f"{OWNER} serves hardly anything",
    description=f"{OWNER} had no request to work on for {{{{ $value | humanizePercentage }}}} of the last <window>. "
    f"{ADVICE['wait_requests']}",
)

SESSION_IDLE = Alert(
    name="GpuSessionIdle",
    audience=Audience.OWNER,
    severity=Severity.INFO,
    expr=_waits("wait_user"),
    for_="15m",
    keep_firing_for="10m",
    params=(
        Param("window", "4h", Unit.DURATION, "Time it is measured over; a younger session is left alone."),
        Param("share", 0.98, Unit.RATIO, "Share of that time in which nothing ran."),
    ),
    summary=f"{OWNER} is a session that nobody uses",
    description=f"{OWNER} ran nothing for {{{{ $value | humanizePercentage }}}} of the last <window>. "
    f"{ADVICE['wait_user']}",
)

_DEVICE, _PART = "(cluster, instance, uuid)", "(cluster, instance, uuid, workload)"

MEMORY_FULL = Alert(
    name="GpuMemoryNearlyFull",
    audience=Audience.OWNER,
    severity=Severity.INFO,
    # Servers take all memory there is on purpose; who holds the GPU for less than the window may have found it full.
    expr=named(
        f"""\
  max by {_WORKLOAD} (
    max by {_DEVICE} (
      min_over_time(gpu_memory_used_bytes[<window>])
        / (gpu_memory_total_bytes - gpu_memory_reserved_bytes or gpu_memory_total_bytes)
      > <full>
    )
    * on {_DEVICE} group_right () (gpu_allocation_ratio > bool 0)
    and on {_PART} gpu_allocation_ratio offset <window> > 0
  ) > 0
  unless on {_WORKLOAD} gpu_workload_info{{class="service"}}"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "15m", Unit.DURATION, "Time it must have been as full all along."),
        Param("full", 0.98, Unit.RATIO, "Share of a GPU's memory in use."),
    ),
    summary=f"{OWNER} is near the end of its GPU memory",
    description=f"The GPU memory of {OWNER} was {{{{ $value | humanizePercentage }}}} full for all of <window>: a "
    "little more, and it ends with an out-of-memory error. The batch cannot grow; a smaller one, activation "
    "checkpointing or more shards make room.",
)

HOST_MEMORY_FULL = Alert(
    name="GpuWorkloadMemoryNearLimit",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    expr=named(
        f"""\
  max by {_WORKLOAD} (
    min_over_time(gpu_workload_resident_memory_bytes[<window>]) / gpu_workload_memory_limit_bytes
  ) > <full>"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "5m", Unit.DURATION, "Time it must have been as full all along."),
        Param("full", 0.95, Unit.RATIO, "Share of the memory limit in use, page cache left out."),
    ),
    summary=f"{OWNER} is near its memory limit",
    description=f"{OWNER} uses {{{{ $value | humanizePercentage }}}} of the host memory it may use: at its limit "
    "the kernel ends it. Fewer loader workers, less prefetch, or a higher limit.",
)

DEMAND = (SERVICE_IDLE, SESSION_IDLE, MEMORY_FULL, HOST_MEMORY_FULL)
