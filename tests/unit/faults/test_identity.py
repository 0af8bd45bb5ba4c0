"""UUIDs that a driver answers for a moment, or changes while it runs, are not further GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    state_file.write_state(tmp_path / "faults.json", node.book)

    assert set(state_file.read_state(tmp_path / "faults.json").state.devices) == {"GPU-0", "GPU-1"}


def test_xid_of_a_garbage_uuid_without_a_gpu_at_its_bus_is_of_an_unknown_gpu() -> None:
    node = Node()
    node.gpus["GPU-garbage"] = ObservedGpu("GPU-garbage", 2, "", "0000:07:00.0", up=True, xids={79: node.now})
    node.observe(5)
    del node.gpus["GPU-garbage"]
    node.observe(60)

    assert [(fault.uuid, fault.index, fault.evidence) for fault in node.book.faults] == [
        ("", -1, "XID 79 at 0000:07:00.0")
    ]


def test_fault_that_a_gpu_has_under_two_uuids_is_one() -> None:
    node = Node()
    node.observe(60)
    xid(node, 119)
    node.observe(60)
    node.gpus["GPU-new"] = replace(node.gpus.pop("GPU-0"), uuid="GPU-new", xids={119: node.now + 1})
    node.observe(60)

    assert [(fault.uuid, fault.evidence) for fault in node.book.faults] == [("GPU-new", "XID 119")]


GPUS = st.lists(
    st.builds(
        ObservedGpu,
        st.sampled_from(["", "GPU-0", "GPU-1", "GPU-2", "garbage"]),
        st.integers(0, 3),
        st.sampled_from(["", "S0", "S1"]),
        st.sampled_from(["", "0000:00:00.0", "0000:01:00.0"]),
        up=st.sampled_from([True, True, False, None]),
        failure=st.sampled_from(["", "GPU_IS_LOST"]),
        joules=st.sampled_from([None, 0.0, 1e9]),
        links=st.sampled_from([None, 0, 12, 18]),
        xids=st.dictionaries(st.sampled_from([48, 63, 79, 94, 9999]), st.floats(1e6, 1.1e6), max_size=2),
        present=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda seen: seen.uuid,
)


@given(st.lists(st.tuples(GPUS, st.sampled_from(["a", "a", "a", "b"])), max_size=12))
def test_whatever_a_driver_shows_each_fault_is_there_once_and_has_its_gpu(
    seen: list[tuple[list[ObservedGpu], str]],
) -> None:
    node = Node()
    for gpus, boot in seen:
        node.gpus, node.boot = {each.uuid: each for each in gpus}, boot
        node.observe(5)

        named = [(fault.uuid, fault.uuid or fault.index, fault.kind, fault.evidence) for fault in node.book.faults]
        assert len(set(named)) == len(named)
        assert {fault.uuid for fault in node.book.faults} - {""} <= node.book.devices.keys()
