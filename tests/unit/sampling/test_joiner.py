"""What a join consists of from cycle to cycle: what follows from an ownership stays while that and the processes do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.attribution.owner import NOBODY, Owner, Ownership, Target, WorkloadInfo
from exporter.collectors.base import Paced
from exporter.collectors.processes import GpuProcess, Processes
from exporter.core.clock import Moment, UnixTime
from exporter.driver.interface import Device
from exporter.sampling import join
from exporter.sampling.gpus import Gpu
from exporter.sampling.host_view import Host, HostQuestion, HostView
from exporter.sampling.join import Join
from tests.attribution_kit.nodes import host_process

AT = Moment(UnixTime(0.0), 0.0)
ALICE, BOB = (Owner(f"process:{name}", "process", user=name) for name in ("alice", "bob"))


class _Device(Device):
    def __init__(self, index: int) -> None:
        self.index, self.uuid, self.pci_bus_id, self.minor = index, f"GPU-{index}", f"0000:{index:02x}:00.0", index

    def call(self, function: str, *args: object) -> object:
        raise NotImplementedError


class _Host(Host):
    """Who runs what is `owners`; what is asked is noted."""

    def __init__(self, owners: Mapping[int, Owner]) -> None:
        self.answer = Ownership(processes=owners)
        self.targets: list[Sequence[Target]] = []
        self.started = 1000.0

    def view(self, question: HostQuestion) -> HostView:
        self.targets.append(question.targets)
        processes = {
            pid: replace(host_process(pid, ""), start_time=UnixTime(self.started + pid)) for pid in question.pids
        }
        return HostView(processes=processes, ownership=replace(self.answer, health=()))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pids on every GPU."""
    pids = [7, 8]

    def shown(gpu: Gpu) -> Processes:
        running = tuple(GpuProcess(pid, gpu.device.uuid, None, {}) for pid in pids)
        return Processes(running, Paced(running, UnixTime(0.0)), None, 0)

    monkeypatch.setattr(join, "_listed_processes", shown)
    return pids


def one_cycle(node: _Host, gpus: Sequence[Gpu]) -> Join:
    question = join.host_question(gpus, AT, {})
    return join.join(question, node.view(question))


def test_starts_and_strangers_are_those_of_the_ownership(listed: list[int]) -> None:
    gpus = [Gpu(_Device(0))]
    node = _Host({7: ALICE, 8: NOBODY})
    first = one_cycle(node, gpus)
    assert (first.starts, first.unattributed) == ({ALICE: 1007.0, NOBODY: 1008.0}, 1)
    assert one_cycle(node, gpus).starts == first.starts

    listed.append(9)
    assert one_cycle(node, gpus).unattributed == 2

    node.answer = Ownership(processes={7: ALICE, 8: BOB, 9: BOB}, info={BOB: WorkloadInfo(start_time=UnixTime(5.0))})
    assert one_cycle(node, gpus).starts == {ALICE: 1007.0, BOB: 5.0}
    node.answer = replace(node.answer, info={BOB: WorkloadInfo(start_time=UnixTime(6.0))})
    assert one_cycle(node, gpus).starts == {ALICE: 1007.0, BOB: 6.0}


def test_instances_are_held_apart(listed: list[int]) -> None:
    assert listed
    whole, part = _Device(0), _Device(0)
    part.uuid, part.parent_uuid = "MIG-1", whole.uuid
    whole.instances = (part,)
    node = _Host({})
    one_cycle(node, [Gpu(whole)])

    assert [(target.uuid, target.parent_uuid) for target in node.targets[0]] == [("MIG-1", "GPU-0")]
