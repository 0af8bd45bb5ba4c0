"""What the fault book says was cleared, by how the fault ended."""

from __future__ import annotations

from exporter.faults.families import Cleared, cleared
from exporter.faults.model import FaultKind
from tests.unit.faults.node import Node, gone, xid


def published(node: Node) -> set[Cleared]:
    return set(cleared(node.book, node.said))


def test_cleared_of_standing_fault_is_empty() -> None:
    node = Node()
    xid(node, 119)
    node.look(60)

    assert published(node) == set()


def test_cleared_after_proven_reset_has_its_time() -> None:
    node = Node()
    xid(node, 119)
    node.look(60)
    node.reset()
    node.look(10)

    assert published(node) == {Cleared(str(gpu), f"GPU-{gpu}", FaultKind.XID, node.now) for gpu in range(2)}


def test_cleared_after_acknowledgement_has_its_time_until_the_gpu_answers_again() -> None:
    node = Node()
    lost = node.gpus["GPU-0"]
    gone(node)
    node.look(60)
    node.say("0")
    acknowledged = node.now
    node.look(60)
    assert Cleared("0", "GPU-0", FaultKind.LOST, acknowledged) in published(node)

    node.gpus["GPU-0"] = lost
    node.look(60)

    assert FaultKind.LOST not in {each.kind for each in published(node)}


def test_acknowledged_lost_gpu_that_stays_among_the_observed_is_no_fault_again() -> None:
    node = Node()
    node.change(up=False, failure="not shown by the driver")
    node.look(60)
    node.say("0")
    node.look(3600)

    assert node.faults == []


def test_cleared_levels_are_those_accepted_while_they_stand() -> None:
    node = Node()
    node.change(remap_failed=True, links=16)
    node.look(60)
    node.say("GPU-0")
    node.look(60)
    assert {each.kind for each in published(node)} == {FaultKind.REMAP, FaultKind.NVLINK, FaultKind.XID}

    node.change(remap_failed=False)
    node.look(60)

    assert FaultKind.REMAP not in {each.kind for each in published(node)}


def test_cleared_switches_are_of_the_node() -> None:
    node = Node()
    node.sxids = {("1", "20034"): node.now}
    node.look(60)
    node.say("", "nvswitch")
    acknowledged = node.now
    node.look(60)

    assert published(node) == {Cleared("", "", FaultKind.NVSWITCH, acknowledged)}
