"""Alerts to on-call about the fleet as a whole."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.recordings_fleet import DOWN, EXPORTERS, GONE_DAY, GONE_WEEK, MOST, PLACED
from deploy.prometheus.targets import exporters
from deploy.prometheus.wording import NODE, found, listed, nodes_by, percent

_PLACE = (
    "{{ with $labels.cluster }}{{ . }}{{ else }}{{ with $labels.site }}site {{ . }}{{ end }}{{ end }}"
    "{{ with $labels.rack }} rack {{ . }}{{ end }}"
    "{{ if or $labels.cluster $labels.site $labels.rack }}: {{ end }}"
)
_GPUS = "{{ $value }} GPU{{ if ne $value 1.0 }}s come{{ else }} comes{{ end }}"
_LAST_KNOWN = found(
    "max(node:gpu_unreachable:count{cluster=%[1]q,instance=%[2]q})",
    " It had {{ .Value }} GPU{{ if ne .Value 1.0 }}s{{ end }}.",
    "cluster",
    "instance",
)


def _parts(level: str, title: str, place: str) -> str:
    """The parts of a larger place in which exporters are down: of a cluster its racks, of a site its clusters."""
    query = f'{DOWN.record}{{level="{level}",{level}!="",{place}=%q}} > 0'
    return listed(title, query, nodes_by(level), f"$labels.{place}")


_PARTS = (
    f"{{{{ if $labels.rack }}}}{{{{ else if $labels.cluster }}}}{_parts('rack', 'Racks', 'cluster')}"
    f"{{{{ else }}}}{_parts('cluster', 'Clusters', 'site')}{{{{ end }}}}"
)


def _down_fraction(level: str) -> str:
    """Fraction of the exporters of these places that are down, where it is too large."""
    return f"{DOWN.record}{{{level}}} / {PLACED.record} >= <max_down_ratio>"


EXPORTERS_DOWN = Alert(
    name="GpuExportersDown",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # By rack and site where targets have the labels `rack` and `site`; without them the same series comes out.
    # More than one cluster of a site: one of them alone is reported by its own name.
    expr=f"""\
max without (level) (
  {_down_fraction('level!="site"')} and {DOWN.record} >= <min_nodes>
  or {_down_fraction('level="site",site!=""')}
    and on (site) count by (site) ({_down_fraction('level="cluster",site!=""')}) >= 2
)""",
    for_="3m",
    keep_firing_for="10m",
    params=(
        Param("max_down_ratio", 0.2, Unit.RATIO, "Fraction of the exporters of a site, cluster or rack that are down."),
        Param("min_nodes", 3, Unit.COUNT, "No fewer than this in a cluster or rack."),
    ),
    title="Many exporters are down",
    meaning="Many exporters of a rack, cluster or site are down at the same time.",
    summary=f"{_PLACE}{percent()} of the GPU exporters are down",
    description=f"{_PLACE}{percent()} of the GPU exporters are unreachable: look for a common "
    "cause (power, network, a rollout). Nodes in maintenance are not counted, nor are targets younger than 15 minutes."
    + _PARTS
    + found(
        "sum(node:gpu_unreachable:count{cluster=%q})", " GPUs of the cluster not seen now: {{ .Value }}.", "cluster"
    ),
)
EXPORTER_DOWN = Alert(
    name="GpuExporterDown",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # What another job reaches is watched, and its alerts must not be inhibited as those of a node that is down. A
    # target that has not answered yet is new for an hour.
    expr=f"""\
{exporters()} == 0
unless on (cluster, instance) {EXPORTERS} == 1
unless on (cluster, job, instance) (target:gpu_exporter:last == 0 unless target:gpu_exporter:last offset 1h)""",
    for_="5m",
    keep_firing_for="10m",
    title="Node or exporter is down",
    meaning="Prometheus cannot scrape a node's exporter, so that nothing is known of its GPUs.",
    summary=f"{NODE} is unreachable: its GPU exporter is down",
    description=f"Prometheus cannot scrape {{{{ $labels.instance }}}} (job {{{{ $labels.job }}}}): the node or its "
    f"exporter is down, and nothing is known of its GPUs.{_LAST_KNOWN} Look at the node first, then start the "
    f"exporter.",
)


# A target that discovery does not give any more is not down: it is nowhere, and so is a cluster. By number, since
# targets get other names; and by name, since an autoscaler takes nodes away.
_MISSED = (
    f"{GONE_DAY.record} / {MOST.record} >= <max_gone_ratio>"
    f" unless on (cluster) 1 - count by (cluster) ({EXPORTERS}) / {MOST.record} < <max_gone_ratio>"
)
TARGETS_GONE = Alert(
    name="GpuTargetsGone",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # An autoscaler may have taken the last node with GPUs. Where recording rules are not loaded, no target is recorded.
    expr=f"""\
{_MISSED}
or absent({exporters()} or last_over_time(gpu_exporter_build_info[5m]))
  unless on () (count(last_over_time(cluster:gpu_exporters:count[7d])) unless on () count({GONE_WEEK.record}))
  unless on () {GONE_DAY.record}""",
    for_="10m",
    asks_for_days=True,
    params=(
        Param("max_gone_ratio", 0.2, Unit.RATIO, "Fraction of the exporters of a cluster that discovery has lost."),
    ),
    title="Exporters left discovery",
    meaning="Prometheus no longer lists exporters that it scraped within the last day, or has none to scrape.",
    summary="{{ if eq $value 1.0 }}{{ with $labels.cluster }}{{ . }}: {{ end }}Prometheus has no GPU exporter to scrape"
    f"{{{{ else }}}}{_PLACE}{percent()} of the GPU exporters are no scrape targets any more{{{{ end }}}}",
    description=f"{_PLACE}{percent()} of the GPU exporters of the last day are no scrape targets now, so that "
    f"their GPUs are "
    "not watched. Look at service discovery and at the scrape configuration. If the nodes were taken away on purpose, "
    "silence this for a day.",
)
DUPLICATED = Alert(
    name="GpuDeviceDuplicated",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="count by (cluster) (count by (cluster, uuid) (gpu_up) > 1)",
    for_="15m",
    keep_firing_for="15m",
    title="Scraped more than once",
    meaning="A GPU comes from several scrape targets, so that sums of its node are too high.",
    summary=f"{_PLACE}{_GPUS} from more than one target",
    description=f"{_PLACE}{_GPUS} from more than one target "
    "(two scrape jobs, two exporters on one node, two replicas of Prometheus that are not deduplicated): sums of these "
    "nodes are too high. Other nodes are not affected.",
)
WATCHDOG = Alert(
    name="GpuWatchdog",
    audience=Audience.ONCALL,
    severity=Severity.INFO,
    expr="vector(1)",
    title="Alerts are evaluated",
    meaning="This alert always fires, so that its absence shows that alerts do not arrive.",
    summary="Alerts of the GPU exporters are evaluated",
    description="This alert always fires. Whoever expects it every few minutes and does not get it knows that "
    "Prometheus, Alertmanager or the way between them is broken.",
)
FLEET = (EXPORTERS_DOWN, EXPORTER_DOWN, TARGETS_GONE, DUPLICATED, WATCHDOG)
