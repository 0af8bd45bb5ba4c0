"""A fault stays until its cure is proven, whatever the clock says; and ends when it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from exporter.faults.latch import advance
from exporter.faults.model import Acknowledgement, Action, Book, Kind, Look, Seen

WEEK = 7 * 86400.0
WATTS = 400.0


@dataclass(slots=True)
class Node:
    """A node that is looked at every five seconds, or after a jump."""

    book: Book = field(default_factory=Book)
    now: float = 1_000_000.0
    boot: str = "boot-1"
    driver: bool = True
    gpus: dict[str, Seen] = field(default_factory=dict[str, Seen])
    refused: tuple[tuple[int, str], ...] = ()
    said: tuple[Acknowledgement, ...] = ()
    epoch: float = 1_000_000.0 - 86400.0
    """When the driver's counters began."""

    def __post_init__(self) -> None:
        for index in range(2):
            uuid = f"GPU-{index}"
            self.gpus[uuid] = Seen(uuid, index, f"S{index}", f"0000:0{index}:00.0", up=True, uncorrected=0.0, links=18)
        self.look(5)

    def change(self, uuid: str = "GPU-0", **fields: object) -> None:
        self.gpus[uuid] = replace(self.gpus[uuid], **fields)  # type: ignore[arg-type]

    def look(self, seconds: float = 60.0, *, step: float = 5.0) -> None:
        """Look again and again for so long."""
        for _ in range(max(1, int(seconds / step))):
            self.now += step
            joules = WATTS * (self.now - self.epoch)
            gpus = tuple(
                replace(seen, joules=joules if seen.joules is None else seen.joules) for seen in self.gpus.values()
            )
            self.book = advance(self.book, Look(self.now, self.boot, self.driver, gpus, self.refused, self.said))

    def reset(self, uuid: str = "GPU-0") -> None:
        self.epoch = self.now
        self.change(uuid, uncorrected=0.0)

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(fault.kind.value, fault.evidence) for fault in self.book.faults]

    def say(self, gpu: str, kind: str = "") -> None:
        self.said = (*self.said, Acknowledgement(gpu, kind, "ada", "mended", self.now))


def xid(node: Node, number: int) -> None:
    node.change(xids={number: node.now})


def gone(node: Node) -> None:
    del node.gpus["GPU-0"]


FAULTS: dict[str, tuple[Callable[[Node], None], tuple[str, str]]] = {
    "XID 119 once": (lambda n: xid(n, 119), ("xid", "XID 119")),
    "XID 79": (lambda n: xid(n, 79), ("xid", "XID 79")),
    "an uncorrectable error": (lambda n: n.change(uncorrected=1.0), ("ecc_uncorrectable", "1 uncorrectable error(s)")),
    "all links": (lambda n: n.change(links=0), ("nvlink_down", "18 of 18 links down")),
    "two links": (lambda n: n.change(links=16), ("nvlink_down", "2 of 18 links down")),
    "gone from the driver": (gone, ("lost", "not shown by the driver")),
    "does not answer": (lambda n: n.change(up=False, failure="GPU_IS_LOST"), ("lost", "GPU_IS_LOST")),
    "no spare rows": (lambda n: n.change(remap_failed=True), ("row_remap_failed", "no spare rows")),
    "too many SRAM errors": (lambda n: n.change(sram_exceeded=True), ("ecc_sram_threshold", "over NVIDIA's threshold")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_stays_for_a_week_with_its_first_time(name: str) -> None:
    node, (plant, fault) = Node(), FAULTS[name]
    plant(node)
    node.look(60)
    since = node.book.faults[0].since

    node.look(WEEK, step=3600)

    assert node.faults == [fault]
    assert node.book.faults[0].since == since


@pytest.mark.parametrize("name", ["XID 119 once", "XID 79", "an uncorrectable error"])
def test_reset_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.look(3600)

    node.reset()
    node.look(60)

    assert node.faults == []


@pytest.mark.parametrize("name", ["XID 119 once", "XID 79", "an uncorrectable error"])
def test_restart_of_the_node_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.look(3600)

    node.boot = "boot-2"
    node.change(uncorrected=0.0, xids={})
    node.epoch = node.now
    node.look(60)

    assert node.faults == []


@pytest.mark.parametrize("name", FAULTS)
def test_acknowledgement_ends_it_and_it_does_not_come_back_on_the_same_evidence(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.look(3600)

    node.say("0")
    node.look(3600)

    still = [("lost", "GPU_IS_LOST")] if name == "does not answer" else []
    assert node.faults == still  # the driver shows it, so it is still expected


def test_acknowledgement_ends_the_xid_of_a_gpu_that_was_lost_too() -> None:
    node = Node()
    xid(node, 79)
    node.change(up=False, failure="GPU_IS_LOST")
    node.look(60)
    node.change(up=True, failure="")
    node.look(10)  # back, and not yet for long enough to end by itself

    node.say("0")
    node.look(3600)

    assert node.faults == []


def test_gpu_that_is_not_expected_any_more_is_expected_when_it_comes_back() -> None:
    node = Node()
    xid(node, 79)
    lost = node.gpus["GPU-0"]
    gone(node)
    node.look(60)
    node.say("0")
    node.look(60)
    assert [known.expected for known in node.book.devices.values()] == [False, True]

    node.gpus["GPU-0"] = lost
    node.look(60)
    assert node.faults == []  # its XID was acknowledged with it
    gone(node)
    node.look(60)

    assert node.faults == [("lost", "not shown by the driver")]


def test_acknowledgement_of_one_fault_leaves_the_others() -> None:
    node = Node()
    xid(node, 119)
    node.change(links=17)
    node.look(60)

    node.say("GPU-0", "nvlink_down")
    node.look(60)

    assert node.faults == [("xid", "XID 119")]


@pytest.mark.parametrize("name", FAULTS)
def test_new_card_at_its_place_ends_it(name: str) -> None:
    node = Node()
    FAULTS[name][0](node)
    node.look(3600)

    node.gpus.pop("GPU-0", None)
    node.gpus["GPU-9"] = Seen("GPU-9", 0, "S9", "0000:00:00.0", up=True, uncorrected=0.0, links=18)
    node.look(60)

    assert node.faults == []
    assert set(node.book.devices) == {"GPU-1", "GPU-9"}


def test_fault_outlives_other_cures_than_its_own() -> None:
    node = Node()
    node.change(remap_failed=True)
    node.look(60)

    node.boot, node.epoch = "boot-2", node.now
    node.look(120)

    assert node.faults == [("row_remap_failed", "no spare rows")]


def test_lost_gpu_ends_when_it_has_answered_for_a_while() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.look(60)
    node.change(up=True, failure="")
    node.look(30)
    assert node.faults == [("lost", "GPU_IS_LOST")]

    node.look(60)

    assert node.faults == []


def test_gpu_that_is_lost_and_back_every_21_seconds_is_one_fault() -> None:
    node = Node()
    node.change(up=False, failure="GPU_IS_LOST")
    node.look(40)
    times = set()
    for turn in range(20):
        node.change(up=bool(turn % 2), failure="" if turn % 2 else "GPU_IS_LOST")
        node.look(20)
        times |= {fault.since for fault in node.book.faults}

    assert node.faults == [("lost", "GPU_IS_LOST")]
    assert len(times) == 1


def test_reset_of_a_few_seconds_loses_no_gpu() -> None:
    node = Node()
    gone(node)
    node.look(10)

    assert node.faults == []


def test_links_that_come_back_end_it() -> None:
    node = Node()
    node.change(links=16)
    node.look(60)
    node.change(links=18)
    node.look(120)

    assert node.faults == []


def test_links_that_never_were_up_are_no_fault() -> None:
    node = Node()
    node.gpus["GPU-5"] = Seen("GPU-5", 5, "S5", "0000:05:00.0", up=True, links=0)

    node.look(3600)

    assert node.faults == []


@pytest.mark.parametrize("strange", [0.0, 1.0, -5.0])
def test_one_strange_reading_of_a_counter_is_no_cure(strange: float) -> None:
    node = Node()
    xid(node, 119)
    node.look(60)
    node.change(joules=strange)
    node.look(5)
    node.change(joules=None)

    node.look(60)

    assert node.faults == [("xid", "XID 119")]


def test_counter_that_falls_to_what_cannot_have_been_counted_since_is_no_cure() -> None:
    node = Node()
    xid(node, 119)
    node.look(60)
    node.change(joules=WATTS * 86400.0 * 0.5)  # half a day's worth, a minute after the mark

    node.look(60)

    assert node.faults == [("xid", "XID 119")]


def test_error_that_was_contained_waits_for_the_work() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now})
    node.look(10)

    (fault,) = node.book.faults
    assert (fault.kind, fault.action) == (Kind.ECC, Action.RESET_WHEN_IDLE)


def test_error_with_an_uncontained_one_beside_it_does_not_wait() -> None:
    node = Node()
    node.change(uncorrected=1.0, xids={94: node.now, 95: node.now})
    node.look(10)

    assert {fault.action for fault in node.book.faults} == {Action.RESET}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 94])
def test_xid_of_a_program_is_no_fault_of_the_gpu(number: int) -> None:
    node = Node()
    xid(node, number)
    node.look(60)

    assert node.faults == []


def test_same_xid_after_a_reset_is_a_new_fault() -> None:
    node = Node()
    xid(node, 119)
    node.look(60)
    node.reset()
    node.look(60)
    xid(node, 119)

    node.look(60)

    assert node.faults == [("xid", "XID 119")]


def test_nothing_is_lost_while_the_driver_is_away() -> None:
    node = Node()
    node.driver, node.gpus = False, {}

    node.look(3600)

    assert node.faults == []


def test_gpu_without_a_handle_from_the_start_is_lost() -> None:
    node = Node()
    node.refused = ((7, "GPU_IS_LOST"),)
    node.look(5)

    (fault,) = node.book.faults
    assert (fault.uuid, fault.index, fault.kind, fault.evidence) == ("", 7, Kind.LOST, "GPU_IS_LOST")

    node.refused = ()
    node.look(5)

    assert node.faults == []


def test_known_gpu_without_a_handle_is_told_by_its_uuid() -> None:
    node = Node()
    gone(node)
    node.refused = ((0, "GPU_IS_LOST"),)
    node.look(60)

    (fault,) = node.book.faults
    assert (fault.uuid, fault.evidence) == ("GPU-0", "GPU_IS_LOST")


def test_book_of_another_machine_is_forgotten() -> None:
    node = Node()
    xid(node, 119)
    node.look(60)
    node.gpus = {"GPU-x": Seen("GPU-x", 0, "X", "0000:70:00.0", up=True)}

    node.look(60)

    assert set(node.book.devices) == {"GPU-x"}
    assert node.faults == []


def evidence(node: Node) -> Iterable[str]:
    return [fault.evidence for fault in node.book.faults]


def test_accepted_fault_that_went_away_counts_when_it_comes_again() -> None:
    node = Node()
    node.change(remap_failed=True)
    node.look(60)
    node.say("0")
    node.look(60)
    assert list(evidence(node)) == []
    node.change(remap_failed=False)
    node.look(60)
    node.change(remap_failed=True)

    node.look(60)

    assert list(evidence(node)) == ["no spare rows"]
