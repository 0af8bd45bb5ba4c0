"""Recording rules: what fleet dashboards ask, reduced once a minute to one series per node, model, owner or cluster."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import MODEL, NODE, WHOLE, by, record
from deploy.prometheus.recordings_device import (
    COPIES,
    GPU_BUSY,
    GPU_STATES,
    HEAT,
    INFO,
    INFO_JOIN,
    LINK_ERRORS,
    MODEL_SHARE,
    WORKLOAD_MODELS,
    allocation,
    device_level,
    reasons,
)
from deploy.prometheus.recordings_owner import MARK, WORKLOAD_PARTS, owner_level
from deploy.prometheus.recordings_progress import PROGRESS
from deploy.prometheus.recordings_serving import SERVING

INTERVAL = "1m"
"""Of the recording groups. `sum_over_time(x[range]) / 60` is then GPU hours: `…:gpu_waste_hours:sum1d` relies on it."""


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

GROUPS = (
    Group("gpu-device", INTERVAL, (INFO, GPU_STATES, GPU_BUSY, _EXPORTERS, _MAINTENANCE, *LINK_ERRORS)),
    Group(
        "gpu-node",
        INTERVAL,
        (COPIES, *device_level("node", NODE), *allocation("node", NODE), reasons("node", NODE), *HEAT),
    ),
    Group(
        "gpu-cluster",
        INTERVAL,
        (
            *device_level("cluster", (), base="node"),
            *allocation("cluster", (), "node"),
            reasons("cluster", (), "node"),
        ),
    ),
    Group("gpu-model", INTERVAL, (*device_level("model", MODEL, INFO_JOIN), MODEL_SHARE)),
    Group(
        "gpu-owner",
        INTERVAL,
        (
            MARK,
            *owner_level("workload", WHOLE),
            *WORKLOAD_PARTS,
            WORKLOAD_MODELS,
            *owner_level("namespace", ("namespace",)),
            *owner_level("account", ("account",)),
            *owner_level("user", ("user",)),
        ),
    ),
    Group("gpu-progress", INTERVAL, PROGRESS),
    Group("gpu-serving", INTERVAL, SERVING),
    Group(
        "gpu-waste",
        "5m",
        tuple(
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
)
