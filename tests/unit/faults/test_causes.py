"""One event is one fault; what the kernel log shows counts; late is not lost; a pattern over programs is suspect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.collectors.xid import XidReport
from exporter.core.clock import UnixTime
from exporter.faults import state_file
from exporter.faults.causes import one_for_each
from exporter.faults.model import Fault, FaultKind, FaultState, ObservedGpu, RepairAction
from tests.unit.faults.node import WATTS, Node, gone, xid


@pytest.mark.parametrize("numbers", [(), (63, 94), (64,), (48, 63, 94), (95,)])
def test_failed_row_remap_is_one_fault_whatever_xids_tell_of_it(numbers: tuple[int, ...]) -> None:
    node = Node()
    node.change(remap_failed=True, uncorrected=1.0, xids=dict.fromkeys(numbers, node.now))
    node.observe(60)

    assert [(fault.kind.value, fault.action) for fault in node.book.faults] == [
        ("row_remap_failed", RepairAction.REPLACE)
    ]


def test_uncorrectable_error_and_its_xid_are_one_fault() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={48: node.now})
    node.observe(60)

    assert node.faults == [("ecc_uncorrectable", "1 uncorrectable error")]


@pytest.mark.parametrize(
    ("kind", "repair", "advised", "left"),
    [
        ("xid", "reset", "reset", ["XID 119"]),
        ("xid", "reset", "restart", ["XID 119", "XID 154"]),
        ("lost", "restart", "restart", ["XID 119"]),
        ("row_remap_failed", "replace", "restart", ["XID 119"]),
        ("xid", "procedure", "reset_when_idle", ["XID 119", "XID 154"]),
        ("nvlink_down", "inspect", "reset", ["XID 119", "XID 154"]),
    ],
)
def test_advice_in_the_kernel_log_is_explained_by_a_fault_with_as_strong_a_repair(
    kind: str, repair: str, advised: str, left: list[str]
) -> None:
    cause = Fault("GPU-0", 0, FaultKind(kind), "XID 119", RepairAction(repair), 10.0)
    advice = Fault("GPU-0", 0, FaultKind.XID, "XID 154", RepairAction(advised), 10.0)

    assert [fault.evidence for fault in one_for_each((cause, advice))] == left
    assert one_for_each((advice,)) == (advice,)


@pytest.mark.parametrize(("code", "repair"), [("RESET_REQUIRED", "reset"), ("GPU_IS_LOST", "restart")])
def test_repair_of_a_lost_gpu_is_what_the_driver_requires(code: str, repair: str) -> None:
    node = Node()
    node.change(up=False, failure=code)
    node.observe(60)

    assert [(fault.kind.value, fault.action.value) for fault in node.book.faults] == [("lost", repair)]


def test_xid_of_something_else_stays_beside_a_failed_row_remap() -> None:
    node = Node()
    node.change(remap_failed=True, xids={119: node.now})
    node.observe(60)

    assert sorted(node.faults) == [("row_remap_failed", "no spare rows"), ("xid", "XID 119")]


@pytest.mark.parametrize("failure", ["HUNG", "SILENT"])
def test_late_gpu_is_slow_and_ends_with_a_timely_answer(failure: str) -> None:
    node = Node()
    node.change(up=False, failure=failure)
    node.observe(120)
    assert node.faults == [("gpu_slow", "late answers")]
    assert node.book.faults[0].action is RepairAction.INSPECT

    node.change(up=True, failure="")
    node.observe(5)

    assert node.faults == []


def test_gpu_whose_calls_are_late_for_minutes_is_lost() -> None:
    node = Node()
    node.change(up=False, failure="HUNG")
    node.observe(190)

    assert node.faults == [("lost", "HUNG")]


def test_late_gpu_that_the_driver_calls_lost_is_lost() -> None:
    node = Node()
    node.change(up=False, failure="HUNG")
    node.observe(20)
    node.change(failure="GPU_IS_LOST")
    node.observe(10)

    assert node.faults == [("lost", "GPU_IS_LOST")]


def test_reset_in_the_kernel_log_clears_what_was_before_it() -> None:
    node = Node()
    xid(node, 119)
    node.observe(60)
    node.change(reset=UnixTime(node.now))
    node.observe(5)
    assert node.faults == []

    xid(node, 119)
    node.observe(5)

    assert node.faults == [("xid", "XID 119")]


def test_xid_of_a_gpu_that_is_gone_is_its_own_by_the_bus() -> None:
    node = Node()
    gone(node)
    node.unclaimed = {"0000:00:00.0": {79: XidReport("restart_bm", UnixTime(node.now))}}
    node.observe(60)

    assert [(fault.uuid, fault.kind.value, fault.evidence) for fault in node.book.faults] == [
        ("GPU-0", "lost", "XID 79")
    ]


def test_xid_of_a_gpu_that_was_never_shown_names_its_bus_until_it_is_acknowledged(tmp_path: Path) -> None:
    node = Node()
    node.refused = ((2, "GPU_IS_LOST"),)
    node.unclaimed = {"0000:3b:00.0": {79: XidReport("restart_bm", UnixTime(node.now))}}
    node.observe(60)
    assert node.faults == [("lost", "XID 79 at 0000:3b:00.0")]

    node.refused = ()
    node.say("0000:3b:00.0")
    node.observe(60)
    assert node.faults == []

    state_file.write_state(tmp_path / "faults.json", node.book)
    node.book = state_file.read_state(tmp_path / "faults.json").state
    node.observe(60)

    assert node.faults == []


def test_xid_of_a_gpu_that_is_shown_later_is_not_told_by_its_bus_any_more() -> None:
    node = Node()
    node.unclaimed = {"0000:3b:00.0": {119: XidReport("reset_gpu", UnixTime(node.now))}}
    node.observe(60)
    assert node.faults == [("xid", "XID 119 at 0000:3b:00.0")]

    at = node.unclaimed.pop("0000:3b:00.0")[119].time
    node.gpus["GPU-2"] = ObservedGpu("GPU-2", 2, "S2", "0000:3b:00.0", up=True, xids={119: at})
    node.observe(60)

    assert [(fault.uuid, fault.evidence) for fault in node.book.faults] == [("GPU-2", "XID 119")]


@pytest.mark.parametrize(("elsewhere", "suspect"), [(0, True), (1, True), (3, False)])
def test_programs_that_fail_on_one_gpu_alone_make_it_suspect(elsewhere: int, *, suspect: bool) -> None:
    node = Node()
    node.change("GPU-0", programs={31: (UnixTime(node.now),) * 10})
    node.change("GPU-1", programs={31: (UnixTime(node.now),) * elsewhere})
    node.observe(60)
    assert node.faults == [("xid_pattern", "XID 31 of many programs")] * suspect

    node.say("0")
    node.observe(60)

    assert node.faults == []


def test_energy_counter_of_a_new_gpu_tells_that_it_was_reset_after_an_xid() -> None:
    """Without a state file nothing else is known: 90 J are less than any GPU draws in the hour since."""
    node = Node()
    node.book = FaultState()
    node.change("GPU-0", joules=90.0, xids={119: UnixTime(node.now - 3600)})
    node.change("GPU-1", joules=WATTS * 7200, xids={119: UnixTime(node.now - 3600)})
    node.observe(60)

    assert [(fault.uuid, fault.evidence) for fault in node.book.faults] == [("GPU-1", "XID 119")]


def moved(node: Node, *, bus: str) -> None:
    """Start the node anew, with another card in place of GPU 0."""
    node.boot, node.epoch = "boot-2", node.now
    del node.gpus["GPU-0"]
    node.gpus["GPU-9"] = replace(node.gpus["GPU-1"], uuid="GPU-9", index=0, serial="S9", bus=bus)


@pytest.mark.parametrize("bus", ["0000:00:00.0", "0000:70:00.0"])
def test_new_card_at_any_bus_ends_the_faults_of_the_old_one_after_a_start(bus: str) -> None:
    node = Node()
    node.change(remap_failed=True)
    node.observe(60)
    moved(node, bus=bus)
    node.observe(120)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-1", "GPU-9"}


def test_card_that_is_missing_after_a_start_is_lost() -> None:
    node = Node()
    node.boot, node.epoch = "boot-2", node.now
    gone(node)
    node.observe(120)

    assert node.faults == [("lost", "not shown by the driver")]


def test_machine_with_fewer_gpus_by_the_operator_s_word_has_lost_none_after_a_start() -> None:
    node = Node()
    node.boot, node.epoch, node.stated = "boot-2", node.now, 1
    gone(node)
    node.observe(120)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-1"}


def test_card_that_is_lost_without_a_start_was_not_replaced() -> None:
    node = Node()
    node.stated = 1
    gone(node)
    node.observe(120)

    assert node.faults == [("lost", "not shown by the driver")]
