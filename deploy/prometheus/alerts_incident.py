"""The correlation that makes one event one message: nodes that become critical together are one incident."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.hosts import by_host
from deploy.prometheus.recordings_common import record
from deploy.prometheus.recordings_fleet import MAINTENANCE
from deploy.prometheus.targets import exporters
from deploy.prometheus.wording import NODE, counted, found, listed, nodes_by

SITED = 'site!=""'
_NODE = "(cluster, node, instance)"
_ALERT = "(cluster, node, instance, alertname, uuid)"
_NODES = ("node", "instance")
_FIRING = 'ALERTS{alertstate="firing",audience="oncall",instance!=""'
_ONE = "alert:gpu_critical:last"
_EACH = record(
    _ONE,
    (*_NODES, "alertname", "uuid"),
    f"""\
max by {_ALERT} ({_FIRING},alertname=~"Gpu.+",severity="critical"}})
or
max by {_ALERT} ({_FIRING},alertname=~"GpuThermalThrottling|GpuPowerBrake"}})""",
    "1 for each alert that makes its node part of an incident where many have one: critical ones, heat and "
    "power brake.",
)
_CRITICAL = record(
    "node:gpu_critical:last",
    _NODES,
    f"max by {_NODE} ({_ONE}) unless on (cluster, instance) ({MAINTENANCE})",
    "1 for each node with such an alert that is not in maintenance.",
)

# After a pause of Prometheus, or where the rules are new, faults of weeks would all begin at once: rules must have been
# evaluated for twice the window.
_WINDOW, _QUIET = "15m", "1h"
"""Time within which nodes become critical together; time without a node more after which it is another incident."""
_EVALUATED = (
    f'ALERTS{{alertname="GpuWatchdog"}} offset {_WINDOW}'
    f" or last_over_time(cluster:gpu_exporters:count[5m] offset {_WINDOW})"
)
_LONG_EVALUATED = f"""\
on () ({_EVALUATED})
and on () last_over_time(({_EVALUATED})[5m:1m] offset {_WINDOW})"""


def _hosts(level: str, expr: str) -> str:
    """The nodes of `expr`, each once."""
    return f"max by ({level}, host) ({by_host(expr)})"


def _members(more: str = "") -> str:
    return f'ALERTS{{alertname="GpuIncidentNode",alertstate="firing"{more}}}'


def _over(more: str = "") -> str:
    """Members of incidents that no node has joined lately: what fails after that is another event."""
    members = _members(more)
    joined = f"{members} unless last_over_time({members}[10m] offset {_QUIET})"
    return f"({members} unless on (cluster, wave) ({joined}))"


def _free(wave: str) -> str:
    """The clusters that have no incident of this wave that is over."""
    wave = f',wave="{wave}"'
    return f"count by (cluster) ({_ONE}) unless on (cluster) {_over(wave)}"


_WAVE = record(
    "cluster:gpu_incident_wave:first",
    ("wave",),
    f"""\
{_free("")}
or on (cluster) label_replace({_free("2")}, "wave", "2", "", "")
or on (cluster) label_replace(count by (cluster) ({_ONE}), "wave", "3", "", "")""",
    "By cluster, the incident (`wave`) that a node joins: a fault that is not fixed keeps the one before for weeks.",
)
_AGAIN = record(
    "node:gpu_critical_again:last",
    _NODES,
    f"""\
max by {_NODE} ({_ONE} unless {_ONE} offset {_WINDOW})
and on {_NODE} {_over()}
and {_LONG_EVALUATED}""",
    "1 for each node of an incident that is over which has a fault more.",
)
_JOINING = record(
    "node:gpu_critical_new:last",
    _NODES,
    f"""\
({_CRITICAL.record} unless max by {_NODE} ({_ONE} offset {_WINDOW}) or {_AGAIN.record})
and {_LONG_EVALUATED}""",
    "1 for each node that became critical within 15 minutes.",
)
_TOGETHER = record(
    "cluster:gpu_critical_new:count",
    (),
    f"count by (cluster) ({_hosts('cluster', _JOINING.record)})",
    "Nodes that became critical within 15 minutes.",
)

INCIDENT_NODE = Alert(
    name="GpuIncidentNode",
    audience=Audience.ONCALL,
    severity=Severity.INFO,
    # Nodes that became critical within one window, if they are many; each stays one of them while it is critical.
    expr=f"""\
(
  max by (cluster, node, instance, wave) ({_members()} unless on {_NODE} {_AGAIN.record})
  or on {_NODE} ({_JOINING.record} and on (cluster) {_TOGETHER.record} >= <min_nodes>)
    * on (cluster) group_left (wave) {_WAVE.record}
)
and on {_NODE} {_CRITICAL.record}""",
    params=(Param("min_nodes", 3, Unit.COUNT, "Nodes of a cluster that must become critical within 15 minutes."),),
    title="Part of an incident",
    meaning="A node is part of an incident, so that its own alerts are muted.",
    summary=f"{NODE} is part of an incident",
    description=f"{NODE} became critical together with other nodes. GpuIncident reports all of them in one message; "
    "Alertmanager inhibits the alerts of this node to on-call.",
)
_PLACES = f"topk by (cluster, instance) (1, max by (cluster, instance, wave) ({_members()}))"
_SITED_MEMBERS = record(
    "site_host:gpu_incident:last",
    ("site", "wave", "host"),
    _hosts("site, cluster, wave", f"({exporters(SITED)} * on (cluster, instance) group_left (wave) {_PLACES})"),
    "1 for each node of an incident whose site is known.",
)
_OF_SITE = record(
    "site:gpu_incident_nodes:count",
    ("site", "wave"),
    f"""\
count by (site, wave) ({_SITED_MEMBERS.record})
and count by (site, wave) (count by (site, cluster, wave) ({_SITED_MEMBERS.record})) >= 2""",
    "Nodes of an incident that hit several clusters of a site.",
)
_OF_CLUSTER = record(
    "cluster:gpu_incident_nodes:count",
    ("wave",),
    f"count by (cluster, wave) ({_hosts('cluster, wave', _members())})",
    "Nodes of an incident.",
)


_CLUSTER_TEXT = (
    listed(
        "Alerts",
        "count by (alertname) ("
        + _hosts(
            "alertname, uuid",
            "(alert:gpu_critical:last{cluster=%[1]q}"
            ' and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing",wave=%[2]q})',
        )
        + ")",
        '{{ range $i, $alert := sortByLabel "alertname" . }}{{ if $i }},{{ end }} {{ $alert.Labels.alertname }}'
        " ({{ $alert.Value }}){{ end }}",
        "$labels.cluster",
        "$labels.wave",
    )
    + listed(
        "Racks",
        "count by (rack) ("
        + _hosts(
            "rack",
            '(up{cluster=%[1]q,rack!=""}'
            ' and on (instance) ALERTS{cluster=%[1]q,alertname="GpuIncidentNode",alertstate="firing",wave=%[2]q})',
        )
        + ")",
        nodes_by("rack"),
        "$labels.cluster",
        "$labels.wave",
    )
    + listed(
        "Nodes",
        _hosts("cluster", 'ALERTS{cluster=%q,alertname="GpuIncidentNode",alertstate="firing",wave=%q}'),
        '{{ range $i, $node := sortByLabel "host" . }}{{ if lt $i 20 }}{{ if $i }},{{ end }}'
        " {{ .Labels.host }}{{ end }}{{ if eq $i 20 }} and more{{ end }}{{ end }}",
        "$labels.cluster",
        "$labels.wave",
    )
)
_HIT = found(
    "count(count by (workload) ((gpu_workload_allocated_gpus{cluster=%[1]q} > 0)"
    ' and on (instance) ALERTS{cluster=%[1]q,alertname="GpuIncidentNode",alertstate="firing",wave=%[2]q}))',
    " Workloads on these nodes: {{ .Value }}.",
    "cluster",
    "wave",
)
_SITE_TEXT = listed(
    "Clusters",
    "count by (cluster) ("
    + _hosts(
        "cluster",
        '(up{site=%q} and on (cluster, instance) ALERTS{alertname="GpuIncidentNode",alertstate="firing",wave=%q})',
    )
    + ")",
    nodes_by("cluster"),
    "$labels.site",
    "$labels.wave",
)
_WHERE = "{{ with $labels.cluster }}{{ . }}: {{ end }}{{ with $labels.site }}site {{ . }}: {{ end }}"
_AFTER = "{{ if $labels.wave }}, after an earlier incident{{ end }}"
_KINDS = "count by (alertname) (alert:gpu_critical:last{cluster=%[1]q})"
_ONE_OR_MANY = "{{{{ if eq $value 1.0 }}}}{}{{{{ else }}}}{}{{{{ end }}}}"
_FAULTY = _ONE_OR_MANY.format("has critical GPU faults", "have critical GPU faults")
_BRAKED = _ONE_OR_MANY.format("is slowed down", "are slowed down") + " by the power brake"
_WHAT = (
    f"{{{{ with printf `{_KINDS} and on () (count({_KINDS}) == 1)` $labels.cluster | query }}}}{{{{ with first . }}}}"
    f"{{{{ if eq .Labels.alertname `GpuThermalThrottling` }}}}{_ONE_OR_MANY.format('overheats', 'overheat')}"
    f"{{{{ else if eq .Labels.alertname `GpuPowerBrake` }}}}{_BRAKED}"
    "{{ else if eq .Labels.alertname `GpuLost` }}lost GPUs"
    f"{{{{ else }}}}{_FAULTY}{{{{ end }}}}{{{{ end }}}}{{{{ else }}}}{_FAULTY}{{{{ end }}}}"
)
"""Name of the kind of alert that all nodes have; many kinds have no common name."""

_TOGETHER_TEXT = _ONE_OR_MANY.format("", " within minutes of each other")

INCIDENT_OF_MANY = Alert(
    name="GpuIncident",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # One message at the widest level: the clusters of a site that fails as a whole have none of their own.
    expr=f"""\
{_OF_SITE.record}
or
{_OF_CLUSTER.record}
unless on (cluster, wave) ({_SITED_MEMBERS.record} and on (site, wave) {_OF_SITE.record})""",
    title="Many nodes fail at once",
    meaning="Many nodes became critical within minutes, so that a common cause is likely.",
    summary=f"{_WHERE}{counted('node')} {_WHAT}{_ONE_OR_MANY.format('', ' at once')}{_AFTER}",
    description=f"{_WHERE}{counted('node')} {_WHAT}{_TOGETHER_TEXT}. Look for a common cause first: power "
    "of a rack, cooling, network, a rollout."
    f"{{{{ if $labels.site }}}}{_SITE_TEXT}{{{{ else }}}}{_CLUSTER_TEXT}{_HIT}{{{{ end }}}}",
)
INCIDENT = (
    *(_EACH, _CRITICAL, _WAVE, _AGAIN, _JOINING, _TOGETHER, INCIDENT_NODE),
    *(_SITED_MEMBERS, _OF_SITE, _OF_CLUSTER, INCIDENT_OF_MANY),
)
"""Rules in this order: each is made of those before it."""
