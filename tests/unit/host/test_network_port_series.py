"""Each number of a network port in its own series, and none of what the kernel does not say."""

from __future__ import annotations

from exporter.host.network_ports import NETWORK_PORT_FAMILIES, TROUBLES, GpuSeat, NetworkPorts, PortStatus
from exporter.host.rdma import Port

PORT = Port(
    *("mlx5_0", "1", "active", "InfiniBand", 50e9),
    bytes={"receive": 10.0, "transmit": 20.0},
    errors={"link_downed": 3.0},
    board="MT_1",
    netdev="ib0",
    path=("pci0000:15", "0000:15:01.0", "0000:1a:00.0"),
    numa_node="0",
)
NEAR = ((GpuSeat(0, "GPU-0", ()), "PIX"), (GpuSeat(3, "GPU-3", ()), "PIX"))


def series(*ports: PortStatus) -> dict[tuple[str, ...], float]:
    found = NetworkPorts(ports)
    return {
        (family.name, *sample.labels): sample.value
        for family in NETWORK_PORT_FAMILIES
        for sample in family.collect(found)
    }


def test_whole_port() -> None:
    own = ("mlx5_0", "1")

    assert series(PortStatus(PORT, NEAR, frozenset({"slow"}))) == {
        ("gpu_rdma_port_info", *own, "InfiniBand", "ib0", "0000:1a:00.0", "0", "MT_1", "0,3"): 1,
        ("gpu_rdma_port_nearest_gpu_info", *own, "0", "GPU-0", "PIX"): 1,
        ("gpu_rdma_port_nearest_gpu_info", *own, "3", "GPU-3", "PIX"): 1,
        ("gpu_rdma_port_up", *own): 1.0,
        ("gpu_rdma_port_state", *own, "active"): 1.0,
        ("gpu_rdma_port_speed_bytes", *own): 50e9,
        ("gpu_rdma_port_bytes_total", *own, "receive"): 10.0,
        ("gpu_rdma_port_bytes_total", *own, "transmit"): 20.0,
        ("gpu_rdma_port_errors_total", *own, "link_downed"): 3.0,
        **{("gpu_rdma_port_degraded", *own, trouble): float(trouble == "slow") for trouble in TROUBLES},
    }


def test_port_of_which_the_kernel_says_nothing_has_its_name_alone() -> None:
    own = ("mlx5_1", "1")

    assert series(PortStatus(Port(*own))) == {
        ("gpu_rdma_port_info", *own, "", "", "", "", "", ""): 1,
        **{("gpu_rdma_port_degraded", *own, trouble): 0.0 for trouble in TROUBLES},
    }


def test_port_that_is_not_active_is_not_up() -> None:
    found = series(PortStatus(Port("mlx5_1", "1", "down")))

    assert found["gpu_rdma_port_up", "mlx5_1", "1"] == 0.0
    assert found["gpu_rdma_port_state", "mlx5_1", "1", "down"] == 1.0
