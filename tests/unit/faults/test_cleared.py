"""What is published of acknowledged faults."""

from __future__ import annotations

from exporter.faults.families import acknowledged_faults
from tests.unit.faults.node import Node, gone


def test_acknowledged_faults_hold_a_lost_gpu_until_it_answers_again() -> None:
    node = Node()
    lost = node.gpus["GPU-0"]
    gone(node)
    node.observe(60)
    node.say("0")
    node.observe(60)
    assert acknowledged_faults(node.book) == (("0", "GPU-0", "lost"),)

    node.gpus["GPU-0"] = lost
    node.observe(60)

    assert acknowledged_faults(node.book) == ()


def test_acknowledged_faults_hold_a_gpu_without_a_handle_by_its_index() -> None:
    node = Node()
    node.refused = ((7, "GPU_IS_LOST"),)
    node.observe(60)
    node.say("7")
    node.observe(60)

    assert acknowledged_faults(node.book) == (("7", "", "lost"),)


def test_acknowledged_lost_gpu_that_stays_among_the_observed_is_no_fault_again() -> None:
    node = Node()
    node.change(up=False, failure="not shown by the driver")
    node.observe(60)
    node.say("0")
    node.observe(3600)

    assert node.faults == []


def test_acknowledged_faults_hold_a_level_while_it_stands() -> None:
    node = Node()
    node.change(remap_failed=True, links=16)
    node.observe(60)
    node.say("GPU-0")
    node.observe(60)
    assert acknowledged_faults(node.book) == (("0", "GPU-0", "row_remap_failed"),)

    node.change(remap_failed=False)
    node.observe(60)

    assert acknowledged_faults(node.book) == ()
