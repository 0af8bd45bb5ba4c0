"""Alerts to the owners of GPU time. They carry the owner's labels and never name a free GPU."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.states import ADVICE, BUSY, regex
from deploy.prometheus.wording import OWNER, TOP_STATE
from exporter.attribution.owner import OWNER_LABELS

_OWNER = f"(cluster, {', '.join(OWNER_LABELS)})"
_SECONDS = "gpu_workload_gpu_seconds_total"
_XID = 'gpu_xid_errors_total{class="restart_app"}'

UNDERUTILIZED = Alert(
    name="GpuUnderutilized",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # A new workload is left alone for `window` (it held GPUs that long ago) and `for`, an ended one holds none now.
    expr=f"""\
(
    sum by {_OWNER} (rate({_SECONDS}{{state=~"{regex(BUSY)}"}}[<window>]))
  /
    (sum by {_OWNER} (rate({_SECONDS}{{state!="unobserved"}}[<window>])) > 0)
) < <utilization>
and on {_OWNER} sum by {_OWNER} (gpu_workload_gpus) > <gpus>
and on (cluster, workload) sum by (cluster, workload) (gpu_workload_gpus offset <window>) > 0""",
    wait="10m",
    params=(
        Param("utilization", 0.3, Unit.RATIO, "Share of the held GPU time in which a kernel must run."),
        Param("window", "30m", Unit.DURATION, "Time it is measured over; a younger workload is left alone."),
        Param("gpus", 0, Unit.COUNT, "Workloads that hold no more GPUs than this are left alone."),
    ),
    summary=f"{OWNER} uses little of the GPUs it holds",
    description=f"{OWNER} kept its GPUs busy {{{{ $value | humanizePercentage }}}} of the last <window>, under "
    f"{{{{ `<utilization>` | humanizePercentage }}}}.{TOP_STATE}",
)

_IDLE_DEVICE = (
    '(rate(gpu_time_seconds_total{state="held_idle"}[<window>]) > <idle>)'
    " * on (cluster, instance, uuid) group_right () (gpu_owner_share > 0)"
)
_IDLE_INSTANCE = (
    '(rate(gpu_mig_time_seconds_total{state="held_idle"}[<window>]) > <idle>)'
    " * on (cluster, instance, uuid) group_right () (gpu_mig_owner_share > 0)"
)

HELD_IDLE = Alert(
    name="GpuHeldIdle",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # One idle GPU of many (a crashed rank) counts, so it is asked per GPU and counted per owner.
    expr=f"""\
count by {_OWNER} (
  (
    {_IDLE_DEVICE}
    and on (cluster, instance, uuid, workload) gpu_owner_share offset <window> > 0
  )
  or
  (
    {_IDLE_INSTANCE}
    and on (cluster, instance, uuid, workload) gpu_mig_owner_share offset <window> > 0
  )
) > 0""",
    wait="5m",
    params=(
        Param("window", "1h", Unit.DURATION, "Time without a process on the GPU; a younger owner is left alone."),
        Param("idle", 0.95, Unit.RATIO, "Share of that time."),
    ),
    summary=f"{OWNER} holds GPUs without using them",
    description=f"{OWNER} held {{{{ $value }}}} GPU(s) or MIG instance(s) for the last <window> with no process on "
    f"them. {ADVICE['held_idle']}",
)

STALLED = Alert(
    name="GpuWorkloadStalled",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Only what has made steps before: compiling and loading come before the first one.
    expr=f"""\
sum by {_OWNER} (increase(gpu_workload_steps_total[<window>])) == 0
and on {_OWNER} sum by {_OWNER} (gpu_workload_steps_total offset <window>) > 0
and on {_OWNER} sum by {_OWNER} (gpu_workload_gpus) > 0
unless on {_OWNER} max by {_OWNER} (gpu_workload_progress_ratio) >= 1""",
    wait="5m",
    params=(Param("window", "30m", Unit.DURATION, "Time without a step."),),
    summary=f"{OWNER} has stopped making steps",
    description=f"{OWNER} reported steps before, and none in the last <window>, while it holds GPUs. "
    "Look for a rank that hangs in a collective operation, a full disk or a checkpoint that does not end.",
)

XID_APPLICATION = Alert(
    name="GpuXidApplication",
    audience=Audience.OWNER,
    severity=Severity.INFO,
    # The counter of such an XID is born with the first error, so `increase` misses it. On a shared GPU nobody is named.
    expr=f"""\
(
  increase({_XID}[<recent>s]) >= <errors>
  or
  (
    {_XID} >= <errors>
    and on (cluster, instance, uuid, xid) time() - gpu_xid_last_timestamp_seconds < <recent>
    unless on (cluster, instance, uuid, xid) {_XID} offset <recent>s
  )
)
* on (cluster, instance, uuid) group_left ({", ".join(OWNER_LABELS)}) (gpu_owner_share == 1)""",
    params=(
        Param("errors", 3, Unit.COUNT, "Errors of one kind on one GPU."),
        Param("recent", 3600, Unit.SECONDS, "Time they are counted over, and the alert stands after the last."),
    ),
    summary=f"{OWNER} keeps raising XID {{{{ $labels.xid }}}}",
    description="GPU {{ $labels.gpu }} of {{ or $labels.node $labels.instance }} reported XID {{ $labels.xid }} "
    f"{{{{ printf `%.0f` $value }}}} times while {OWNER} held it. Errors of this class come from the program: "
    "an illegal access, a wrong index, a kernel that does not end.",
)

WORKLOAD = (UNDERUTILIZED, HELD_IDLE, STALLED, XID_APPLICATION)
