"""UUIDs that a driver answers for a moment, or changes while it runs, are not further GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.faults import state_file
from exporter.faults.model import ObservedGpu
from tests.unit.faults.node import Node, xid


def answer_garbage(node: Node, seconds: float, *, keep_old: bool, same: bool) -> None:
    """Let GPU 0 be shown under wrong UUIDs; the sampler shows the real one as away."""
    real = node.gpus["GPU-0"]
    for second in range(int(seconds / 5)):
        ghost = "GPU-garbage" if same else f"GPU-garbage-{second}"
        node.gpus = {ghost: replace(real, uuid=ghost, serial="")} | {
            "GPU-0": replace(real, up=False, failure="not shown by the driver", present=False),
            "GPU-1": node.gpus["GPU-1"],
        }
        if not keep_old:
            del node.gpus["GPU-0"]
        node.observe(5)
    node.gpus = {"GPU-0": real, "GPU-1": node.gpus["GPU-1"]}


@pytest.mark.parametrize("keep_old", [True, False])
@pytest.mark.parametrize(("seconds", "same"), [(5, True), (10, True), (5, False), (10, False), (60, False)])
def test_garbage_uuids_leave_no_gpu_and_no_fault(seconds: float, keep_old: bool, same: bool) -> None:  # noqa: FBT001
    node = Node()
    node.observe(60)

    answer_garbage(node, seconds, keep_old=keep_old, same=same)
    node.observe(3600)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-0", "GPU-1"}


def test_garbage_uuid_that_the_sampler_still_shows_as_away_is_no_lost_gpu() -> None:
    node = Node()
    node.observe(60)
    node.gpus["GPU-garbage"] = ObservedGpu("GPU-garbage", 0, "", "0000:00:00.0", up=True)
    node.observe(5)
    node.change("GPU-garbage", up=False, failure="not shown by the driver", present=False)

    node.observe(3600)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-0", "GPU-1"}


def test_garbage_uuid_keeps_the_faults_of_its_gpu_and_gives_back_its_xids() -> None:
    node = Node()
    node.observe(60)
    xid(node, 119)
    node.observe(60)
    real = node.gpus["GPU-0"]
    node.gpus["GPU-garbage"] = replace(real, uuid="GPU-garbage", serial="", xids={79: node.now})
    del node.gpus["GPU-0"]
    node.observe(5)
    del node.gpus["GPU-garbage"]
    node.gpus["GPU-0"] = real
    node.observe(60)

    assert {(fault.uuid, fault.evidence) for fault in node.book.faults} == {("GPU-0", "XID 119"), ("GPU-0", "XID 79")}


def test_uuid_that_changes_while_running_is_one_gpu() -> None:
    node = Node()
    node.observe(60)
    xid(node, 119)
    node.observe(60)
    node.gpus["GPU-new"] = replace(node.gpus.pop("GPU-0"), uuid="GPU-new")

    node.observe(3600)

    assert set(node.book.devices) == {"GPU-1", "GPU-new"}
    assert [(fault.uuid, fault.evidence) for fault in node.book.faults] == [("GPU-new", "XID 119")]


def test_gpu_without_a_uuid_is_no_gpu() -> None:
    node = Node()
    node.gpus[""] = ObservedGpu("", 2, "", "0000:05:00.0", up=True)
    node.observe(60)
    del node.gpus[""]
    node.observe(60)

    assert (set(node.book.devices), node.faults) == ({"GPU-0", "GPU-1"}, [])


def test_gpu_that_is_shown_for_10_seconds_and_then_not_is_lost() -> None:
    node = Node()
    node.gpus["GPU-2"] = ObservedGpu("GPU-2", 2, "S2", "0000:02:00.0", up=True)
    node.observe(15)
    del node.gpus["GPU-2"]
    node.observe(60)

    assert node.faults == [("lost", "not shown by the driver")]


def test_unconfirmed_gpu_is_not_saved(tmp_path: Path) -> None:
    node = Node()
    node.observe(60)
    node.gpus["GPU-garbage"] = ObservedGpu("GPU-garbage", 2, "", "0000:02:00.0", up=True)
    node.observe(5)
    state_file.write(tmp_path / "faults.json", node.book)

    assert set(state_file.read(tmp_path / "faults.json").state.devices) == {"GPU-0", "GPU-1"}
