"""Recording rules of nodes whose exporters report nothing: their last known GPUs stay in the counts."""

from __future__ import annotations

from deploy.prometheus.recordings_common import NODE, by, record
from deploy.prometheus.recordings_device import KNOWN
from deploy.prometheus.targets import POWERED_DOWN, TARGETS

_MEMORY = "7d"
"""Time for which GPUs of a node that reports nothing stay in the counts."""
_GPUS = "node:gpu_up:count"
_PLACE = ("node", "instance", "uuid")
_SEEN = "gpu:gpu_up:timestamp"

SEEN = record(
    _SEEN,
    _PLACE,
    # A day: rules that are evaluated again after that long know no GPU that was silent before.
    f"""\
0 * max {by(_PLACE)} ({KNOWN}) + time()
or on (cluster, uuid)
topk by (cluster, uuid) (1, last_over_time({_SEEN}[1d]) > time() - 604800)""",
    f"Unix time at which a GPU was last reported, by the place where it was, for {_MEMORY}.",
)
_LISTS = (
    'label_replace(kube_node_info, "list", "kubernetes", "", "")'
    ' or label_replace(up{slurm_partition!=""}, "list", "slurm", "", "")'
)
_NOW = record(
    "node_list:node_listed:last",
    ("node", "list"),
    f"0 * max {by(('node', 'list'))} ({_LISTS}) + 1",
    "1 for each node in Kubernetes' list of nodes, by kube-state-metrics, and in Slurm's, by its targets.",
)
_WITH_GPUS = record(
    "node_list:gpu_node:last",
    ("node", "list"),
    f"{_NOW.record} and on (cluster, node) {_GPUS}",
    "1 for each of those nodes that reports GPUs.",
)
LISTED = (_NOW, _WITH_GPUS)
_REMOVED = f"(last_over_time({_WITH_GPUS.record}[{_MEMORY}]) unless {_NOW.record} and on (cluster, list) {_NOW.record})"
_CORDONED = (
    "(kube_node_spec_unschedulable == 1"
    ' or kube_node_spec_taint{key=~".*maintenance.*|node.kubernetes.io/out-of-service"} == 1)'
)
UNREACHABLE = record(
    "node:gpu_unreachable:count",
    NODE,
    # A node's exporter may have had several addresses: its label `node` counts. Without that label only a target counts
    # that discovery still has, because a pod that was replaced looks like a node that fell silent.
    f"""\
count {by(NODE)} ({_SEEN}{{node!=""}} < time() or {_SEEN} < time() and on (cluster, instance) {TARGETS.record})
unless on (cluster, node) {_GPUS}{{node!=""}}
unless on (cluster, instance) ({_GPUS} or instance:gpu_node_maintenance:last)
unless on (cluster, node) {_REMOVED}
unless on (cluster, node) ({POWERED_DOWN} or {_CORDONED})""",
    f"Last known GPUs of each node that reported within {_MEMORY} and reports nothing now. GPUs that another node "
    "reports, and nodes that were removed from Kubernetes or Slurm, are in maintenance or powered down by Slurm, are "
    "not in it.",
)
