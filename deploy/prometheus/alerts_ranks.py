"""Alerts to owners about their ranks: one that the others wait for, and all that wait for ever."""

from __future__ import annotations

from deploy.prometheus.alerts_workload import WORKLOAD_LABELS as _WORKLOAD
from deploy.prometheus.alerts_workload import named
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.states import BUSY, regex
from deploy.prometheus.wording import NODE, OWNER, STATE_OF_NODE, STATES_OF_STRAGGLERS, STRAGGLERS

_WAITS = 'state=~"wait_collective|wait_peer"'
_SECONDS = "gpu_workload_gpu_seconds_total"
_ON_NODE = "(cluster, node, instance, workload)"
_STRAGGLES = "rate(gpu_workload_straggler_seconds_total[<window>])"

STRAGGLER = Alert(
    name="GpuStraggler",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    expr=named(f"  max by {_WORKLOAD} ({_STRAGGLES}) > <share>"),
    keep_firing_for="15m",
    for_="5m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over."),
        Param("share", 0.5, Unit.RATIO, "Share of that time in which the others must have waited for it."),
    ),
    summary=f"{OWNER} waits for {STRAGGLERS}",
    description=f"The other GPUs of {OWNER} on the same node waited for one of them.{STATES_OF_STRAGGLERS}",
)

# A process or a unit has a name on its own node: the same name on another node is other work.
_HELD_ON_NODE = f'sum by {_ON_NODE} (gpu_workload_allocated_gpus{{kind!~"process|unit"}} > 0)'
_SHARE_ON_NODE = f"""\
(
    (sum by {_ON_NODE} (rate({_SECONDS}{{{_WAITS}}}[<window>])) or 0 * {_HELD_ON_NODE})
  /
    {_HELD_ON_NODE}
  )"""
"""A node without a series of waiting counts as 0: a site may drop such series."""

STRAGGLER_NODE = Alert(
    name="GpuStragglerNode",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # A GPU that is named by GpuStraggler already says more than its node.
    expr=named(
        f"""\
  {_SHARE_ON_NODE} < <waits>
  and on {_WORKLOAD} (
    avg by {_WORKLOAD} {_SHARE_ON_NODE} > <others>
    and
    count by {_WORKLOAD} ({_HELD_ON_NODE}) > 1
  )
  unless on {_ON_NODE} {_STRAGGLES} > <others>
  or
  max by {_ON_NODE} (rank:gpu_straggling:ratio_rate5m) > <others>"""
    ),
    keep_firing_for="15m",
    for_="5m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over."),
        Param(
            "waits", 0.2, Unit.RATIO, "Share of its GPU time the node may wait for other ranks, and be the slow one."
        ),
        Param("others", 0.4, Unit.RATIO, "Share that all nodes of the workload wait, on the average."),
    ),
    summary=f"{OWNER} waits for its ranks on {NODE}",
    description=f"The GPUs of {OWNER} on other nodes wait for those on {NODE}, which hardly waited in the last "
    f"<window>.{STATE_OF_NODE}",
)

_OF_OWNER = "{cluster=%[1]q,workload=%[2]q}"
_LAGGING = f"max by (rank, host, host_gpu) (gpu_workload_nccl_lagging_rank_info{_OF_OWNER})"
_VERDICT = f"max by (verdict) (gpu_workload_nccl_status{_OF_OWNER}) == 1"
_NCCL = (
    f"{{{{ with printf `{_VERDICT}` $labels.cluster $labels.workload | query }}}}{{{{ with first . }}}}"
    " NCCL says: {{ .Labels.verdict }}.{{ end }}{{ end }}"
    f"{{{{ with printf `{_LAGGING}` $labels.cluster $labels.workload | query }}}} It waits for"
    "{{ range sortByLabel `rank` . }} rank {{ .Labels.rank }} on {{ .Labels.host }} (GPU {{ .Labels.host_gpu }})"
    "{{ end }}.{{ end }}"
)
"""What the job's own NCCL answered, where it was asked (--nccl.ras)."""

_APART = "(cluster, node, instance, workload, user)"


def _hung(labels: str, kinds: str) -> str:
    """Share of the GPU time that spins, of what hangs. Where all wait for one GPU, GpuStraggler names it."""
    held = f"sum by {labels} (gpu_workload_allocated_gpus{{{kinds}}} > 0)"
    return f"""\
  (
      sum by {labels} (rate({_SECONDS}{{state="wait_collective",{kinds}}}[<window>]))
    /
      {held}
  ) > <spins>
  unless on {labels} (
      sum by {labels} (rate({_SECONDS}{{state=~"{regex(BUSY)}",{kinds}}}[<window>]))
    /
      {held}
  ) >= <busy>
  unless on {labels} rate(gpu_workload_straggler_seconds_total{{{kinds}}}[<window>]) > <spins>"""


HUNG = Alert(
    name="GpuCollectiveHung",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # A job that hangs from its start may have no series of a busy state.
    # Programs without a scheduler share their name with those of other people and nodes, which say nothing of them.
    expr=named(
        f"""\
{_hung(_WORKLOAD, 'kind!~"process|unit"')}
  or
  max by {_WORKLOAD} (
{_hung(_APART, 'kind=~"process|unit"')}
  )"""
    ),
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "15m", Unit.DURATION, "Time without anything computed."),
        Param("spins", 0.4, Unit.RATIO, "Share of the GPU time spent in collectives that wait."),
        Param("busy", 0.01, Unit.RATIO, "Share of the GPU time in which anything may be computed."),
    ),
    summary=f"{OWNER} hangs: its GPUs spin and compute nothing",
    description=f"The GPUs of {OWNER} spun in place for {{{{ $value | humanizePercentage }}}} of the last <window>, as "
    "in a collective operation that never ends, and none of them computed anything. Utilization shows 100 %. "
    f"Dump the stacks of its ranks, then end it.{_NCCL}",
)

RANKS = (STRAGGLER, STRAGGLER_NODE, HUNG)
