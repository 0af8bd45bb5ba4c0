"""Recording rules of nodes whose exporters report nothing: their last known GPUs stay in the counts."""

from __future__ import annotations

from deploy.prometheus.recordings_common import NODE, by, record
from deploy.prometheus.targets import POWERED_DOWN, TARGETS

_MEMORY = "7d"
"""Time for which GPUs of a node that reports nothing stay in the counts."""
_GPUS = "node:gpu_up:count"

KUBERNETES_NODES = record(
    "node:gpu_kube_node:last",
    NODE,
    f"max {by(NODE)} ({_GPUS} and on (cluster, node) kube_node_info) * 0 + 1",
    "1 for each node with GPUs that is a node of Kubernetes, by kube-state-metrics.",
)
_REMOVED = (
    f"(last_over_time({KUBERNETES_NODES.record}[{_MEMORY}]) unless on (cluster, node) kube_node_info"
    " and on (cluster) kube_node_info)"
)
UNREACHABLE = record(
    "node:gpu_unreachable:count",
    NODE,
    # A node's exporter may have had several addresses: its label `node` counts. Without that label only a target counts
    # that discovery still has, because a pod that was replaced looks like a node that fell silent.
    f"""\
max {by(NODE)} (
  topk by (cluster, node) (
    1, last_over_time({_GPUS}{{node!=""}}[{_MEMORY}]) unless on (cluster, node) {_GPUS}
  )
  or
  (
    last_over_time({_GPUS}{{node=""}}[{_MEMORY}]) unless on (cluster, instance) {_GPUS}
    and on (cluster, instance) {TARGETS.record}
  )
)
unless on (cluster, node) {_REMOVED}
unless on (cluster, node) {POWERED_DOWN}
unless on (cluster, instance) instance:gpu_node_maintenance:last""",
    f"Last known GPUs of each node that reported within {_MEMORY} and reports nothing now. Nodes that were removed "
    "from Kubernetes, are in maintenance or powered down by Slurm are not in it.",
)
