"""InfiniBand and RoCE ports of a node: a table of them, and what they carry."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import units

from dashboards.parts import panel, style
from dashboards.parts.query import ONE_NODE, RANGE, over_time, rate
from dashboards.parts.table import Key, Table, Text, Value

_NONE = "This node has no InfiniBand or RoCE ports"


def ports() -> table.Panel:
    info = f"gpu_rdma_port_info{{{ONE_NODE}}}"
    return Table(
        title="Network ports",
        description="InfiniBand and RoCE ports, each with the GPUs it is nearest to over PCIe. "
        "In trouble: down or slow, unlike before or unlike others of its kind, or counting errors.",
        keys=(Key("device", "Device", width=100), Key("port", "Port", width=60)),
        columns=(
            Value(
                "Speed",
                f"gpu_rdma_port_speed_bytes{{{ONE_NODE}}}",
                units.BytesPerSecondSI,
                decimals=1,
                width=95,
            ),
            Text("State", f"gpu_rdma_port_state{{{ONE_NODE}}} == 1", "state", width=90),
            Text("In trouble", f"gpu_rdma_port_degraded{{{ONE_NODE}}} == 1", "reason", width=90),
            Text("Link", info, "link_layer", width=95),
            Text("Nearest GPUs", info, "nearest_gpu", width=115),
            Value("Receives", _traffic("receive"), units.BytesPerSecondSI, decimals=1, width=95),
            Value("Sends", _traffic("transmit"), units.BytesPerSecondSI, decimals=1, width=95),
            Value(
                "Errors in range",
                f"sum by (device, port) (increase(gpu_rdma_port_errors_total{{{ONE_NODE}}}[{RANGE}]))",
                style.COUNT,
                style.RED_FROM_ONE,
                decimals=0,
                width=130,
            ),
        ),
        sort="Device",
        ascending=True,
        size=(14, 8),
        empty=_NONE,
    ).build()


def traffic() -> timeseries.Panel:
    return panel.lines(
        "Network port traffic",
        "Bytes per second over each InfiniBand and RoCE port.",
        over_time(rate(f"gpu_rdma_port_bytes_total{{{ONE_NODE}}}"), "{{device}}/{{port}} {{direction}}"),
        units.BytesPerSecondSI,
        size=(10, 8),
        empty=_NONE,
    )


def _traffic(direction: str) -> str:
    return rate(f'gpu_rdma_port_bytes_total{{{ONE_NODE}, direction="{direction}"}}')
