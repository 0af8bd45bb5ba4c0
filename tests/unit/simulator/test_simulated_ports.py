"""The network ports of a simulated node, as ledger, check and alerts see them."""

from __future__ import annotations

from exporter.attribution.owner import Target
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.host.network_ports import NetworkPorts
from exporter.sampling.host_view import HostQuestion
from exporter.tools.simulator import simulate
from exporter.tools.simulator.driver import SimulatedHost
from tests.unit.simulator.simulation import EPOCH


def looks(spec: str, *seconds: float) -> list[NetworkPorts]:
    """What is seen of the ports of `spec` so many seconds after the start."""
    driver = simulate(spec, lambda: EPOCH)
    driver.open()
    node = SimulatedHost(driver.node)
    gpus = [Target(each.uuid, each.index, each.pci_bus_id) for each in driver.devices()]
    moments = [Moment(UnixTime(EPOCH + at), MonotonicTime(at)) for at in seconds]
    return [node.view(HostQuestion(at, {}, gpus)).ports for at in moments]


def test_each_gpu_of_a_machine_with_nvlink_has_a_port_beside_it() -> None:
    (found,) = looks("8xH100", 0.0)

    assert [(each.port.device, [(seat.index, way) for seat, way in each.near]) for each in found.ports] == [
        (f"mlx5_{index}", [(index, "PIX")]) for index in range(8)
    ]
    assert {(each.port.state, each.port.rate, each.troubles) for each in found.ports} == {("active", 50e9, frozenset())}
    assert looks("4xL40S", 0.0)[0].ports == ()


def test_a_port_carries_what_its_gpus_workload_reads_and_writes() -> None:
    before, after = looks("1xH100:checkpoint;seed=1", 100.0, 200.0)
    moved = {way: after.ports[0].port.bytes[way] - before.ports[0].port.bytes[way] for way in ("receive", "transmit")}

    assert moved["transmit"] > 50 * 900e6
    assert moved["receive"] < 1e8


def test_ports_in_trouble_are_told_by_their_own_past_and_by_others() -> None:
    *_, found = looks("3xH100:3*training;fault=port-down:1@200;fault=port-errors:2@200", *range(0, 400, 10))

    assert [each.troubles for each in found.ports] == [
        frozenset(),
        frozenset({"down", "errors"}),
        frozenset({"errors"}),
    ]
    assert len(found.troubled_gpus) == 2
