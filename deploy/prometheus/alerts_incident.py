"""The correlation that makes one event one message: nodes that become critical together are one incident."""

from __future__ import annotations

from deploy.prometheus.alerts_fleet import MAINTENANCE, SITED
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.hosts import by_host
from deploy.prometheus.targets import exporters
from deploy.prometheus.wording import NODE

_CRITICAL = 'ALERTS{alertname=~"Gpu.+",alertstate="firing",severity="critical",audience="oncall",instance!=""}'
_NODE = "(cluster, node, instance)"
_ALERT = "(cluster, node, instance, alertname, uuid)"

# After a pause of Prometheus, or where the rules are new, faults of weeks would all begin at once: rules must have been
# evaluated for twice the window.
_EVALUATED = (
    'ALERTS{alertname="GpuWatchdog"} offset <window> or last_over_time(cluster:gpu_exporters:count[5m] offset <window>)'
)
_LONG_EVALUATED = f"""\
on () ({_EVALUATED})
    and on () last_over_time(({_EVALUATED})[5m:1m] offset <window>)"""
_CRITICAL_NOW = f"max by {_NODE} ({_CRITICAL}) unless on (cluster, instance) ({MAINTENANCE})"


def _hosts(level: str, expr: str) -> str:
    """The nodes of `expr`, each once."""
    return f"max by ({level}, host) ({by_host(expr)})"


def _members(more: str = "") -> str:
    return f'ALERTS{{alertname="GpuIncidentNode",alertstate="firing"{more}}}'


def _over(more: str = "") -> str:
    """Members of incidents that no node has joined lately: what fails after that is another event."""
    members = _members(more)
    joined = f"{members} unless last_over_time({members}[10m] offset <quiet>)"
    return f"({members} unless on (cluster, wave) ({joined}))"


def _free(wave: str) -> str:
    """The clusters that have no incident of this wave that is over."""
    wave = f',wave="{wave}"'
    return f"count by (cluster) ({_CRITICAL}) unless on (cluster) {_over(wave)}"


_WAVE = f"""\
{_free("")}
    or on (cluster) label_replace({_free("2")}, "wave", "2", "", "")
    or on (cluster) label_replace(count by (cluster) ({_CRITICAL}), "wave", "3", "", "")"""
"""By cluster, the incident that a node joins: a fault that nobody has mended keeps the one before for weeks."""
_NEW = f"{_CRITICAL_NOW} unless max by {_NODE} ({_CRITICAL} offset <window>)"
_AGAIN = f"""\
max by {_NODE} (max by {_ALERT} ({_CRITICAL}) unless max by {_ALERT} ({_CRITICAL} offset <window>))
    and on {_NODE} {_over()}"""
"""Nodes of an incident that is over which have a fault more."""
_JOINING = f"({_NEW} or {_AGAIN})"

INCIDENT_NODE = Alert(
    name="GpuIncidentNode",
    audience=Audience.ONCALL,
    severity=Severity.INFO,
    # Nodes that became critical within one window, if they are many; each stays one of them while it is critical.
    expr=f"""\
(
  max by (cluster, node, instance, wave) (
    {_members()}
    unless on {_NODE} ({_AGAIN} and {_LONG_EVALUATED})
  )
  or on {_NODE}
  (
    {_JOINING}
    and on (cluster) count by (cluster) ({_hosts("cluster", _JOINING)}) >= <nodes>
    and {_LONG_EVALUATED}
  )
  * on (cluster) group_left (wave)
  (
    {_WAVE}
  )
)
and on {_NODE} ({_CRITICAL_NOW})""",
    params=(
        Param("nodes", 3, Unit.COUNT, "Nodes of a cluster that must become critical together."),
        Param("window", "15m", Unit.DURATION, "Time within which that is together."),
        Param("quiet", "1h", Unit.DURATION, "Time without a node more after which what fails is another incident."),
    ),
    summary=f"{NODE} is part of an incident",
    description=f"{NODE} became critical together with other nodes. GpuIncident tells of all of them in one message; "
    "Alertmanager inhibits the alerts of this node to on-call.",
)
_PLACES = f"topk by (cluster, instance) (1, max by (cluster, instance, wave) ({_members()}))"
_SITED_MEMBERS = _hosts(
    "site, cluster, wave", f"({exporters(SITED)} * on (cluster, instance) group_left (wave) {_PLACES})"
)
_SITE_INCIDENT = f"""\
count by (site, wave) ({_SITED_MEMBERS})
and count by (site, wave) (count by (site, cluster, wave) ({_SITED_MEMBERS})) >= 2"""


def _list(title: str, query: str, shown: str, *labels: str) -> str:
    """What a query of these labels of the alert finds, in words."""
    return f"{{{{ with printf `{query}` {' '.join(labels)} | query }}}} {title}:{shown}.{{{{ end }}}}"


_CLUSTER_TEXT = (
    _list(
        "Alerts",
        "count by (alertname) ("
        + _hosts(
            "alertname, uuid",
            '(ALERTS{cluster=%[1]q,alertstate="firing",severity="critical",audience="oncall",instance!=""}'
            ' and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing",wave=%[2]q})',
        )
        + ")",
        '{{ range $i, $alert := sortByLabel "alertname" . }}{{ if $i }},{{ end }} {{ $alert.Labels.alertname }}'
        " on {{ $alert.Value }} node(s) or GPU(s){{ end }}",
        "$labels.cluster",
        "$labels.wave",
    )
    + _list(
        "Racks",
        "count by (rack) ("
        + _hosts(
            "rack",
            '(up{cluster=%[1]q,rack!=""}'
            ' and on (instance) ALERTS{cluster=%[1]q,alertname="GpuIncidentNode",alertstate="firing",wave=%[2]q})',
        )
        + ")",
        '{{ range $i, $rack := sortByLabel "rack" . }}{{ if $i }},{{ end }} {{ $rack.Labels.rack }}'
        " ({{ $rack.Value }} node(s)){{ end }}",
        "$labels.cluster",
        "$labels.wave",
    )
    + _list(
        "Nodes",
        _hosts("cluster", 'ALERTS{cluster=%q,alertname="GpuIncidentNode",alertstate="firing",wave=%q}'),
        '{{ range $i, $node := sortByLabel "host" . }}{{ if lt $i 20 }}{{ if $i }},{{ end }}'
        " {{ .Labels.host }}{{ end }}{{ if eq $i 20 }} and more{{ end }}{{ end }}",
        "$labels.cluster",
        "$labels.wave",
    )
)
_SITE_TEXT = _list(
    "Clusters",
    "count by (cluster) ("
    + _hosts(
        "cluster",
        '(up{site=%q} and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing",wave=%q})',
    )
    + ")",
    '{{ range $i, $in := sortByLabel "cluster" . }}{{ if $i }},{{ end }} {{ $in.Labels.cluster }}'
    " ({{ $in.Value }} node(s)){{ end }}",
    "$labels.site",
    "$labels.wave",
)
_WHERE = "{{ with $labels.cluster }} of {{ . }}{{ end }}{{ with $labels.site }} of site {{ . }}{{ end }}"

_AFTER = "{{ if $labels.wave }}, after an earlier incident{{ end }}"

INCIDENT_OF_MANY = Alert(
    name="GpuIncident",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # One message at the widest level: the clusters of a site that fails as a whole have none of their own.
    expr=f"""\
{_SITE_INCIDENT}
or
(
  count by (cluster, wave) ({_hosts("cluster, wave", _members())})
  unless on (cluster, wave)
  (({_SITED_MEMBERS}) and on (site, wave) ({_SITE_INCIDENT}))
)""",
    summary=f"{{{{ $value }}}} node(s){_WHERE} with critical GPU alerts at once{_AFTER}",
    description=f"{{{{ $value }}}} node(s){_WHERE} became critical within minutes: "
    "look for a common cause first (power of a rack, cooling, network, a rollout)."
    f"{{{{ if $labels.site }}}}{_SITE_TEXT}{{{{ else }}}}{_CLUSTER_TEXT}{{{{ end }}}}",
)
INCIDENT = (INCIDENT_NODE, INCIDENT_OF_MANY)
