"""GPUs that do not answer, are not shown or give no handle: lost after a while, back after a while."""

from __future__ import annotations

from exporter.faults.model import FaultKind
from tests.unit.faults.node import Node, gone, xid


def test_lost_gpu_ends_when_it_has_answered_for_a_while() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(60)
    node.change(up=True, failure="")
    node.observe(30)
    assert node.faults == [("lost", "GPU_IS_LOST")]

    node.observe(60)

    assert node.faults == []


def test_gpu_that_is_lost_and_back_every_21_seconds_is_one_fault() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(40)
    times = set()
    for turn in range(20):
        node.change(up=bool(turn % 2), failure="" if turn % 2 else "GPU_IS_LOST")
        node.observe(20)
        times |= {fault.since for fault in node.book.faults}

    assert node.faults == [("lost", "GPU_IS_LOST")]
    assert len(times) == 1


def test_gpu_that_nobody_could_ask_is_not_lost() -> None:
    node = Node()
    node.change(up=None)
    node.observe(3600)

    assert node.faults == []


def test_lost_gpu_stays_lost_while_nobody_can_ask_it() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(60)
    node.change(up=None, failure="")
    node.observe(3600)

    assert node.faults == [("lost", "GPU_IS_LOST")]


def test_reset_of_a_few_seconds_loses_no_gpu() -> None:
    node = Node()
    gone(node)
    node.observe(10)

    assert node.faults == []


def test_nothing_is_lost_while_the_driver_is_away() -> None:
    node = Node()
    node.driver, node.gpus = False, {}

    node.observe(3600)

    assert node.faults == []


def test_gpu_without_a_handle_from_the_start_is_lost() -> None:
    node = Node()
    node.refused = ((7, "GPU_IS_LOST"),)
    node.observe(10)
    assert node.faults == []
    node.observe(5)

    (fault,) = node.book.faults
    assert (fault.uuid, fault.index, fault.kind, fault.evidence) == ("", 7, FaultKind.LOST, "GPU_IS_LOST")

    node.refused = ()
    node.observe(5)

    assert node.faults == []


def test_known_gpu_without_a_handle_is_told_by_its_uuid() -> None:
    node = Node()
    gone(node)
    node.refused = ((0, "GPU_IS_LOST"),)
    node.observe(60)

    (fault,) = node.book.faults
    assert (fault.uuid, fault.evidence) == ("GPU-0", "GPU_IS_LOST")


def test_known_gpu_that_is_refused_and_still_observed_is_one_fault() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.refused = ((0, "GPU_IS_LOST"),)
    node.observe(60)

    assert [(fault.uuid, fault.kind) for fault in node.book.faults] == [("GPU-0", FaultKind.LOST)]


def test_gpu_that_falls_off_the_bus_is_one_fault_from_the_first_moment() -> None:
    node = Node()
    xid(node, 79)
    node.change(up=False, failure="GPU_IS_LOST")
    since = node.now
    for _ in range(12):
        node.observe(5)
        assert [(fault.kind, fault.evidence, fault.since) for fault in node.book.faults] == [
            (FaultKind.LOST, "XID 79", since)
        ]


def test_lost_gpu_whose_xid_comes_late_is_one_fault() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(60)
    xid(node, 79)
    node.observe(60)

    assert node.faults == [("lost", "XID 79")]


def test_gpu_with_xid_79_that_answers_again_stays_lost_until_a_reset_is_proven() -> None:
    node = Node()
    xid(node, 79)
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(60)
    node.change(up=True, failure="")
    node.observe(600)
    assert node.faults == [("lost", "XID 79")]

    node.reset()
    node.observe(10)

    assert node.faults == []
