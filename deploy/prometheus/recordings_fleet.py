"""Recording rules of the exporters as a fleet: how many of a place are down, and how many discovery has lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy.prometheus.recordings_common import each_value, record, record_each
from deploy.prometheus.targets import POWERED_DOWN, exporters

MAINTENANCE = 'instance:gpu_node_maintenance:last or ALERTS{alertname="GpuNodeMaintenance",alertstate="firing"}'
"""Nodes in maintenance, whoever says so."""
EXPORTERS = f"max by (cluster, instance) {exporters()}"
"""Each once, however many jobs scrape it."""
_BEFORE_NOW = "target:gpu_exporter:last offset 15m"
# Where there was no target at all Prometheus was away, or is new: nothing shows which targets are.
_YOUNG = f"({EXPORTERS} unless on (cluster, instance) {_BEFORE_NOW} and on () {_BEFORE_NOW})"
_PLACED = f"max by (site, cluster, rack, instance) {exporters()}"
_DOWN = f"({_PLACED} == 0 unless on (cluster, instance) ({MAINTENANCE} or {_YOUNG}))"
_LEVELS = (("rack", "site, cluster, rack"), ("cluster", "site, cluster"), ("site", "site"))
_LABELS = ("site", "rack", "level")


def _by_level(record: str, exporters: str) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield their number by rack, cluster and site, of those that targets have as labels: racks make the others."""
    racks = f'{record}{{level="rack"}}'
    (rack, of_rack), *above = _LEVELS
    counts = {rack: f"count by ({of_rack}) ({exporters})"}
    return each_value("level", counts | {level: f"sum by ({labels}) ({racks})" for level, labels in above})


_ALL, _SILENT = "place:gpu_exporters:count", "place:gpu_exporters_down:count"
PLACED = record_each(
    _ALL,
    _LABELS,
    _by_level(_ALL, _PLACED),
    "Exporters of each rack, cluster and site (`level`), down or not, each once.",
)
DOWN = record_each(
    _SILENT,
    _LABELS,
    _by_level(_SILENT, _DOWN),
    "Exporters of each rack, cluster and site (`level`) that are down. Nodes in maintenance and targets younger "
    "than 15 "
    "minutes do not count.",
)


def _gone(lately: str, step: str) -> str:
    """Exporters of that time that are no targets now; not those whose node is none of Kubernetes' any more, or is off.

    Nor those of a cluster that got another name: the same targets are there, and never were of both for long.
    """
    had = f"max by (cluster, node, instance) (max_over_time(node:gpu_exporter_copies:ratio[{lately}:{step}]))"
    nodes = f"(kube_node_info and on (cluster, node) node:gpu_exporter_copies:ratio)[{lately}:{step}]"
    removed = (
        f"max by (cluster, node) (max_over_time({nodes})) unless on (cluster, node) kube_node_info"
        " and on (cluster) kube_node_info"
    )
    clusters = "count by (instance) (count by (cluster, instance) (node:gpu_exporter_copies:ratio)) > 1"
    renamed = f"{EXPORTERS} unless on (instance) count_over_time(({clusters})[{lately}:{step}]) > 1"
    return f"""\
count by (cluster) (
  {had}
  unless on (cluster, instance) {EXPORTERS}
  unless on (cluster, node) ({removed} or {POWERED_DOWN})
  unless on (instance) ({renamed})
)"""


GONE_DAY = record(
    "cluster:gpu_exporters_gone:count1d",
    (),
    _gone("1d", "10m"),
    "Exporters of the last day that are no targets now, and not because their nodes were removed or switched off.",
)
GONE_WEEK = record("cluster:gpu_exporters_gone:count7d", (), _gone("7d", "1h"), "The same, of the last week.")
MOST = record(
    "cluster:gpu_exporters:max1d",
    (),
    "max by (cluster) (max_over_time(cluster:gpu_exporters:count[1d]))",
    "The most exporters that answered at once within the last day.",
)

NEW_NODE = record(
    "node:gpu_kube_node_new:last",
    ("node",),
    "max by (cluster, node) (time() - kube_node_created < 1800) * 0 + 1\n"
    'and on (cluster, node) max by (cluster, node) (kube_node_status_condition{condition="Ready",status="true"}) == 0\n'
    "unless on (cluster, node) node:gpu_exporter_copies:ratio offset 1h",
    "1 for each node of Kubernetes that was made within half an hour and is not ready yet.",
)
