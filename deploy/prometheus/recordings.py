"""Recording rules: what fleet dashboards ask, reduced to one series per node, model, owner or cluster.

What is a rate of many series is recorded once per GPU or part of a workload, without the states that took no time, and
all levels are made of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import MODEL, NODE, WHOLE, by, record
from deploy.prometheus.recordings_device import (
    COPIES,
    GPU_BUSY,
    GPU_HEAT,
    GPU_STATES,
    HEAT,
    INFO,
    INFO_JOIN,
    LINK_ERRORS,
    MODEL_SHARE,
    WORKLOAD_MODELS,
    Level,
    allocation,
    device_count,
    device_load,
    device_states,
    reasons,
)
from deploy.prometheus.recordings_owner import (
    MARK,
    PART_STATES,
    STARTS,
    WORKLOAD_NOW,
    WORKLOAD_PARTS,
    owner_level,
)
from deploy.prometheus.recordings_progress import PROGRESS, PROGRESS_NOW
from deploy.prometheus.recordings_serving import SERVING

INTERVAL = "1m"
"""Of what is summed. `sum_over_time(x[range]) / 60` is then GPU hours: `…:gpu_waste_hours:sum1d` relies on it."""
NOW_INTERVAL = "2m"
"""Of what is only asked of this moment."""
DAY_INTERVAL = "5m"
"""Of what is about a whole day."""


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
        "GPU hours held and lost in the last 24 hours.",
    )


_EXPORTERS = record(
    "cluster:gpu_exporters:count",
    (),
    "count by (cluster) (gpu_exporter_build_info)",
    "Exporters that answer. What was there before tells which targets or clusters have gone.",
)
_MAINTENANCE = record(
    "instance:gpu_node_maintenance:last",
    NODE,
    f"max {by(NODE)} (gpu_node_maintenance) or (instance:gpu_node_maintenance:last and on (cluster, instance) up == 0)",
    "1 while a node says that it is in maintenance, and on while it is switched off after that.",
)

_NODES, _CLUSTERS, _MODELS = (
    Level("node", NODE),
    Level("cluster", (), base="node"),
    Level("model", MODEL, join=INFO_JOIN),
)
GROUPS = (
    Group("gpu-device", INTERVAL, (INFO, GPU_STATES, GPU_HEAT, _EXPORTERS, _MAINTENANCE, *LINK_ERRORS)),
    Group(
        "gpu-node",
        INTERVAL,
        (COPIES, *device_count(_NODES), *device_states(_NODES), *allocation("node", NODE), reasons("node", NODE)),
    ),
    Group(
        "gpu-cluster",
        INTERVAL,
        (
            *device_count(_CLUSTERS),
            *device_states(_CLUSTERS),
            *allocation("cluster", (), "node"),
            reasons("cluster", (), "node"),
        ),
    ),
    Group("gpu-model", INTERVAL, device_states(_MODELS)),
    Group(
        "gpu-owner",
        INTERVAL,
        (
            MARK,
            PART_STATES,
            *owner_level("workload", WHOLE),
            *WORKLOAD_PARTS,
            WORKLOAD_MODELS,
            *owner_level("namespace", ("namespace",)),
            *owner_level("account", ("account",)),
            *owner_level("user", ("user",)),
        ),
    ),
    Group("gpu-progress", INTERVAL, PROGRESS),
    Group("gpu-serving", NOW_INTERVAL, SERVING),
    Group(
        "gpu-now",
        NOW_INTERVAL,
        (
            *(rule for level in (_NODES, _CLUSTERS, _MODELS) for rule in device_load(level)),
            *HEAT,
            *device_count(_MODELS),
            MODEL_SHARE,
            GPU_BUSY,
            *WORKLOAD_NOW,
            *PROGRESS_NOW,
        ),
    ),
    Group(
        "gpu-day",
        DAY_INTERVAL,
        (
            STARTS,
            *(
                _waste_hours(level, labels)
                for level, labels in (
                    ("cluster", ()),
                    ("node", NODE),
                    ("model", MODEL),
                    ("namespace", ("namespace",)),
                    ("account", ("account",)),
                    ("user", ("user",)),
                )
            ),
        ),
    ),
)
