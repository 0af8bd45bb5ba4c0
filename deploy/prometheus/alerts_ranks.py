"""Alerts to owners about work that goes slowly or not at all because of one rank, or of all of them."""

from __future__ import annotations

from deploy.prometheus.alerts_workload import EXCEPT, named
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.recordings_alert import COMPUTES, RANK_WAIT, SPINS, STEPS_EXPECTED, WORKLOAD
from deploy.prometheus.recordings_ranks import RANK_STRAGGLES
from deploy.prometheus.wording import (
    HOURLY,
    LATE_NODES,
    OWNER_NAME,
    STATES_OF_LATE_NODES,
    STATES_OF_STRAGGLERS,
    STRAGGLERS,
    percent,
)

_STRAGGLES = "rate(gpu_workload_straggler_seconds_total[<window>])"
_WAITS = f"avg_over_time({RANK_WAIT.record}[<window>])"

STRAGGLER = Alert(
    name="GpuStraggler",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    expr=named(
        f"""\
max by {WORKLOAD} ({_STRAGGLES}) > <min_wait_ratio> or on {WORKLOAD} 0 * count by {WORKLOAD} (
  {_WAITS} < <max_own_wait_ratio>
  and on {WORKLOAD} avg by {WORKLOAD} ({_WAITS}) > <min_others_wait_ratio>
  or {RANK_STRAGGLES.record} > <min_others_wait_ratio>)"""
    ),
    keep_firing_for="15m",
    for_="5m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over."),
        Param("min_wait_ratio", 0.5, Unit.RATIO, "Fraction of that time in which the others waited for one GPU."),
        Param("max_own_wait_ratio", 0.2, Unit.RATIO, "Fraction that a slow node itself may wait for other ranks."),
        Param("min_others_wait_ratio", 0.4, Unit.RATIO, "Fraction that all nodes wait, on average."),
        EXCEPT,
    ),
    title="Waits for a slow rank",
    meaning="The ranks of a job wait for one slow GPU or node.",
    summary=f"{OWNER_NAME} waits for {{{{ if $value }}}}{STRAGGLERS}{{{{ else }}}}its ranks on {LATE_NODES}{{{{ "
    f"end }}}}",
    description=f"The other GPUs of {OWNER_NAME} wait for a straggler.{{{{ if $value }}}}{STATES_OF_STRAGGLERS}"
    f"{{{{ else }}}} Time these nodes waited themselves:{STATES_OF_LATE_NODES}{{{{ end }}}}{HOURLY}",
)

_OF_OWNER = "{cluster=%[1]q,workload=%[2]q}"
_LAGGING = f"max by (rank, host, host_gpu) (gpu_workload_nccl_lagging_rank_info{_OF_OWNER})"
_VERDICT = f"max by (verdict) (gpu_workload_nccl_status{_OF_OWNER}) == 1"
_NCCL = (
    f"{{{{ with printf `{_VERDICT}` $labels.cluster $labels.workload | query }}}}{{{{ with first . }}}}"
    " NCCL reports: {{ reReplaceAll `_` ` ` .Labels.verdict }}.{{ end }}{{ end }}"
    f"{{{{ with printf `{_LAGGING}` $labels.cluster $labels.workload | query }}}} It waits for"
    "{{ range sortByLabel `rank` . }} rank {{ .Labels.rank }} on {{ .Labels.host }} (GPU {{ .Labels.host_gpu }})"
    "{{ end }}.{{ end }}"
)
"""Answer of the job's own NCCL, where it was asked (--nccl.ras)."""

HUNG = Alert(
    name="GpuWorkloadHung",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Where all wait for one GPU, GpuStraggler names it.
    expr=named(
        f"""\
max by {WORKLOAD} (avg_over_time({SPINS.record}[<window>]) > <min_spin_ratio>
  unless avg_over_time({COMPUTES.record}[<window>]) >= <max_busy_ratio>)
unless on {WORKLOAD} {_STRAGGLES} > <min_spin_ratio>
or on {WORKLOAD} sum by {WORKLOAD} (increase(gpu_workload_steps_total[<step_window>])) == 0\
 and on {WORKLOAD} {STEPS_EXPECTED.record}"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "15m", Unit.DURATION, "Time without anything computed."),
        Param("min_spin_ratio", 0.4, Unit.RATIO, "Fraction of the GPU time spent in collectives that wait."),
        Param("max_busy_ratio", 0.01, Unit.RATIO, "Fraction of the GPU time in which anything may be computed."),
        Param("step_window", "30m", Unit.DURATION, "Time without a step, of a program that reports steps."),
        EXCEPT,
    ),
    title="Hangs",
    meaning="A job makes no progress: its GPUs spin in a collective, or its steps have ended.",
    summary=f"{OWNER_NAME} hangs",
    description=f"{{{{ if $value }}}}The GPUs of {OWNER_NAME} spun in a collective for {percent()} of the last "
    f"<window> and "
    "computed nothing. Utilization counts that as use. Keep the stacks of its ranks (py-spy dump), then end it."
    f"{{{{ else }}}}{OWNER_NAME} reported steps before and none in the last <step_window>. Look for a rank that "
    f"hangs, a "
    f"full disk, or a checkpoint that does not end.{{{{ end }}}}{_NCCL}{HOURLY}",
)

RANKS = (STRAGGLER, HUNG)
