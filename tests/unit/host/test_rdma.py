"""InfiniBand and RoCE ports, read from a /sys made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host import rdma
from tests.unit.host.rdma_tree import pci_device, rdma_port

NIC = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1a:00.0"


def test_port_as_the_kernel_shows_it(tmp_path: Path) -> None:
    counters = {"port_rcv_data": 1000, "port_xmit_data": 250, "symbol_error": 3, "link_downed": 1}
    rdma_port(tmp_path, "mlx5_0", NIC, counters=counters, hardware={"out_of_sequence": 7}, numa=1)
    (port,) = rdma.ports(tmp_path)

    assert (port.device, port.port, port.state, port.physical_state) == ("mlx5_0", "1", "active", "linkup")
    assert (port.link_layer, port.netdev, port.board, port.numa_node) == (
        "InfiniBand",
        "ibmlx5_0",
        "MT_0000000838",
        "1",
    )
    assert port.rate == 50e9
    assert port.bytes == {"receive": 4000.0, "transmit": 1000.0}
    assert port.errors == {"symbol_error": 3.0, "link_downed": 1.0, "out_of_sequence": 7.0}
    assert port.path == ("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:01.0", "0000:1a:00.0")


def test_machine_without_such_ports_has_none(tmp_path: Path) -> None:
    assert rdma.ports(tmp_path) == ()
    assert not rdma.present(tmp_path)


@pytest.mark.parametrize("rate", ["", "fast", "-1 Gb/sec", "400"])
def test_rate_that_is_none_is_not_told(tmp_path: Path, rate: str) -> None:
    rdma_port(tmp_path, "mlx5_0", NIC, rate=rate)

    assert rdma.ports(tmp_path)[0].rate is None


def test_what_a_card_does_not_have_is_absent(tmp_path: Path) -> None:
    """A virtual device: no counters, no PCI address, an odd state."""
    folder = tmp_path / "class/infiniband/rxe0/ports/1"
    folder.mkdir(parents=True)
    (folder / "state").write_text("nonsense")

    assert rdma.ports(tmp_path) == (rdma.Port("rxe0", "1"),)


def test_virtual_functions_are_no_ports_of_their_own(tmp_path: Path) -> None:
    """Unused ones are down, beside the active card: 128 of them would also leave no room for the cards."""
    rdma_port(tmp_path, "mlx5_0", NIC)
    physical = tmp_path / "devices" / NIC
    for number in range(1, 129):
        pci = f"{NIC[:-12]}0000:{0x20 + number // 8:02x}:00.{number % 8}"
        rdma_port(tmp_path, f"mlx5_{number}", pci, state="1: DOWN")
        (tmp_path / "devices" / pci / "physfn").symlink_to(physical)
    rdma_port(tmp_path, "mlx5_200", f"{NIC[:-12]}0000:1c:00.0")

    assert [port.device for port in rdma.ports(tmp_path)] == ["mlx5_0", "mlx5_200"]


def test_where_there_are_too_many_the_first_ones_are_shown(tmp_path: Path) -> None:
    for number in range(70):
        rdma_port(tmp_path, f"mlx5_{number}", f"{NIC[:-12]}0000:{0x20 + number:02x}:00.0")

    assert [port.device for port in rdma.ports(tmp_path)] == [f"mlx5_{number}" for number in range(64)]


def test_machine_without_numa_says_no_node(tmp_path: Path) -> None:
    pci_device(tmp_path, NIC, numa=-1)

    assert rdma.pci_numa_node(tmp_path, "0000:1a:00.0") == ""
    assert rdma.pci_path(tmp_path, "0000:1a:00.0")[-1] == "0000:1a:00.0"
    assert rdma.pci_path(tmp_path, "0000:ff:00.0") == ()


def test_ports_without_end_are_cut(tmp_path: Path) -> None:
    for number in range(70):
        (tmp_path / f"class/infiniband/x{number:02d}/ports/1").mkdir(parents=True)

    assert len(rdma.ports(tmp_path)) == 64
