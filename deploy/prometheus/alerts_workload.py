"""Alerts to the owners of GPU time. They carry the owner's labels and never name a free GPU."""

from __future__ import annotations

from dataclasses import replace

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.hosts import by_host
from deploy.prometheus.recordings_common import WHOLE
from deploy.prometheus.states import ADVICE, BUSY, regex
from deploy.prometheus.wording import GPUS_OF_XIDS, OWNER, TOP_STATE, XIDS
from exporter.attribution.owner import KEPT_OWNER_LABELS

_OWNER = f"(cluster, {', '.join(WHOLE)})"
_IDENTITY = "(cluster, workload, kind, workload_namespace, slurm_job, user)"
WORKLOAD_LABELS = "(cluster, workload)"
_OTHERS = ", ".join(label for label in WHOLE if label != "workload")
LATELY, ABOUT = "2m", "10m"
"""Pods are replaced: a workload is there if any of its pods was lately, and was there before if one was about then."""
HELD_NOW = f"sum by {WORKLOAD_LABELS} (max_over_time(gpu_workload_allocated_gpus[{LATELY}])) > 0"
HELD_BEFORE = f"sum by {WORKLOAD_LABELS} (max_over_time(gpu_workload_allocated_gpus[{ABOUT}] offset <window>)) > 0"


def named(expr: str, before: str = "") -> str:
    """One series per workload of `expr`, with the labels that its owners have in common.

    Two exporters, or two versions of one, may name the owner's other labels differently: it is one workload still, and
    which of two equals is named must not change from one evaluation to the next. Programs outside a scheduler share
    their name with those of other people: where the users differ, none is named. Pods are no part of it: an alert must
    not begin anew with each of them. With `before` it is about who held GPUs so long ago, and not lately.
    """
    metrics = ("gpu_workload_allocated_gpus", 'gpu_workload_allocated_gpus{user!=""}')
    held, told = (f"{of} offset {before}" if before else f"max_over_time({of}[{LATELY}])" for of in metrics)
    return f"""\
(
{expr}
)
+ on {WORKLOAD_LABELS} group_left ({_OTHERS}) 0 * (
  {_agreed(_OWNER, held)}
  or on {WORKLOAD_LABELS} {_agreed(_IDENTITY, told)}
  or on {WORKLOAD_LABELS} sum by {WORKLOAD_LABELS} ({held})
)"""


def _agreed(labels: str, held: str) -> str:
    """The workloads that have one set of these labels."""
    found = f"sum by {labels} ({held})"
    return f"({found} unless on {WORKLOAD_LABELS} count by {WORKLOAD_LABELS} ({found}) > 1)"


EXCEPT = Param(
    "except",
    'workload="-"',
    Unit.SELECTOR,
    "Workloads whose gpu_workload_info this selects are left alone: classes, namespaces, accounts; none by default.",
)


def told(selector: str) -> str:
    """What is said of the workloads that `selector` is about, or was minutes ago: an error may have ended them."""
    return f"last_over_time(gpu_workload_info{{{selector}}}[{ABOUT}])"


def excepted(alert: Alert) -> Alert:
    """The alert, with an opt-out for workloads where it has none of its own."""
    if alert.audience is not Audience.OWNER or any(param.name == EXCEPT.name for param in alert.params):
        return alert
    expr = f"(\n{alert.expr}\n)\nunless on {WORKLOAD_LABELS} {told('<except>')}"
    return replace(alert, expr=expr, params=(*alert.params, EXCEPT))


_SECONDS = "gpu_workload_gpu_seconds_total"
_XID = 'gpu_xid_last_timestamp_seconds{class="restart_app"}'

UNDERUTILIZED = Alert(
    name="GpuUnderutilized",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # A state whose series is dropped or does not exist yet counts as 0.
    # A new workload is left alone for `window` (it held GPUs that long ago) and `for`, an ended one holds none now.
    expr=named(
        f"""\
  (
      (
        sum by {WORKLOAD_LABELS} (rate({_SECONDS}{{state=~"{regex(BUSY)}"}}[<window>]))
        or 0 * sum by {WORKLOAD_LABELS} (max_over_time(gpu_workload_allocated_gpus[{LATELY}]))
      )
    /
      (sum by {WORKLOAD_LABELS} (rate({_SECONDS}{{state!="unobserved"}}[<window>])) > 0)
  ) < <utilization>
  and on {WORKLOAD_LABELS} sum by {WORKLOAD_LABELS} (max_over_time(gpu_workload_allocated_gpus[{LATELY}])) > <gpus>
  and on {WORKLOAD_LABELS} {HELD_BEFORE}
  unless on {WORKLOAD_LABELS} {told("<except>")}"""
    ),
    # Measured: a job that alternates between 10 % and 55 % every 40 minutes is over the threshold for 45 of 80 minutes.
    keep_firing_for="1h",
    for_="10m",
    params=(
        Param("utilization", 0.3, Unit.RATIO, "Share of the held GPU time in which a kernel must run."),
        Param("window", "30m", Unit.DURATION, "Time it is measured over; a younger workload is left alone."),
        Param("gpus", 0, Unit.COUNT, "Workloads that hold no more GPUs than this are left alone."),
        Param(
            "except",
            'class=~"service|interactive"',
            Unit.SELECTOR,
            "Workloads whose gpu_workload_info this selects are left alone: classes, namespaces, accounts.",
        ),
    ),
    summary=f"{OWNER} uses little of the GPUs it holds",
    description=f"{OWNER} kept its GPUs busy {{{{ $value | humanizePercentage }}}} of the last <window>, under "
    f"{{{{ `<utilization>` | humanizePercentage }}}}.{TOP_STATE}",
)

_DEVICE = "(cluster, instance, uuid)"


_IDLE = 'state=~"allocated_idle|allocated_unused"'


def _idle(seconds: str, share: str) -> str:
    """Devices an owner holds and leaves idle, each once however often it is scraped."""
    return f"""\
    max by (cluster, uuid, workload) (
      max by {_DEVICE} (sum without (state) (rate({seconds}{{{_IDLE}}}[<window>])) > <idle>)
      * on {_DEVICE} group_right () ({share} > 0)
      and on (cluster, instance, uuid, workload) {share} offset <window> > 0
    )"""


_ONCE = f"max by (cluster, host, {', '.join(KEPT_OWNER_LABELS)}, state)"
_WHOLLY_IDLE = f"""\
    round(
      sum by {WORKLOAD_LABELS} ({_ONCE} ({by_host(f"rate({_SECONDS}{{{_IDLE}}}[<window>])")}))
      and on {WORKLOAD_LABELS} (
          sum by {WORKLOAD_LABELS} (rate({_SECONDS}{{{_IDLE}}}[<window>]))
        /
          sum by {WORKLOAD_LABELS} (rate({_SECONDS}[<window>]))
      ) > <idle>
    ) > 0
    and on {WORKLOAD_LABELS} {HELD_NOW}
    and on {WORKLOAD_LABELS} {HELD_BEFORE}"""
"""GPUs' worth of a workload that did nothing at all, on whatever GPUs its pods were."""


ALLOCATED_IDLE = Alert(
    name="GpuAllocatedIdle",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # One idle GPU of many (a crashed rank) counts, so it is asked per GPU and counted per workload; and pods that a
    # controller makes again and again are asked together, wherever they were.
    expr=named(
        f"""\
  count by {WORKLOAD_LABELS} (
{_idle("gpu_state_seconds_total", "gpu_allocation_ratio")}
    or
{_idle("gpu_mig_state_seconds_total", "gpu_mig_allocation_ratio")}
  )
  or
{_WHOLLY_IDLE}"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param(
            "window",
            "1h",
            Unit.DURATION,
            "Time without a process on the GPU, or without a kernel; a younger owner is left alone.",
        ),
        Param("idle", 0.95, Unit.RATIO, "Share of that time."),
    ),
    summary=f"{OWNER} holds GPUs without using them",
    description=f"{OWNER} held {{{{ $value }}}} GPU(s) or MIG instance(s) for the last <window> with no process on "
    f"them, or none that ran a kernel. {ADVICE['allocated_idle']}",
)

_EVALUATES = f"""\
sum by {WORKLOAD_LABELS} (increase(gpu_workload_phase_seconds_total{{phase="evaluation"}}[{ABOUT}])) > 0
    and on {WORKLOAD_LABELS} sum by {WORKLOAD_LABELS} (rate({_SECONDS}{{state=~"{regex(BUSY)}"}}[{ABOUT}])) > 0"""
"""Who reports to evaluate, and computes: an evaluation that hangs grows longer all the same."""

STALLED = Alert(
    name="GpuWorkloadStalled",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Only what has made steps before: compiling and loading come before the first one.
    expr=named(
        f"""\
  sum by {WORKLOAD_LABELS} (increase(gpu_workload_steps_total[<window>])) == 0
  and on {WORKLOAD_LABELS} sum by {WORKLOAD_LABELS} (max_over_time(gpu_workload_steps_total[1h] offset <window>)) > 0
  and on {WORKLOAD_LABELS} {HELD_NOW}
  unless on {WORKLOAD_LABELS} max by {WORKLOAD_LABELS} (max_over_time(gpu_workload_progress_ratio[{LATELY}])) >= 1
  unless on {WORKLOAD_LABELS} (
    {_EVALUATES}
  )
  unless on {WORKLOAD_LABELS} {told("<except>")}"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "30m", Unit.DURATION, "Time without a step."),
        Param(
            "except",
            'class="interactive"',
            Unit.SELECTOR,
            "Workloads whose gpu_workload_info this selects are left alone: sessions step when users want.",
        ),
    ),
    summary=f"{OWNER} has stopped making steps",
    description=f"{OWNER} reported steps before, and none in the last <window>, while it holds GPUs. "
    "Look for a rank that hangs in a collective operation, a full disk or a checkpoint that does not end.",
)

_NEW_XID = f"""\
(changes({_XID}[<recent>]) > 0 and {_XID} offset <recent>)
      or
      ({_XID} and on (cluster, instance) gpu_exporter_build_info offset <recent>) unless {_XID} offset <recent>"""
_ALONE = f"""\
max by (cluster, instance, uuid, workload) (
      gpu_allocation_ratio offset <recent> == 1
      and on {_DEVICE} ({_NEW_XID})
    )"""
"""Who held all of a GPU before an error that is new. The GPUs with one are chosen first: they are few of many."""

XID_APPLICATION = Alert(
    name="GpuXidApplication",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Only who held the GPU alone before the error is named: the next job on it did nothing.
    expr=named(
        f"""\
  count by {WORKLOAD_LABELS} (
    max by (cluster, uuid, workload) (
      {_ALONE}
      unless on {_DEVICE} count by {_DEVICE} (
        {_ALONE}
      ) > 1
    )
  )""",
        "<recent>",
    ),
    keep_firing_for="1h",
    params=(
        Param("recent", "3m", Unit.DURATION, "Time in which an error is new; its owner must have held the GPU before."),
    ),
    summary=f"{OWNER} raised XID {XIDS}",
    description=f"{{{{ $value }}}} GPU(s) reported XID {XIDS} while {OWNER} held them: {GPUS_OF_XIDS}. Errors of this "
    "class come from the program (an illegal access, a wrong index, a kernel that does not end; 94: it was on memory "
    "that failed, and is to be started again).",
)

WORKLOAD = (UNDERUTILIZED, ALLOCATED_IDLE, STALLED, XID_APPLICATION)
