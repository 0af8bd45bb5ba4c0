"""As designed is not degraded: links are judged by the best their GPU ever showed, else by its neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.faults.config import reference
from exporter.faults.model import FaultState, GpuRecord
from exporter.faults.reference import stated_levels
from exporter.faults.rule import Limits
from tests.unit.faults.node import Node


def eight(levels: dict[str, int] | None = None, **first: object) -> Node:
    """A new node of eight H100, of which GPU 0 shows something else."""
    node = Node(levels=levels or {})
    model = replace(node.gpus["GPU-0"], model="H100", links=18, width=16, generation=5, loaded=True)
    node.gpus = {
        f"GPU-{index}": replace(model, uuid=f"GPU-{index}", index=index, serial=f"S{index}", bus=f"0000:0{index}:00.0")
        for index in range(8)
    }
    node.change(**first)
    node.book = FaultState()
    node.observe(60)
    return node


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        ({"links": 12}, ("nvlink_down", "6 of 18 links down")),
        ({"width": 8}, ("pcie_width", "8 of 16 PCIe lanes")),
        ({"generation": 2}, ("pcie_generation", "PCIe generation 2 of 5 under load")),
    ],
)
def test_gpu_below_its_neighbours_from_the_start_is_degraded(first: dict[str, int], fault: tuple[str, str]) -> None:
    node = eight(**first)

    assert node.faults == [fault]
    assert {each.uuid for each in node.book.faults} == {"GPU-0"}


@pytest.mark.parametrize(
    ("levels", "first", "faults"),
    [
        ({"links": 12}, {"links": 12}, []),
        ({"links": 18}, {"links": 12}, [("nvlink_down", "6 of 18 links down")]),
        ({"width": 8}, {"width": 8}, []),
        ({"width": 32}, {}, [("pcie_width", "16 of 32 PCIe lanes")] * 8),
    ],
)
def test_statement_of_the_operator_wins_over_the_neighbours(
    levels: dict[str, int], first: dict[str, int], faults: list[tuple[str, str]]
) -> None:
    assert eight(levels, **first).faults == faults


def test_links_and_lanes_of_the_reference_are_what_the_operator_states() -> None:
    stated = stated_levels(Limits(reference=reference("ecc=on,nvlinks=18,pcie-width=16")))

    assert stated == {"links": 18, "width": 16}


def test_statement_that_is_corrected_leaves_no_fault() -> None:
    node = eight({"width": 32})
    assert len(node.faults) == 8

    node.levels = {"width": 16}
    node.observe(60)

    assert node.faults == []


def test_statement_counts_for_a_gpu_that_never_showed_as_much() -> None:
    node = eight()
    node.levels = {"links": 20}
    node.observe(15)

    assert node.faults == [("nvlink_down", "2 of 20 links down")] * 8


def test_history_of_a_gpu_wins_over_a_lesser_statement() -> None:
    node = eight()
    node.levels = {"links": 12}
    node.change(links=12)
    node.observe(15)

    assert node.faults == [("nvlink_down", "6 of 18 links down")]


@pytest.mark.parametrize("first", [{"links": 0}, {"generation": 1, "loaded": False}, {"width": None}])
def test_gpu_without_a_bridge_or_a_load_or_a_reading_is_not_judged(first: dict[str, object]) -> None:
    assert eight(**first).faults == []


@pytest.mark.parametrize("field", ["links", "width", "generation"])
def test_all_alike_since_ever_is_as_designed(field: str) -> None:
    node = eight()
    for uuid in node.gpus:
        node.change(uuid, **{field: 4})
    node.book = FaultState()
    node.observe(3600)

    assert node.faults == []


@pytest.mark.parametrize(
    ("change", "fault", "back"),
    [
        ({"links": 16}, ("nvlink_down", "2 of 18 links down"), {"links": 18}),
        ({"width": 8}, ("pcie_width", "8 of 16 PCIe lanes"), {"width": 16}),
        ({"generation": 2}, ("pcie_generation", "PCIe generation 2 of 5 under load"), {"generation": 5}),
    ],
)
def test_drop_of_all_gpus_is_found_and_ends_with_the_best(
    change: dict[str, int], fault: tuple[str, str], back: dict[str, int]
) -> None:
    node = eight()
    for uuid in node.gpus:
        node.change(uuid, **change)
    node.observe(15)
    assert node.faults == [fault] * 8

    for uuid in node.gpus:
        node.change(uuid, **back)
    node.observe(45)

    assert node.faults == []


def test_low_generation_of_a_moment_or_at_rest_is_nothing() -> None:
    node = eight()
    node.change(generation=1)
    node.observe(10)
    node.change(loaded=False)
    node.observe(3600)

    assert node.faults == []


def test_acknowledged_links_are_the_best_from_now_on() -> None:
    node = eight()
    node.change(width=8)
    node.observe(60)
    node.say("0", "pcie_width")
    node.observe(60)
    assert node.faults == []

    node.change(width=4)
    node.observe(60)

    assert node.faults == [("pcie_width", "4 of 8 PCIe lanes")]


def test_best_of_an_earlier_version_begins_with_the_neighbours() -> None:
    node = eight(width=8)
    node.book = FaultState(devices={uuid: GpuRecord(seen.index, links=18) for uuid, seen in node.gpus.items()})

    node.observe(60)

    assert node.faults == [("pcie_width", "8 of 16 PCIe lanes")]


def test_generation_that_is_back_in_short_bursts_of_load_ends_the_fault() -> None:
    """An idle GPU lowers its generation: that says nothing of the link."""
    node = Node()
    node.change(generation=5, loaded=True)
    node.observe(20)
    node.change(generation=2)
    node.observe(20)
    assert node.faults == [("pcie_generation", "PCIe generation 2 of 5 under load")]

    for generation, loaded in ((5, True), (1, False), (2, True), (5, True), (1, False)):
        node.change(generation=generation, loaded=loaded)
        node.observe(10)
    node.observe(30)
    assert node.faults != []

    node.change(generation=5, loaded=True)
    node.observe(10)
    assert node.faults == []


def test_evidence_of_links_names_the_most_that_were_down() -> None:
    node = Node()
    node.change(links=16, width=16)
    node.observe(15)
    since = node.book.faults[0].since

    node.change(links=12)
    node.observe(60)
    assert node.faults == [("nvlink_down", "6 of 18 links down")]
    node.change(links=17, width=8)
    node.observe(15)
    assert node.faults == [("nvlink_down", "6 of 18 links down"), ("pcie_width", "8 of 16 PCIe lanes")]
    node.change(links=15, width=4)
    node.observe(15)

    assert node.faults == [("nvlink_down", "6 of 18 links down"), ("pcie_width", "4 of 16 PCIe lanes")]
    assert node.book.faults[0].since == since
