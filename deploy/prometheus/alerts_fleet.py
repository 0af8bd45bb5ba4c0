"""Alerts to on-call about the fleet as a whole."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.targets import POWERED_DOWN, exporters
from deploy.prometheus.wording import NODE

_IN = (
    "{{ with $labels.rack }} of rack {{ . }}{{ end }}"
    "{{ with $labels.cluster }} of {{ . }}{{ else }}{{ with $labels.site }} of site {{ . }}{{ end }}{{ end }}"
)
_EXPORTERS = f"max by (cluster, instance) {exporters()}"
"""Each once, however many jobs scrape it."""
MAINTENANCE = 'instance:gpu_node_maintenance:last or ALERTS{alertname="GpuNodeMaintenance",alertstate="firing"}'
"""Nodes in maintenance, whoever says so."""
_BEFORE_NOW = "target:gpu_exporter:last offset 15m"
# Where there was no target at all Prometheus was away, or is new: nothing tells which targets are.
_YOUNG = f"({_EXPORTERS} unless on (cluster, instance) {_BEFORE_NOW} and on () {_BEFORE_NOW})"
_UNCOUNTED = f"on (cluster, instance) ({MAINTENANCE} or {_YOUNG})"
"""Nodes in maintenance, and targets that discovery gives before their exporters have started."""
SITED = 'site!=""'


def _placed(more: str = "") -> str:
    """The exporters with where they are: one counts as up that any of the jobs that scrape it can reach."""
    return f"max by (site, cluster, rack, instance) {exporters(more)}"


def _share(level: str, more: str = "") -> str:
    """Share of the exporters of `level` that are down, where it is too large."""
    placed = _placed(more)
    return f"count by {level} ({placed} == 0 unless {_UNCOUNTED}) / count by {level} ({placed}) >= <share>"


def _down(level: str) -> str:
    """Exporters of `level` that are down, where they are enough and too large a share of it."""
    down = f"count by {level} ({_placed()} == 0 unless {_UNCOUNTED})"
    return f"""\
(
  {_share(level)}
  and {down} >= <nodes>
)"""


_SITE_DOWN = f"""\
(
  {_share("(site)", SITED)}
  and count by (site) ({_share("(site, cluster)", SITED)}) >= 2
)"""
"""More than one cluster of a site: one of them alone is told by its own name."""

EXPORTERS_DOWN = Alert(
    name="GpuExportersDown",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # By rack and site where targets have the labels `rack` and `site`; without them the same series comes out.
    expr=f"{_down('(site, cluster, rack)')}\nor\n{_down('(site, cluster)')}\nor\n{_SITE_DOWN}",
    for_="3m",
    keep_firing_for="10m",
    params=(
        Param("share", 0.2, Unit.RATIO, "Share of the exporters of a site, cluster or rack that are down."),
        Param("nodes", 3, Unit.COUNT, "No fewer than this."),
    ),
    summary=f"{{{{ $value | humanizePercentage }}}} of the GPU exporters{_IN} are down",
    description=f"{{{{ $value | humanizePercentage }}}} of the GPU exporters{_IN} do not answer: look for a common "
    "cause (power, network, a rollout). Nodes in maintenance are not counted, nor are targets younger than 15 minutes.",
)
EXPORTER_DOWN = Alert(
    name="GpuExporterDown",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # What another job reaches is watched, and its alerts must not be inhibited as those of a node that is down.
    expr=f"{exporters()} == 0\nunless on (cluster, instance) {_EXPORTERS} == 1",
    for_="5m",
    keep_firing_for="10m",
    summary=f"The GPU exporter of {NODE} is down",
    description="Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}): the node or its "
    "exporter is down, and nothing is known of its GPUs.",
)


def _gone(lately: str) -> str:
    """Exporters of that time that are no targets now; not those whose node is none of Kubernetes' any more, or is off.

    Nor those of a cluster that got another name: the same targets are there, and never were of both for long.
    """
    had = f"max by (cluster, node, instance) (max_over_time(node:gpu_exporter_copies:ratio[{lately}]))"
    nodes = f"(kube_node_info and on (cluster, node) node:gpu_exporter_copies:ratio)[{lately}]"
    removed = (
        f"max by (cluster, node) (max_over_time({nodes})) unless on (cluster, node) kube_node_info"
        " and on (cluster) kube_node_info"
    )
    clusters = "count by (instance) (count by (cluster, instance) (node:gpu_exporter_copies:ratio)) > 1"
    renamed = f"{_EXPORTERS} unless on (instance) count_over_time(({clusters})[{lately}]) > 1"
    return (
        f"{had}\n    unless on (cluster, instance) {_EXPORTERS}\n    unless on (cluster, node) ({removed})"
        f"\n    unless on (cluster, node) {POWERED_DOWN}\n    unless on (instance) ({renamed})"
    )


ABSENT = Alert(
    name="GpuExporterAbsent",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # An autoscaler may have taken the last node with GPUs. Where recording rules are not loaded, no target is recorded.
    expr=f"""\
absent({exporters()} or last_over_time(gpu_exporter_build_info[5m]))
unless on ()
(
  count(last_over_time(cluster:gpu_exporters:count[7d]))
  unless on () count(
    {_gone("7d:1h")}
  )
)""",
    for_="10m",
    asks_for_days=True,
    summary="Prometheus has no GPU exporter to scrape",
    description="No scrape target serves the metrics of a GPU exporter, or did so lately. No GPU is watched. "
    "Look at service discovery and at the scrape configuration.",
)
_BEFORE = "max by (cluster) (max_over_time(cluster:gpu_exporters:count[<before>]))"

TARGETS_GONE = Alert(
    name="GpuTargetsGone",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # A target that discovery does not give any more is not down: it is nowhere, and so is a cluster. By number, since
    # targets get other names; and by name, since an autoscaler takes nodes away.
    expr=f"""\
(
  1 - count by (cluster) ({_EXPORTERS}) / {_BEFORE} >= <share>
  or
  (
    {_BEFORE} * 0 + 1
    unless on (cluster) {exporters()}
  )
)
and on (cluster)
  count by (cluster) (
    {_gone("<before>:10m")}
  ) / {_BEFORE} >= <share>""",
    for_="10m",
    asks_for_days=True,
    params=(
        Param("share", 0.2, Unit.RATIO, "Share of the exporters of a cluster that discovery does not give any more."),
        Param("before", "1d", Unit.DURATION, "Time in which they were there."),
    ),
    summary="{{ $value | humanizePercentage }} of the GPU exporters"
    "{{ with $labels.cluster }} of {{ . }}{{ end }} are not looked for any more",
    description="Prometheus had more GPU exporters{{ with $labels.cluster }} in {{ . }}{{ end }} within <before>: "
    "{{ $value | humanizePercentage }} of them are no targets now, so nobody watches their GPUs. Look at service "
    "discovery; if the nodes were taken away on purpose, silence this until <before> is over.",
)
FLAPPING = Alert(
    name="GpuScrapeFlapping",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="changes(up[<window>]) >= <changes>\nand on (cluster, job, instance) target:gpu_exporter:last",
    keep_firing_for="30m",
    params=(
        Param("changes", 6, Unit.COUNT, "Times the target went down or came back."),
        Param("window", "30m", Unit.DURATION, "Time they are counted over."),
    ),
    summary=f"Scrapes of {NODE} fail now and then",
    description="{{ $labels.instance }} (job {{ $labels.job }}) went down or came back {{ $value }} times in <window>: "
    "counters have gaps, and alerts about its GPUs come late. Look at the network, the scrape time-out and the node.",
)
DUPLICATED = Alert(
    name="GpuDeviceDuplicated",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="count by (cluster) (count by (cluster, uuid) (gpu_up) > 1)",
    for_="15m",
    keep_firing_for="15m",
    summary="{{ $value }} GPU(s){{ with $labels.cluster }} of {{ . }}{{ end }} are there more than once",
    description="{{ $value }} GPU(s){{ with $labels.cluster }} of {{ . }}{{ end }} come from more than one target "
    "(two scrape jobs, two exporters on one node, two replicas of Prometheus that are not deduplicated): sums of these "
    "nodes are too high. Other nodes are not affected.",
)
WATCHDOG = Alert(
    name="GpuWatchdog",
    audience=Audience.ONCALL,
    severity=Severity.INFO,
    expr="vector(1)",
    summary="Alerts of the GPU exporters are evaluated",
    description="This alert always fires. Whoever expects it every few minutes and does not get it knows that "
    "Prometheus, Alertmanager or the way between them is broken.",
)
FLEET = (EXPORTERS_DOWN, EXPORTER_DOWN, ABSENT, TARGETS_GONE, FLAPPING, DUPLICATED, WATCHDOG)
