"""Recording rules of capacity: waiting GPUs beside the supply, and whether to repair, tune or buy."""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import NODE, by, each_value, record, record_each

_POD = ("namespace", "pod")
_WAITING = "pod:gpu_unschedulable:sum"
_OF_WAITING = f"and on (cluster, namespace, pod) {_WAITING}"


def _requests(resource: str) -> str:
    containers = by((*_POD, "container", "node"))
    return f'max {containers} (kube_pod_container_resource_requests{{resource="{resource}"}})'


_QUEUE = ("cluster_queue",)
_RESERVED = (
    f"sum {by(_QUEUE)} (max {by((*_QUEUE, 'flavor'))}"
    ' (kueue_cluster_queue_resource_reservation{resource="nvidia.com/gpu"}))'
    f" / (max {by(_QUEUE)} (kueue_reserving_active_workloads) > 0)"
)
_SOURCES = {
    "kubernetes": f"sum by (cluster) ({_WAITING})",
    "slurm": 'max by (cluster) (gpu_accounting_waiting_gpus{reason="capacity"})',
    # Kueue counts workloads. Their GPUs are estimated from those that have quota.
    "kueue": f"sum by (cluster) (sum {by(_QUEUE)} (max {by((*_QUEUE, 'status'))} (kueue_pending_workloads))"
    f" * on (cluster, cluster_queue) ({_RESERVED}))",
}
_QUEUES = "group by (cluster) (kube_node_spec_unschedulable or kueue_pending_workloads or gpu_accounting_waiting_gpus)"
"""Series that exist where the queue of a scheduler is known."""
_WAITED = f"(time() - max {by(_POD)} (kube_pod_created) {_OF_WAITING})"
_QUANTILES = ("0.5", "0.95", "1")

_FREE, _OUT, _ROOM = "node:gpu_free:sum", "node:gpu_out_of_service:last", "node:gpu_no_room:last"
_PENDING = "cluster:gpu_pending:sum"
_SOLD_OUT = "node_resource:kube_node_available:sum"


def _sold_out(resource: str) -> str:
    """Nodes of Kubernetes with less of a resource than any waiting pod requests."""
    allocatable = f'max by (cluster, node) (kube_node_status_allocatable{{resource="{resource}"}})'
    running = f'max {by(_POD)} (kube_pod_status_phase{{phase="Running"}}) == 1'
    used = f"sum by (cluster, node) ({_requests(resource)} and on (cluster, namespace, pod) {running})"
    least = f"min by (cluster) (sum {by(_POD)} ({_requests(resource)} {_OF_WAITING}))"
    return f"{allocatable} - {used} < on (cluster) group_left () {least}"


_USABLE = f"({_FREE} unless on (cluster, instance) {_OUT} unless on (cluster, node) {_ROOM})"
_SMALLEST = f"min by (cluster) ({_WAITING} or gpu_accounting_waiting_smallest_gpus)"
_FRAGMENTED = f"{_USABLE} < on (cluster) group_left () {_SMALLEST}"
_ALLOCATED = "cluster:gpu_workload_allocated_gpus:sum"
_IN_USE = "cluster:gpu_up:sum - cluster:gpu_free:sum"
"""Allocated GPUs without the lost ones, which are unhealthy."""
_WASTED = f"(cluster:gpu_waste:rate5m or 0 * {_ALLOCATED})"


def _least(first: str, second: str) -> str:
    """Return the lesser of two, nothing without the second."""
    return f"(({first}) <= ({second}) or ({second}))"


def _sum(expr: str) -> str:
    """Sum of a cluster, and 0 where it has none."""
    return f"sum by (cluster) ({expr}) or 0 * cluster:gpu_up:count"


_SUPPLY = {
    "allocated": f"{_IN_USE} - {_least(_WASTED, _IN_USE)}",
    "reclaimable": _least(_WASTED, _IN_USE),
    "unhealthy": _sum("node:gpu_up:count - node:gpu_up:sum or node:gpu_unreachable:count"),
    "out of service": _sum(f"{_FREE} and on (cluster, instance) {_OUT}"),
    "no CPU or memory": _sum(f"{_FREE} unless on (cluster, instance) {_OUT} and on (cluster, node) {_ROOM}"),
    "fragmented": _sum(_FRAGMENTED),
    "free": _sum(f"{_USABLE} unless ({_FRAGMENTED})"),
}
_KINDS = "cluster_supply:gpus:sum"


def _of(*kinds: str) -> str:
    return f'sum by (cluster) ({_KINDS}{{supply=~"{"|".join(kinds)}"}})'


_BROKEN = _of("unhealthy", "out of service")
_TUNABLE = _of("reclaimable", "no CPU or memory", "fragmented", "free")


_REPAIR = _least(_BROKEN, _PENDING)
_REST = f"clamp_min({_PENDING} - {_BROKEN}, 0)"
CAPACITY: tuple[Recording, ...] = (
    record(
        _WAITING,
        _POD,
        f"sum {by(_POD)} ({_requests('nvidia_com_gpu')}) and on (cluster, namespace, pod)"
        f" max {by(_POD)} (kube_pod_status_unschedulable) == 1",
        "Requested GPUs of each pod that no node has room for.",
    ),
    record_each(
        "cluster_source:gpu_pending:sum",
        ("source",),
        each_value("source", _SOURCES),
        "GPUs that work waits for because there is no room: pods without a node, Slurm jobs, workloads of Kueue "
        "(estimated).",
    ),
    record(
        _PENDING,
        (),
        f"sum by (cluster) (cluster_source:gpu_pending:sum) or 0 * {_QUEUES}",
        "Waiting GPUs of all schedulers; 0 where none wait, nothing where no scheduler is scraped.",
    ),
    record(
        "cluster:gpu_demand:sum",
        (),
        f"{_PENDING} + {_ALLOCATED} or {_ALLOCATED}",
        "Allocated and waiting GPUs; allocated ones where no scheduler is scraped.",
    ),
    record(
        "cluster_size:gpu_pending_jobs:count",
        ("size",),
        f'sum by (cluster, size) (count_values by (cluster) ("size", {_WAITING})'
        ' or label_replace(max by (cluster, size) (gpu_accounting_waiting_jobs), "source", "slurm", "", ""))',
        "Waiting pods and jobs by requested GPUs.",
    ),
    record_each(
        "cluster_source_quantile:gpu_pending_seconds:quantile",
        ("source", "quantile"),
        (
            *(({"source": "kubernetes", "quantile": q}, f"quantile by (cluster) ({q}, {_WAITED})") for q in _QUANTILES),
            ({"source": "slurm"}, "max by (cluster, quantile) (gpu_accounting_waiting_seconds)"),
        ),
        "Time that pods and jobs have waited so far, seconds: median, 95th percentile, longest.",
    ),
    record(
        _OUT,
        NODE,
        f"max {by(NODE)} ({_FREE} and on (cluster, node) kube_node_spec_unschedulable == 1"
        f" or {_FREE} and on (cluster, instance) instance:gpu_node_maintenance:last == 1) * 0 + 1",
        "1 for each node that is cordoned or in maintenance.",
    ),
    record_each(
        _SOLD_OUT,
        ("node", "resource"),
        each_value("resource", {resource: _sold_out(resource) for resource in ("cpu", "memory")}),
        "CPU cores and bytes of memory that a node of Kubernetes has left, if too few for any waiting pod.",
    ),
    record(
        _ROOM,
        ("node",),
        f"max by (cluster, node) ({_SOLD_OUT}) * 0 + 1",
        "1 for each node of Kubernetes with too little CPU or memory for any waiting pod.",
    ),
    record_each(
        _KINDS,
        ("supply",),
        each_value("supply", _SUPPLY),
        "All GPUs, each in one kind of supply. `reclaimable` is allocated and lost. What waits fits on no GPU that is "
        "`fragmented` or has `no CPU or memory` beside it.",
    ),
    record_each(
        "cluster_answer:gpu_shortage:sum",
        ("answer",),
        each_value(
            "answer",
            {
                "repair": _REPAIR,
                "tune": _least(_TUNABLE, _REST),
                "buy": f"clamp_min({_REST} - {_TUNABLE}, 0)",
            },
        ),
        "Waiting GPUs by what would serve them first: repaired GPUs, GPUs that are reclaimed or made usable, new GPUs.",
    ),
)
