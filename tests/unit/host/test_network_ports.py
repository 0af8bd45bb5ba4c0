"""Which GPU a network port is nearest to, and which ports are in trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.owner import Target
from exporter.core.clock import MonotonicTime
from exporter.core.threads import Threads
from exporter.host.network_ports import NETWORK_PORT_FAMILIES, GpuSeat, PortWatch, meeting, nearest
from exporter.host.rdma import Port
from exporter.sampling.this_host import NetworkPortSource, seats
from tests.unit.host.rdma_tree import pci_device, rdma_port

SWITCH = ("pci0000:15", "0000:15:01.0", "0000:16:00.0")
PORT = Port(
    "mlx5_0", "1", "active", board="b", rate=50e9, path=(*SWITCH, "0000:17:01.0", "0000:1a:00.0"), numa_node="0"
)


def _gpu(index: int, *path: str, numa: str = "0") -> GpuSeat:
    return GpuSeat(index, f"GPU-{index}", path, numa)


@pytest.mark.parametrize(
    ("gpu", "way"),
    [
        (_gpu(0, *SWITCH, "0000:17:00.0", "0000:18:00.0"), "PIX"),
        (_gpu(0, *SWITCH, "0000:17:02.0", "0000:19:00.0", "0000:1b:00.0"), "PXB"),
        (_gpu(0, *SWITCH, "0000:17:02.0", "0000:19:00.0", "0000:1b:00.0", "0000:1c:00.0"), "PXB"),
        (_gpu(0, "pci0000:15", "0000:15:02.0", "0000:20:00.0"), "PHB"),
        (_gpu(0, "pci0000:35", "0000:35:01.0", "0000:36:00.0"), "NODE"),
        (_gpu(0, "pci0000:95", "0000:95:01.0", "0000:96:00.0", numa="1"), None),
        (_gpu(0, "pci0000:95", "0000:95:01.0", "0000:96:00.0", numa=""), None),
        (_gpu(0), None),
    ],
)
def test_how_a_port_and_a_gpu_meet(gpu: GpuSeat, way: str | None) -> None:
    found = meeting(PORT, gpu)

    assert (found[0] if found else None) == way


def test_gpu_right_below_a_switch_of_the_port_meets_it_there() -> None:
    assert meeting(PORT, _gpu(0, *SWITCH)) == meeting(PORT, _gpu(1, *SWITCH, "0000:17:00.0"))
    assert meeting(PORT, _gpu(0, *PORT.path, "0000:1b:00.0")) is not None


def test_gpu_behind_more_of_the_ports_own_bridges_is_nearer() -> None:
    below, beside = _gpu(0, *PORT.path[:4], "0000:1b:00.0"), _gpu(1, *SWITCH, "0000:17:00.0", "0000:18:00.0")

    assert [meeting(PORT, gpu) for gpu in (below, beside)] == [("PIX", 4), ("PIX", 3)]
    assert nearest(PORT, (beside, below)) == ((below, "PIX"),)


def test_all_gpus_that_are_equally_near_are_named() -> None:
    near = [_gpu(0, *SWITCH, "0000:17:00.0", "0000:18:00.0"), _gpu(1, *SWITCH, "0000:17:03.0", "0000:1d:00.0")]
    far = _gpu(2, "pci0000:15", "0000:15:02.0", "0000:20:00.0")

    assert [(gpu.index, way) for gpu, way in nearest(PORT, [far, *near])] == [(0, "PIX"), (1, "PIX")]
    assert nearest(replace(PORT, path=()), near) == ()


def _other(**changes: object) -> Port:
    return replace(PORT, device="mlx5_1", **changes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("ports", "troubles"),
    [
        ((PORT, _other()), set[str]()),
        ((PORT, _other(state="down")), {"down"}),
        ((PORT, _other(rate=12.5e9)), {"slow"}),
        ((PORT, _other(state="down", board="a storage card")), set[str]()),
        ((replace(PORT, state="down"), _other(state="down")), set[str]()),
        (
            (PORT, _other(state="down", path=(*PORT.path[:-1], "0000:1a:00.1"))),
            set[str](),
        ),  # no cable in any second port
    ],
)
def test_port_is_judged_by_its_like(ports: tuple[Port, ...], troubles: set[str]) -> None:
    assert PortWatch().update(ports, (), MonotonicTime(0.0)).ports[-1].troubles == troubles


def test_port_that_is_switched_off_is_meant_to_be_unless_it_was_active() -> None:
    off = replace(PORT, device="mlx5_1", state="down", physical_state="disabled")
    watch = PortWatch()
    assert watch.update((PORT, off), (), MonotonicTime(0.0)).ports[1].troubles == frozenset()

    watch.update((PORT, replace(off, state="active", physical_state="linkup")), (), MonotonicTime(1.0))

    assert watch.update((PORT, off), (), MonotonicTime(2.0)).ports[1].troubles == {"down"}


def test_port_is_judged_by_its_own_past() -> None:
    watch = PortWatch()
    watch.update((PORT,), (), MonotonicTime(0.0))

    assert watch.update((replace(PORT, rate=25e9),), (), MonotonicTime(10.0)).ports[0].troubles == {"slow"}
    assert watch.update((replace(PORT, state="down"),), (), MonotonicTime(20.0)).ports[0].troubles == {"down"}
    assert not watch.update((PORT,), (), MonotonicTime(30.0)).ports[0].troubles


def test_errors_count_while_they_are_recent() -> None:
    watch = PortWatch()
    errors = [{"symbol_error": 0.0, "link_downed": 4.0}, {"symbol_error": 50.0, "link_downed": 4.0},
              {"symbol_error": 151.0, "link_downed": 4.0}]  # fmt: skip
    seen = [
        watch.update((replace(PORT, errors=each),), (), MonotonicTime(10.0 * at)).ports[0]
        for at, each in enumerate(errors)
    ]
    later = watch.update((replace(PORT, errors=errors[-1]),), (), MonotonicTime(400.0)).ports[0]
    again = watch.update(
        (replace(PORT, errors={"symbol_error": 151.0, "link_downed": 5.0}),), (), MonotonicTime(410.0)
    ).ports[0]

    assert [set(each.troubles) for each in (*seen, later, again)] == [set(), set(), {"errors"}, set(), {"errors"}]


def test_what_a_fabric_that_is_set_up_drops_is_no_trouble() -> None:
    watch = PortWatch()
    for at, dropped in enumerate((0.0, 5000.0)):
        port = replace(PORT, errors={"VL15_dropped": dropped, "port_rcv_constraint_errors": dropped})
        seen = watch.update((port,), (), MonotonicTime(float(at)))

    assert seen.ports[0].troubles == frozenset()


def test_receives_that_a_program_leaves_behind_at_its_end_are_no_trouble() -> None:
    """NVIDIA's guide to the counters: the card completes them as errors, flushed. NCCL posts many of them."""
    watch = PortWatch()
    for at, flushed in enumerate((0.0, 4096.0)):
        port = replace(PORT, errors={"resp_cqe_error": flushed, "req_cqe_error": flushed})
        seen = watch.update((port,), (), MonotonicTime(float(at)))

    assert seen.ports[0].troubles == frozenset()


def test_node_reads_its_ports_in_the_background(tmp_path: Path) -> None:
    pci_device(tmp_path, "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0")
    nic = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1a:00.0"
    port = rdma_port(tmp_path, "mlx5_0", nic, counters={"port_rcv_data": 1})
    rdma_port(tmp_path, "mlx5_1", "pci0000:35/0000:35:01.0/0000:36:00.0")
    now = [MonotonicTime(1000.0)]
    source = NetworkPortSource(tmp_path, clock=lambda: now[0])
    gpus = [Target("GPU-0", 0, "0000:18:00.0"), Target("MIG-1", 0, "0000:18:00.0", parent_uuid="GPU-0")]

    assert source.ports(gpus).ports == ()
    source._source.ask_once()
    first = source.ports(gpus)
    (port / "state").write_text("1: DOWN\n")
    now[0] += 10
    source._source.ask_once()
    second = source.ports(gpus)
    now[0] += 61

    assert [(gpu.uuid, way) for gpu, way in first.ports[0].near] == [("GPU-0", "PIX")]
    assert (first.troubled_gpus, second.troubled_gpus) == (frozenset(), {"GPU-0"})
    assert source.ports(gpus).ports == ()  # nobody has read for a minute
    shown = {f.name: [(s.labels, s.value) for s in f.collect(second)] for f in NETWORK_PORT_FAMILIES}
    assert (("mlx5_0", "1", "down"), 1.0) in shown["gpu_rdma_port_degraded"]
    assert shown["gpu_rdma_port_up"] == [(("mlx5_0", "1"), 0.0), (("mlx5_1", "1"), 1.0)]
    assert shown["gpu_rdma_port_nearest_gpu_info"][0] == (("mlx5_0", "1", "0", "GPU-0", "PIX"), 1.0)
    assert shown["gpu_rdma_port_bytes_total"] == [(("mlx5_0", "1", "receive"), 4.0)]


def test_nothing_runs_on_a_machine_without_ports(tmp_path: Path) -> None:
    source, threads = NetworkPortSource(tmp_path), Threads()
    source.start_where_present(threads)

    assert source.health() == ()
    assert not threads.states()


def test_health_of_the_ports_has_the_age_of_the_last_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rdma_port(tmp_path, "mlx5_0", "pci0000:35/0000:35:01.0/0000:36:00.0")
    now = [MonotonicTime(1000.0)]
    source = NetworkPortSource(tmp_path, clock=lambda: now[0])
    monkeypatch.setattr(source._source, "start", lambda _: source._source.ask_once())
    source.start_where_present(Threads())
    now[0] += 7

    assert [(each.success, each.age) for each in source.health()] == [(True, 7.0)]


def test_seat_of_a_whole_gpu_has_its_path_and_numa_node(tmp_path: Path) -> None:
    device = pci_device(tmp_path, "pci0000:15/0000:15:01.0/0000:18:00.0")
    (device / "numa_node").write_text("1\n")
    gpus = [Target("GPU-0", 3, "0000:18:00.0"), Target("MIG-1", 3, "0000:18:00.0", parent_uuid="GPU-0")]

    assert seats(tmp_path, [*gpus, Target("GPU-1", 4, "")]) == (
        GpuSeat(3, "GPU-0", ("pci0000:15", "0000:15:01.0", "0000:18:00.0"), "1"),
    )
