"""Alerts to on-call about the fleet as a whole, and the correlation that makes one event one message."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.hosts import by_host
from deploy.prometheus.wording import NODE

_JOBS = 'job=~"<jobs>"'
_IN = (
    "{{ with $labels.rack }} of rack {{ . }}{{ end }}"
    "{{ with $labels.cluster }} of {{ . }}{{ else }}{{ with $labels.site }} of site {{ . }}{{ end }}{{ end }}"
)
_EXPORTERS = f"max by (cluster, instance) (up{{{_JOBS}}})"
"""Each once, however many jobs scrape it."""
_MAINTENANCE = 'instance:gpu_node_maintenance:last or ALERTS{alertname="GpuNodeMaintenance",alertstate="firing"}'
_AWAY = f"on (cluster, instance) ({_MAINTENANCE})"
"""Nodes in maintenance, whoever says so."""
_BEFORE_NOW = f"up{{{_JOBS}}} offset 15m"
# Where there was no target at all Prometheus was away, or is new: nothing tells which targets are.
_YOUNG = f"({_EXPORTERS} unless on (cluster, instance) {_BEFORE_NOW} and on () {_BEFORE_NOW})"
_UNCOUNTED = f"on (cluster, instance) ({_MAINTENANCE} or {_YOUNG})"
"""Nodes in maintenance, and targets that discovery gives before their exporters have started."""
_SITED = ',site!=""'


def _placed(more: str = "") -> str:
    """The exporters with where they are: one counts as up that any of the jobs that scrape it can reach."""
    return f"max by (site, cluster, rack, instance) (up{{{_JOBS}{more}}})"


def _share(level: str, more: str = "") -> str:
    """Share of the exporters of `level` that are down, where it is too large."""
    exporters = _placed(more)
    return f"count by {level} ({exporters} == 0 unless {_UNCOUNTED}) / count by {level} ({exporters}) >= <share>"


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
  {_share("(site)", _SITED)}
  and count by (site) ({_share("(site, cluster)", _SITED)}) >= 2
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
    expr=f"up{{{_JOBS}}} == 0\nunless on (cluster, instance) {_EXPORTERS} == 1",
    for_="5m",
    keep_firing_for="10m",
    summary=f"The GPU exporter of {NODE} is down",
    description="Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}): the node or its "
    "exporter is down, and nothing is known of its GPUs.",
)
ABSENT = Alert(
    name="GpuExporterAbsent",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    expr=f"absent(up{{{_JOBS}}})",
    for_="10m",
    summary="Prometheus has no GPU exporter to scrape",
    description="No target has a job that matches `<jobs>`: no GPU of any node is watched. "
    "Look at service discovery and at the scrape configuration.",
)
_BEFORE = "max by (cluster) (max_over_time(cluster:gpu_exporters:count[<before>]))"

TARGETS_GONE = Alert(
    name="GpuTargetsGone",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # A target that discovery does not give any more is not down: it is nowhere, and so is a cluster.
    expr=f"""\
1 - count by (cluster) ({_EXPORTERS}) / {_BEFORE} >= <share>
or
(
  {_BEFORE} * 0 + 1
  unless on (cluster) up{{{_JOBS}}}
)""",
    for_="10m",
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
    expr=f"changes(up{{{_JOBS}}}[<window>]) >= <changes>",
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

_CRITICAL = 'ALERTS{alertname=~"Gpu.+",alertstate="firing",severity="critical",audience="oncall",instance!=""}'
_NODES = "by (cluster, node, instance)"

# After a pause of Prometheus, or where the rules are new, faults of weeks would all begin at once: rules must have been
# evaluated for twice the window.
_EVALUATED = (
    'ALERTS{alertname="GpuWatchdog"} offset <window> or last_over_time(cluster:gpu_exporters:count[5m] offset <window>)'
)
_CRITICAL_NOW = f"max {_NODES} ({_CRITICAL}) unless {_AWAY}"


def _hosts(level: str, expr: str) -> str:
    """The nodes of `expr`, each once."""
    return f"max by ({level}, host) ({by_host(expr)})"


_NEW = f"({_CRITICAL_NOW} unless max {_NODES} ({_CRITICAL} offset <window>))"

INCIDENT_NODE = Alert(
    name="GpuIncidentNode",
    audience=Audience.ONCALL,
    severity=Severity.INFO,
    # Nodes that became critical within one window, if they are many; each stays one of them while it is critical.
    expr=f"""\
{_CRITICAL_NOW}
and on (cluster, node, instance)
(
  (
    {_NEW}
    and on (cluster)
    count by (cluster) ({_hosts("cluster", _NEW)}) >= <nodes>
    and on () ({_EVALUATED})
    and on () last_over_time(({_EVALUATED})[5m:1m] offset <window>)
  )
  or
  ALERTS{{alertname="GpuIncidentNode",alertstate="firing"}}
)""",
    params=(
        Param("nodes", 3, Unit.COUNT, "Nodes of a cluster that must become critical together."),
        Param("window", "15m", Unit.DURATION, "Time within which that is together."),
    ),
    summary=f"{NODE} is part of an incident",
    description=f"{NODE} became critical together with other nodes. GpuIncident tells of all of them in one message; "
    "Alertmanager inhibits the alerts of this node to on-call.",
)
_MEMBERS = 'ALERTS{alertname="GpuIncidentNode",alertstate="firing"}'
_SITED_MEMBERS = _hosts("site, cluster", f"(up{{{_JOBS}{_SITED}}} and on (cluster, instance) {_MEMBERS})")
_SITE_INCIDENT = f"""\
count by (site) ({_SITED_MEMBERS})
and count by (site) (count by (site, cluster) ({_SITED_MEMBERS})) >= 2"""


def _list(title: str, query: str, shown: str, *labels: str) -> str:
    """What a query of these labels of the alert finds, in words."""
    return f"{{{{ with printf `{query}` {' '.join(labels)} | query }}}} {title}:{shown}.{{{{ end }}}}"


_CLUSTER_TEXT = (
    _list(
        "Alerts",
        "count by (alertname) ("
        + _hosts(
            "alertname, uuid",
            '(ALERTS{cluster=%q,alertstate="firing",severity="critical",audience="oncall",instance!=""}'
            ' and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing"})',
        )
        + ")",
        '{{ range $i, $alert := sortByLabel "alertname" . }}{{ if $i }},{{ end }} {{ $alert.Labels.alertname }}'
        " on {{ $alert.Value }} node(s) or GPU(s){{ end }}",
        "$labels.cluster",
    )
    + _list(
        "Racks",
        "count by (rack) ("
        + _hosts(
            "rack",
            '(up{cluster=%[1]q,rack!=""}'
            ' and on (instance) ALERTS{cluster=%[1]q,alertname="GpuIncidentNode",alertstate="firing"})',
        )
        + ")",
        '{{ range $i, $rack := sortByLabel "rack" . }}{{ if $i }},{{ end }} {{ $rack.Labels.rack }}'
        " ({{ $rack.Value }} node(s)){{ end }}",
        "$labels.cluster",
    )
    + _list(
        "Nodes",
        _hosts("cluster", 'ALERTS{cluster=%q,alertname="GpuIncidentNode",alertstate="firing"}'),
        '{{ range $i, $node := sortByLabel "host" . }}{{ if lt $i 20 }}{{ if $i }},{{ end }}'
        " {{ .Labels.host }}{{ end }}{{ if eq $i 20 }} and more{{ end }}{{ end }}",
        "$labels.cluster",
    )
)
_SITE_TEXT = _list(
    "Clusters",
    "count by (cluster) ("
    + _hosts(
        "cluster", '(up{site=%q} and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing"})'
    )
    + ")",
    '{{ range $i, $in := sortByLabel "cluster" . }}{{ if $i }},{{ end }} {{ $in.Labels.cluster }}'
    " ({{ $in.Value }} node(s)){{ end }}",
    "$labels.site",
)
_WHERE = "{{ with $labels.cluster }} of {{ . }}{{ end }}{{ with $labels.site }} of site {{ . }}{{ end }}"

INCIDENT_OF_MANY = Alert(
    name="GpuIncident",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # One message at the widest level: the clusters of a site that fails as a whole have none of their own.
    expr=f"""\
{_SITE_INCIDENT}
or
(
  count by (cluster) ({_hosts("cluster", _MEMBERS)})
  unless on (cluster)
  (({_SITED_MEMBERS}) and on (site) ({_SITE_INCIDENT}))
)""",
    summary=f"{{{{ $value }}}} node(s){_WHERE} with critical GPU alerts at once",
    description=f"{{{{ $value }}}} node(s){_WHERE} became critical within minutes: "
    "look for a common cause first (power of a rack, cooling, network, a rollout)."
    f"{{{{ if $labels.site }}}}{_SITE_TEXT}{{{{ else }}}}{_CLUSTER_TEXT}{{{{ end }}}}",
)
INCIDENT = (INCIDENT_NODE, INCIDENT_OF_MANY)
