"""The letter to a person: all that the workloads of one owner wasted in a day, the worst first, with its price."""

from __future__ import annotations

from deploy.prometheus.alerts_workload import EXCEPT, told
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.recordings_alert import IDLE_TIME, OWNER_WASTE_PRICE, OWNER_WASTE_TIME, WORKLOAD
from deploy.prometheus.states import OWNERS, regex
from deploy.prometheus.wording import MONEY, in_words, job_name

_TOLD = 'ALERTS{alertname=~"GpuAllocatedIdle|GpuUnderutilized",alertstate="firing"'


def _of_owners(label: str, users: str) -> str:
    """Owners whose GPU hours ran nothing for the most part, and those that have an alert about one of their jobs."""
    idle = f"sum_over_time({IDLE_TIME.record}{{{users}}}[<window>])"
    lost = f"sum by (cluster, {label}) ({idle} unless on {WORKLOAD} {told('<except>')})"
    hours = f"sum by (cluster, {label}) (sum_over_time(workload:gpu_workload_allocated:rate5m{{{users}}}[<window>]))"
    return (
        f"({lost}\n  > <min_idle_ratio> * {hours}) / 60 > <min_gpu_hours>\n"
        f"or 0 * sum by (cluster, {label}) ({_TOLD},{users}}})"
    )


_SHOWN = 10
_LEFT_ALONE = f"unless on {WORKLOAD} last_over_time(gpu_workload_info{{<except>}}[1d])"
_HOURS = f"sum by (workload) (sum_over_time({OWNER_WASTE_TIME.record}{{<owner>}}[1d]) {_LEFT_ALONE}) / 60"
_COST = f"sum by (currency) (sum_over_time({OWNER_WASTE_PRICE.record}{{<owner>}}[1d]) {_LEFT_ALONE}) / 60"
_ALLOCATED = "sum(sum_over_time(workload:gpu_workload_allocated:rate5m{<owner>}[1d])) / 60"
_WORST = f"sort_desc(topk({_SHOWN}, {_HOURS} >= 0.1))"
_MORE = f"count({_HOURS} >= 0.1) - {_SHOWN} > 0"
_CAUSE = in_words(
    "topk(1, sum by (state) (sum_over_time(workload_state:gpu_workload_gpu_seconds:rate5m"
    f'{{<owner>,state=~"{regex(OWNERS)}"}}[1d])))'
)


def _each(query: str, text: str) -> str:
    """`text` for each series that the query finds of the alert's owner; `<owner>` selects it."""
    asked = query.replace("<owner>", "cluster=%[1]q,user=%[2]q,workload_namespace=~%[3]q")
    labels = "$labels.cluster $labels.user (or $labels.workload_namespace `.*`)"
    return f"{{{{ range $i, $of := printf `{asked}` {labels} | query }}}}{text}{{{{ end }}}}"


def _of_workload(query: str, text: str) -> str:
    asked = query.replace("<owner>", "cluster=%[1]q,workload=%[2]q")
    return f"{{{{ range printf `{asked}` $labels.cluster $of.Labels.workload | query }}}}{text}{{{{ end }}}}"


_OWNER = "{{ if $labels.user }}{{ $labels.user }}{{ else }}namespace {{ $labels.workload_namespace }}{{ end }}"
_ROW = (
    "\n- {{ $of.Labels.workload }}"
    + job_name(workload="$of.Labels.workload")
    + ": {{ $of.Value | printf `%.1f` }} GPU hours"
    + _of_workload(_COST, f", {MONEY}")
    + _of_workload(_CAUSE, ". {{ .Labels.title }}.")
)
_FIRST = _each(
    f"topk(1, {_HOURS})",
    _of_workload(_CAUSE, "\nFirst action: {{ .Labels.advice }}"),
)

OWNER_WASTE = Alert(
    name="GpuOwnerWaste",
    audience=Audience.OWNER,
    severity=Severity.WARNING,
    # Also workloads that are too young or too short-lived for the other alerts: chains of jobs, crash loops, sessions.
    expr=_of_owners("user", 'user!=""') + "\nor " + _of_owners("workload_namespace", 'user="",workload_namespace!=""'),
    # The letter waits for half an hour for what else the owner is told.
    for_="10m",
    keep_firing_for="1h",
    params=(
        Param("window", "6h", Unit.DURATION, "Time over which all workloads of the owner are added up."),
        Param("min_gpu_hours", 4, Unit.COUNT, "GPU hours that ran nothing."),
        Param("min_idle_ratio", 0.75, Unit.RATIO, "Fraction of the owner's GPU hours that ran nothing."),
        EXCEPT,
    ),
    title="Wastes GPU hours",
    meaning="The workloads of one user or namespace wasted GPU hours.",
    summary=f"{{{{ with $labels.cluster }}}}{{{{ . }}}}: {{{{ end }}}}{_OWNER}: "
    + _each(
        f"sum({_HOURS})",
        "{{ $of.Value | printf `%.1f` }} GPU hours wasted or possibly wasted in 24 hours",
    )
    + _each(_COST, f" ({MONEY})"),
    description=f"Workloads of {_OWNER} wasted or possibly wasted "
    + _each(f"sum({_HOURS})", "{{ $of.Value | printf `%.1f` }}")
    + _each(_ALLOCATED, " of {{ $of.Value | printf `%.1f` }}")
    + " allocated GPU hours in the last 24 hours"
    + _each(_COST, f" ({MONEY})")
    + ". The worst first:"
    + _each(_WORST, _ROW)
    + _each(_MORE, "\n{{ $of.Value }} more.")
    + _FIRST,
)
