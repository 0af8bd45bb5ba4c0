"""A fault stays until its cure is proven, whatever the clock says; and ends when it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.clock import UnixTime
from exporter.faults.model import FaultKind, ObservedGpu, RepairAction
from tests.unit.faults.node import FAULTS, WATTS, WEEK, Node, xid


@pytest.mark.parametrize("name", FAULTS)
def test_fault_stays_for_a_week_with_its_first_time(name: str) -> None:
    node, (plant, fault) = Node(), FAULTS[name]
    plant(node)
    node.observe(60)
    since = node.book.faults[0].since

    node.observe(WEEK, step=3600)

    assert node.faults == [fault]
    assert node.book.faults[0].since == since


@pytest.mark.parametrize("name", ["XID 119 once", "XID 79", "an uncorrectable error"])
def test_reset_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.observe(3600)

    node.reset()
    node.observe(60)

    assert node.faults == []


@pytest.mark.parametrize("name", ["XID 119 once", "XID 79", "an uncorrectable error"])
def test_restart_of_the_node_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.observe(3600)

    node.boot = "boot-2"
    node.change(uncorrected=0.0, xids={})
    node.epoch = node.now
    node.observe(60)

    assert node.faults == []


def test_clock_that_is_set_back_hides_no_fault() -> None:
    """As when a node starts with the wrong time, and is told the right one later."""
    node = Node()
    node.boot = "boot-2"
    node.observe(60)
    node.change("GPU-1", up=False)
    node.observe(5)
    node.now, node.epoch = node.now - 7200, node.epoch - 7200

    node.observe(5)
    node.now += 1
    xid(node, 119)
    node.observe(60)

    assert sorted(node.faults) == [("lost", "no answer"), ("xid", "XID 119")]
    node.change("GPU-1", up=True)
    node.now, node.epoch = node.now - 7200, node.epoch - 7200
    node.observe(60)
    assert node.faults == [("xid", "XID 119")]


@pytest.mark.parametrize("seconds", [86400.0, -86400.0])
def test_clock_that_is_set_and_set_back_brings_back_no_cured_fault_and_hides_none(seconds: float) -> None:
    node = Node(booted=900_000.0)
    xid(node, 119)
    node.observe(60)
    since = node.book.faults[0].since
    node.reset()
    node.observe(60)
    xid(node, 62)
    node.change("GPU-1", up=False)
    node.observe(60)

    for step in (seconds, -seconds):
        node.set_clock(step)
        node.change(xids={119: since + (step if step == seconds else 0.0)})  # as the kernel log is read again
        node.observe(60)

    assert sorted(node.faults) == [("lost", "no answer"), ("xid", "XID 62")]
    assert {fault.kind.value: fault.since - since for fault in node.book.faults} == {
        "xid": pytest.approx(120.0),
        "lost": pytest.approx(125.0),
    }


def test_acknowledgement_of_the_time_after_a_clock_was_set_back_hides_nothing_new() -> None:
    """Such a one is dated after the last that was taken: a day ahead."""
    node = Node(booted=900_000.0)
    xid(node, 119)
    node.observe(60)
    node.set_clock(86400.0)
    node.say("0")
    node.observe(60)
    node.set_clock(-86400.0)
    xid(node, 62)
    node.observe(10)
    node.said = (*node.said, replace(node.said[0], time=node.said[0].time + 0.001))
    node.observe(5)
    node.change(xids={62: node.now, 109: node.now + 1.0})
    node.observe(10)

    assert node.faults == [("xid", "XID 109")]


def test_fault_goes_with_its_gpu_where_indices_change() -> None:
    """As after a start without one of the GPUs: at the old index is another one, or none."""
    node = Node()
    node.change("GPU-1", xids={119: node.now})
    node.observe(60)
    node.gpus.pop("GPU-0")
    node.change("GPU-1", index=0)

    node.observe(60)

    found = [(fault.uuid, fault.index, fault.kind.value) for fault in node.book.faults]
    assert sorted(found) == [("GPU-0", 0, "lost"), ("GPU-1", 0, "xid")]


@pytest.mark.parametrize("name", FAULTS)
def test_new_card_at_its_place_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.observe(3600)

    node.gpus.pop("GPU-0", None)
    node.gpus["GPU-9"] = ObservedGpu("GPU-9", 0, "S9", "0000:00:00.0", up=True, uncorrected=0.0, links=18)
    node.observe(60)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-1", "GPU-9"}


def test_fault_outlives_other_cures_than_its_own() -> None:
    node = Node()
    node.change(remap_failed=True)
    node.observe(60)

    node.boot, node.epoch = "boot-2", node.now
    node.observe(120)

    assert node.faults == [("row_remap_failed", "no spare rows")]


def test_links_that_come_back_end_it() -> None:
    node = Node()
    node.change(links=16)
    node.observe(60)
    node.change(links=18)
    node.observe(120)

    assert node.faults == []


def test_links_that_never_were_up_are_no_fault() -> None:
    node = Node()
    node.gpus["GPU-5"] = ObservedGpu("GPU-5", 5, "S5", "0000:05:00.0", up=True, links=0)

    node.observe(3600)

    assert node.faults == []


@pytest.mark.parametrize("strange", [0.0, 1.0, -5.0])
def test_one_strange_reading_of_a_counter_is_no_cure(strange: float) -> None:
    node = Node()
    xid(node, 119)
    node.observe(60)
    node.change(joules=strange)
    node.observe(5)
    node.change(joules=None)

    node.observe(60)

    assert node.faults == [("xid", "XID 119")]


def test_counter_that_falls_to_what_cannot_have_been_counted_since_is_no_cure() -> None:
    node = Node()
    xid(node, 119)
    node.observe(60)
    node.change(joules=WATTS * 86400.0 * 0.5)  # half a day's worth, a minute after the mark

    node.observe(60)

    assert node.faults == [("xid", "XID 119")]


def test_error_that_was_contained_waits_for_the_work() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now})
    node.observe(10)

    (fault,) = node.book.faults
    assert (fault.kind, fault.action) == (FaultKind.ECC, RepairAction.RESET_WHEN_IDLE)


def test_storm_of_contained_errors_waits_though_the_driver_reports_the_first_alone() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now})
    node.observe(10)
    for errors in range(2, 30):
        node.change(uncorrected=float(errors))
        node.observe(30)

    (fault,) = node.book.faults
    assert (fault.kind, fault.action) == (FaultKind.ECC, RepairAction.RESET_WHEN_IDLE)


def test_error_with_an_uncontained_one_beside_it_does_not_wait() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now, 95: node.now})
    node.observe(10)

    assert {fault.action for fault in node.book.faults} == {RepairAction.RESET}


@pytest.mark.parametrize("logged", [True, False])
def test_count_that_was_read_before_a_reset_is_no_error_after_it(*, logged: bool) -> None:
    """ECC is read every 30 seconds, and a counter that goes back is believed after three reads."""
    node = Node()
    node.change(uncorrected=3.0, uncorrected_at=UnixTime(node.now))
    node.observe(60)
    assert node.faults == [("ecc_uncorrectable", "3 uncorrectable errors")]

    read_at = UnixTime(node.now)
    node.now += 10
    node.reset()
    node.change(uncorrected=3.0, uncorrected_at=read_at, reset=UnixTime(node.now if logged else 0.0))
    node.observe(5)
    node.observe(10)
    assert node.faults == []

    node.observe(90)
    assert node.faults == []

    node.change(uncorrected=1.0, uncorrected_at=UnixTime(node.now))
    node.observe(5)
    assert node.faults == [("ecc_uncorrectable", "1 uncorrectable error")]


def test_fault_from_after_a_reset_stands_when_the_counter_of_before_it_ends() -> None:
    node = Node()
    node.change(uncorrected=3.0, uncorrected_at=UnixTime(node.now))
    node.observe(60)
    read_at = UnixTime(node.now)
    node.reset()
    node.change(uncorrected=3.0, uncorrected_at=read_at)
    node.observe(20)
    xid(node, 119)
    node.observe(5)

    node.change(uncorrected=0.0, uncorrected_at=UnixTime(node.now))
    node.observe(60)

    assert node.faults == [("xid", "XID 119")]


@pytest.mark.parametrize(
    ("number", "left"), [(95, ("xid", "XID 95")), (48, ("ecc_uncorrectable", "1 uncorrectable error"))]
)
def test_uncontained_error_does_not_wait_behind_a_contained_one(number: int, left: tuple[str, str]) -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now})
    node.observe(600)
    node.change(xids={94: node.gpus["GPU-0"].xids[94], number: node.now})
    node.observe(10)
    if number == 48:  # its own action is a procedure: the count tells
        node.change(uncorrected=2.0)
        node.observe(10)

    assert node.faults == [left]
    assert {fault.action for fault in node.book.faults} == {RepairAction.RESET}

    node.change(uncorrected=2.0)
    node.observe(10)
    assert [fault.action for fault in node.book.faults] == [RepairAction.RESET]


@pytest.mark.parametrize(
    ("number", "class_", "action"),
    [
        (149, "reset_gpu", RepairAction.RESET),
        (145, "ignore", None),
        (154, "restart_bm", RepairAction.RESTART),
        (154, "reset_when_idle", RepairAction.RESET_WHEN_IDLE),
        (43, "page", RepairAction.PAGE),
        (79, "ignore", None),
        (163, "", RepairAction.PROCEDURE),
        (169, "", None),
        (999, "", None),
    ],
)
def test_class_of_the_report_decides_what_is_latched(number: int, class_: str, action: RepairAction | None) -> None:
    node = Node()
    node.change(xids={number: node.now}, xid_classes={number: class_} if class_ else {})
    node.observe(10)

    assert [(fault.kind, fault.action) for fault in node.book.faults] == ([(FaultKind.XID, action)] if action else [])


def test_xid_ends_the_one_that_it_cancels() -> None:
    node = Node()
    node.change(xids={163: node.now}, xid_classes={163: "workflow"})
    node.observe(10)
    assert node.faults == [("xid", "XID 163")]

    node.change(xids={163: node.now}, xid_classes={163: "ignore"})
    node.observe(10)
    assert node.faults == []


def test_contained_error_of_a_gpu_without_counters_is_a_fault_of_the_board() -> None:
    node = Node()
    node.change(uncorrected=None, xids={94: node.now})
    node.observe(10)

    assert [(fault.evidence, fault.action) for fault in node.book.faults] == [("XID 94", RepairAction.RESET_WHEN_IDLE)]


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 94])
def test_xid_of_a_program_is_no_fault_of_the_gpu(number: int) -> None:
    node = Node()
    xid(node, number)
    node.observe(60)

    assert node.faults == []


def test_same_xid_after_a_reset_is_a_new_fault() -> None:
    node = Node()
    xid(node, 119)
    node.observe(60)
    node.reset()
    node.observe(60)
    xid(node, 119)

    node.observe(60)

    assert node.faults == [("xid", "XID 119")]


def test_book_of_another_machine_is_forgotten() -> None:
    node = Node()
    xid(node, 119)
    node.observe(60)
    node.gpus = {"GPU-x": ObservedGpu("GPU-x", 0, "X", "0000:70:00.0", up=True)}

    node.observe(60)

    assert set(node.book.devices) == {"GPU-x"}
    assert node.faults == []
