"""Somebody says that a fault is mended: it ends, and does not come back on the same evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.unit.faults.node import FAULTS, Node, gone, xid


@pytest.mark.parametrize("name", FAULTS)
def test_acknowledgement_ends_it_and_it_does_not_come_back_on_the_same_evidence(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.observe(3600)

    node.say("0")
    node.observe(3600)

    assert node.faults == []


def test_acknowledgement_ends_the_xid_of_a_gpu_that_was_lost_too() -> None:
    node = Node()
    xid(node, 79)
    node.change(up=False, failure="GPU_IS_LOST")
    node.observe(60)
    node.change(up=True, failure="")
    node.observe(10)  # back, and not yet for long enough to end by itself

    node.say("0")
    node.observe(3600)

    assert node.faults == []


@pytest.mark.parametrize("index", [0, 7])
def test_gpu_without_a_handle_is_lost_no_more_until_it_gives_one_and_loses_it_again(index: int) -> None:
    """One that the node has known, or one of which nothing but its index was ever seen."""
    node = Node()
    known = node.gpus["GPU-0"]
    if index == 0:
        gone(node)
    node.refused = ((index, "GPU_IS_LOST"),)
    node.observe(60)
    assert node.faults == [("lost", "GPU_IS_LOST")]

    node.say(str(index))
    node.observe(3600)
    assert node.faults == []

    node.gpus["GPU-0"], node.refused = known, ()
    node.observe(60)
    node.gpus.pop("GPU-0" if index == 0 else "", None)
    node.refused = ((index, "GPU_IS_LOST"),)
    node.observe(60)
    assert node.faults == [("lost", "GPU_IS_LOST")]


def test_gpu_that_is_not_expected_any_more_is_expected_when_it_comes_back() -> None:
    node = Node()
    xid(node, 79)
    lost = node.gpus["GPU-0"]
    gone(node)
    node.observe(60)
    node.say("0")
    node.observe(60)
    assert [known.expected for known in node.book.devices.values()] == [False, True]

    node.gpus["GPU-0"] = lost
    node.observe(60)
    assert node.faults == []  # its XID was acknowledged with it
    gone(node)
    node.observe(60)

    assert node.faults == [("lost", "not shown by the driver")]


def test_acknowledgement_of_one_fault_leaves_the_others() -> None:
    node = Node()
    xid(node, 119)
    node.change(links=17)
    node.observe(60)

    node.say("GPU-0", "nvlink_down")
    node.observe(60)

    assert node.faults == [("xid", "XID 119")]


def evidence(node: Node) -> Iterable[str]:
    return [fault.evidence for fault in node.book.faults]


def test_accepted_fault_that_went_away_counts_when_it_comes_again() -> None:
    node = Node()
    node.change(remap_failed=True)
    node.observe(60)
    node.say("0")
    node.observe(60)
    assert list(evidence(node)) == []
    node.change(remap_failed=False)
    node.observe(60)
    node.change(remap_failed=True)

    node.observe(60)

    assert list(evidence(node)) == ["no spare rows"]


_LATER: dict[str, tuple[Callable[[Node], None], tuple[str, str]]] = {
    "an uncorrectable error": FAULTS["an uncorrectable error"],
    "XID 95": (lambda node: xid(node, 95), ("xid", "XID 95")),
}


@pytest.mark.parametrize("accepted", ["no spare rows", "too many SRAM errors"])
@pytest.mark.parametrize("later", _LATER)
def test_accepted_fault_of_memory_explains_no_later_one(accepted: str, later: str) -> None:
    """A GPU without spare rows that the site keeps still loses the results of what runs at its next error."""
    node, (plant, fault) = Node(), _LATER[later]
    FAULTS[accepted][0](node)
    node.observe(60)
    node.say("0")
    node.observe(60)

    plant(node)
    node.observe(60)

    assert node.faults == [fault]
    node.reset()
    node.observe(60)
    assert node.faults == []
