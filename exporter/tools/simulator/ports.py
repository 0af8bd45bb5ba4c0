"""The InfiniBand ports of a simulated node: one beside each GPU of a machine with NVLink, none on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.host.rdma import PciPath, Port
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.gpu import Gpu
from exporter.tools.simulator.models import HOPPER

_RATE, _OLDER_RATE = 50e9, 25e9
"""Bytes per second, one direction: NDR beside Hopper and newer, HDR before."""


def ports(gpus: Sequence[Gpu], time: float) -> tuple[Port, ...]:
    """By GPU, in their order; `time` is seconds since the start."""
    return tuple(_port(gpu, time) for gpu in gpus if gpu.model.links)


def pci_path(gpu: Gpu) -> PciPath:
    """The GPU's way to the CPU."""
    return (*_bridge(gpu), gpu.pci_bus_id)


def _bridge(gpu: Gpu) -> PciPath:
    """Above the GPU and its port."""
    return (f"pci0000:{gpu.bus:02x}", f"0000:{gpu.bus:02x}:01.0")


def _port(gpu: Gpu, time: float) -> Port:
    down = gpu.has("port-down", time)
    return Port(
        device=f"mlx5_{gpu.index}",
        port="1",
        state="down" if down else "active",
        link_layer="InfiniBand",
        rate=_RATE if gpu.model.architecture >= HOPPER else _OLDER_RATE,
        bytes={
            "receive": float(int(gpu.total(Channel.NETWORK_RECEIVE, time))),
            "transmit": float(int(gpu.total(Channel.NETWORK_TRANSMIT, time))),
        },
        errors=_errors(gpu, time),
        board="MT_0000000838",
        path=(*_bridge(gpu), f"0000:{gpu.bus + 1:02x}:00.0"),
    )


def _errors(gpu: Gpu, time: float) -> Mapping[str, float]:
    downs = sum(fault.kind.name == "port-down" and fault.at <= time for fault in gpu.faults)
    return {
        "symbol_error": float(int(gpu.total(Channel.PORT_ERRORS, time))),
        "link_downed": float(downs),
        "port_xmit_discards": 0.0,
    }
