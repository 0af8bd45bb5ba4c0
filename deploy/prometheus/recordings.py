"""Recording rules: what fleet dashboards ask, reduced to one series per node, model, owner or cluster.

What exporters count is rated once per GPU or part of a workload, without the states that took no time. All levels are
made of that, and only those that are added up over time are evaluated each minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus import recordings_alert
from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_accounting import ACCOUNTING, DIFFERENCE
from deploy.prometheus.recordings_accounting import INTERVAL as ACCOUNTING_INTERVAL
from deploy.prometheus.recordings_capacity import CAPACITY
from deploy.prometheus.recordings_common import MODEL, NODE, STATE_INDEX, by, once, record
from deploy.prometheus.recordings_device import (
    COPIES,
    GPU_BUSY,
    GPU_HEAT,
    GPU_LINK_ERRORS,
    GPU_RANK_WAIT,
    GPU_REASONS,
    GPU_STATES,
    HEAT,
    INFO,
    INFO_JOIN,
    LINK_ERRORS,
    MODEL_ALLOCATION,
    MODEL_PEAK,
    NODE_MODEL_STATES,
    PART_MODELS,
    PCIE_REPLAYS,
    WORKLOAD_MODELS,
    WORKLOAD_PRICES,
    Level,
    allocation,
    device_count,
    device_load,
    device_ratios,
    device_states,
    reasons,
)
from deploy.prometheus.recordings_fleet import DOWN, GONE_DAY, GONE_WEEK, MOST, NEW_NODE, PLACED
from deploy.prometheus.recordings_owner import (
    PART_STATES,
    PART_USED,
    SCALED,
    STARTS,
    TARGET_UTILIZATION,
    WORKLOAD_ALLOCATED,
    WORKLOAD_LEVEL,
    WORKLOAD_NOW,
    WORKLOAD_PARTS,
    WORKLOAD_USED,
    WORKLOAD_UTILIZATION,
)
from deploy.prometheus.recordings_progress import PROGRESS, PROGRESS_NOW
from deploy.prometheus.recordings_ranks import RANKS
from deploy.prometheus.recordings_serving import SERVING
from deploy.prometheus.recordings_unreachable import LISTED, SEEN, UNREACHABLE
from deploy.prometheus.targets import OTHERS, TARGETS

INTERVAL = "1m"
"""Interval of sums. `sum_over_time(x[range]) / 60` is then GPU hours: `…:gpu_waste_hours:sum1d` relies on it."""
RATE_INTERVAL = "150s"
"""Interval of what is rated over five minutes for others to add up, and of allocations.

Half of the five minutes: two rates tell of each second, and five of the minutes that sum them, whenever it was. So the
sums are as exact as if each minute were rated anew.
"""
NOW_INTERVAL = "4m"
"""Interval of what is only asked of this moment. Prometheus looks back five minutes: it always finds one."""
SCALE_INTERVAL = "15s"
"""Interval of the series that autoscalers follow."""
DAY_INTERVAL = "5m"
"""Interval of what is about a whole day."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    interval: str
    rules: tuple[Recording, ...]


def _waste_hours(level: str, labels: tuple[str, ...]) -> Recording:
    return record(
        f"{level}:gpu_waste_hours:sum1d",
        labels,
        f"sum_over_time({level}:gpu_waste:rate5m[1d]) / 60",
        "Allocated GPU hours and lost in the last 24 hours.",
    )


_TOP_WASTE = record(
    "workload:gpu_waste_hours:topk1h",
    ("workload",),
    "topk by (cluster) (200, sum by (cluster, workload)"
    f" (sum_over_time(workload:gpu_waste:rate5m[{ACCOUNTING_INTERVAL}])) / 60 > 0)",
    "Wasted GPU hours of the 200 workloads of a cluster that wasted most in an hour: who to list of a month.",
)
_EXPORTERS = record(
    "cluster:gpu_exporters:count",
    (),
    f"count by (cluster) ({once((), 'gpu_exporter_build_info')})",
    "Reachable exporters, each once. Its past values show which targets or clusters have gone.",
)
_MAINTENANCE = record(
    "instance:gpu_node_maintenance:last",
    NODE,
    # Other exporters of the node, and other jobs, may be down long after it came back.
    f"max {by(NODE)} (gpu_node_maintenance) or (instance:gpu_node_maintenance:last and on (cluster, instance) up == 0"
    " unless on (cluster, instance) (gpu_exporter_build_info and on (cluster, instance, job) up == 1))",
    "1 while a node reports that it is in maintenance, and on while it is switched off after that.",
)

_NODES, _CLUSTERS, _MODELS = (
    Level("node", NODE),
    Level("cluster", (), base="node"),
    Level("model", MODEL, join=INFO_JOIN),
)
GROUPS = (
    Group("gpu-target", INTERVAL, (OTHERS, TARGETS)),
    Group(
        "gpu-device",
        RATE_INTERVAL,
        (INFO, GPU_STATES, NODE_MODEL_STATES, LINK_ERRORS, PCIE_REPLAYS),
    ),
    Group("gpu-part", RATE_INTERVAL, (PART_STATES, PART_USED)),
    Group(
        "gpu-allocated",
        RATE_INTERVAL,
        (
            TARGET_UTILIZATION,
            *WORKLOAD_ALLOCATED,
            *WORKLOAD_PARTS,
            PART_MODELS,
            MODEL_ALLOCATION,
        ),
    ),
    Group("gpu-node", INTERVAL, (COPIES, _EXPORTERS, _MAINTENANCE, *GPU_LINK_ERRORS, *device_states(_NODES))),
    Group("gpu-cluster", INTERVAL, device_states(_CLUSTERS)),
    Group("gpu-model", INTERVAL, device_states(_MODELS)),
    Group(
        "gpu-owner",
        INTERVAL,
        (
            *WORKLOAD_LEVEL,
            WORKLOAD_USED,
            WORKLOAD_MODELS,
            WORKLOAD_PRICES,
        ),
    ),
    Group("gpu-autoscale", SCALE_INTERVAL, SCALED),
    Group("gpu-alert", INTERVAL, (*recordings_alert.NOW, *recordings_alert.OWNER_TIME)),
    Group("gpu-alert-rate", RATE_INTERVAL, recordings_alert.RATED),
    Group("gpu-place", INTERVAL, (PLACED, DOWN, NEW_NODE)),
    Group("gpu-state", INTERVAL, (STATE_INDEX,)),
    Group("gpu-progress", INTERVAL, PROGRESS),
    Group("gpu-ranks", NOW_INTERVAL, RANKS),
    Group("gpu-serving", NOW_INTERVAL, SERVING),
    Group(
        "gpu-now",
        NOW_INTERVAL,
        (
            *(rule for level in (_NODES, _CLUSTERS, _MODELS) for rule in device_count(level)),
            *LISTED,
            SEEN,
            UNREACHABLE,
            *allocation("node", NODE),
            *allocation("cluster", (), "node"),
            GPU_REASONS,
            GPU_HEAT,
            *(rule for level in (_NODES, _CLUSTERS, _MODELS) for rule in device_ratios(level)),
            reasons("node", NODE),
            reasons("cluster", (), "node"),
            *(rule for level in (_NODES, _CLUSTERS, _MODELS) for rule in device_load(level)),
            *HEAT,
            GPU_BUSY,
            GPU_RANK_WAIT,
            MODEL_PEAK,
            *WORKLOAD_NOW,
            WORKLOAD_UTILIZATION,
            *PROGRESS_NOW,
        ),
    ),
    Group(
        "gpu-day",
        DAY_INTERVAL,
        (
            STARTS,
            MOST,
            GONE_DAY,
            GONE_WEEK,
            DIFFERENCE,
            *(_waste_hours(level, labels) for level, labels in (("cluster", ()), ("node", NODE), ("model", MODEL))),
        ),
    ),
    Group("gpu-capacity", NOW_INTERVAL, CAPACITY),
    Group("gpu-top-waste", ACCOUNTING_INTERVAL, (_TOP_WASTE,)),
    Group("gpu-accounting", ACCOUNTING_INTERVAL, ACCOUNTING),
)
