"""Faults of NVLink and PCIe, one table each."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table

from dashboards.parts import link, style
from dashboards.parts.query import NODE, times
from dashboards.parts.table import Key, Table, Value


def keys() -> tuple[Key, ...]:
    node, gpu, cluster = link.cell("Node"), link.cell("GPU"), link.cell("Cluster")
    return (
        Key("cluster", "Cluster", width=75),
        Key("instance", "Node", (link.to_node(node, cluster),)),
        Key("gpu", "GPU", (link.to_gpu(node, gpu, cluster),), width=55),
    )


def links_down(scope: str) -> str:
    """Return how many links of each GPU are down; not of one without a bridge, or split on purpose, that never had any up."""
    gpu = "(cluster, instance, gpu)"
    lost = f'gpu_fault_timestamp_seconds{{{scope}, fault="nvlink_down"}}'
    return (
        f"count by {gpu} (gpu_nvlink_link_up{{{scope}}} == 0)"
        f" and on {gpu} (gpu_nvlink_links_up{{{scope}}} > 0 or on {gpu} {lost})"
    )


def nvlink() -> table.Panel:
    errors = f"{times(f'gpu:gpu_nvlink_errors:rate5m{{{NODE}}}')} > 0"
    return Table(
        title="NVLink",
        description="GPUs that have lost links, or with link errors in the time range.",
        keys=keys(),
        columns=(
            Value(
                "Links down",
                links_down(NODE),
                style.COUNT,
                style.RED_FROM_ONE,
                decimals=0,
                width=110,
            ),
            Value("Errors in range", errors, style.COUNT, decimals=0, width=150),
            Value(
                "Fabric",
                f"sum by (cluster, instance, gpu) (gpu_fabric_unhealthy{{{NODE}}}) > 0",
                style.COUNT,
                style.RED_FROM_ONE,
                decimals=0,
                width=90,
            ),
        ),
        sort="Links down",
        size=(12, 8),
        empty="All NVLinks are up and without errors, or there are none",
    ).build()


def pcie() -> table.Panel:
    narrow = f"gpu_pcie_link_width{{{NODE}}} < gpu_pcie_link_max_width{{{NODE}}}"
    replays = f"{times(f'gpu:gpu_pcie_replays:rate5m{{{NODE}}}')} > 0"
    return Table(
        title="PCIe",
        description="GPUs whose link is narrower than it could be, or that replayed packets in the time range. The generation drops by itself on an idle link, so it is not judged here.",
        keys=keys(),
        columns=(
            Value("Width now", narrow, "none", style.RED_FROM_ONE, width=100),
            Value("Could be", f"gpu_pcie_link_max_width{{{NODE}}} and ({narrow})", "none", width=95),
            Value("Replays in range", replays, style.COUNT, decimals=0, width=150),
        ),
        sort="Replays in range",
        size=(12, 8),
        empty="All PCIe links are as wide as they can be, and none replayed",
    ).build()
