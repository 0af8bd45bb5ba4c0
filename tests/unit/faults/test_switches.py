"""A fatal SXID stands until the fabric was reset as a whole: all GPUs together, the node, or somebody says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.collectors.sxid import Sxid, SxidCounts, count_sxid, last_fatal, shift_sxids
from exporter.core.families import Block
from exporter.exposition.page import Renderer
from exporter.faults import state_file
from exporter.faults.families import FAULT_FAMILIES, FaultStatus
from exporter.faults.model import FaultState, SwitchFault
from exporter.faults.state_file import Loaded
from exporter.faults.watch import NAME, FaultTracker, FaultWatchConfig
from tests.unit.faults.node import WEEK, Node

FATAL = ("2", "20034")


def failed() -> Node:
    """A node whose switch reported one a minute ago."""
    node = Node()
    node.sxids = {FATAL: node.now}
    node.observe(60)
    return node


def test_it_stands_for_a_week_with_its_first_time() -> None:
    node = Node()
    first = node.now
    node.sxids = {FATAL: first}
    node.observe(60)
    node.sxids = {FATAL: node.now}

    node.observe(WEEK, step=3600)

    assert node.book.switches == (SwitchFault("2", "20034", first),)
    assert node.book.switches[0].evidence == "NVSwitch 2: SXID 20034"


def test_reset_of_all_gpus_together_ends_it_for_good() -> None:
    node = failed()

    node.reset()
    node.observe(60)

    assert node.book.switches == ()
    node.observe(WEEK, step=3600)
    assert node.book.switches == ()


def test_reset_of_one_gpu_does_not_end_it() -> None:
    node = failed()
    node.change("GPU-0", uncorrected=3.0)
    node.observe(60)

    node.change("GPU-0", uncorrected=0.0)
    node.observe(60)

    assert node.faults == []
    assert len(node.book.switches) == 1


def test_resets_of_single_gpus_hours_apart_are_no_reset_of_the_fabric() -> None:
    node = failed()
    for uuid in ("GPU-0", "GPU-1"):
        node.change(uuid, uncorrected=3.0)
        node.observe(3600)
        node.change(uuid, uncorrected=0.0)
        node.observe(3600)

    assert len(node.book.switches) == 1


def test_gpu_that_is_away_since_then_proves_nothing() -> None:
    node = failed()
    node.change("GPU-1", up=False)
    node.observe(60)

    node.reset()
    node.observe(60)

    assert len(node.book.switches) == 1


def test_restart_of_the_node_ends_it() -> None:
    node = failed()

    node.boot, node.epoch = "boot-2", node.now
    node.sxids = {}
    node.observe(60)

    assert node.book.switches == ()


def test_one_after_the_cure_is_another() -> None:
    node = failed()
    node.reset()
    node.observe(60)

    node.sxids = {FATAL: node.now}
    node.observe(60)

    assert [fault.since for fault in node.book.switches] == [node.sxids[FATAL]]


def test_acknowledgement_of_switches_ends_it_and_that_of_a_gpu_does_not() -> None:
    node = failed()
    node.say("0")
    node.observe(60)
    assert len(node.book.switches) == 1

    node.say("", "nvswitch")
    node.observe(60)

    assert node.book.switches == ()


def test_it_is_found_while_there_is_no_driver() -> None:
    node = Node(driver=False)
    node.sxids = {FATAL: node.now}

    node.observe(60)

    assert len(node.book.switches) == 1


def test_clock_that_is_set_back_after_a_cure_hides_no_other() -> None:
    node = failed()
    node.say("", "nvswitch")
    node.observe(60)
    node.now -= 7200
    node.sxids = {FATAL: node.now}  # as the log of them says then
    node.observe(60)

    node.sxids = {("1", "11"): node.now}
    node.observe(60)

    assert [fault.switch for fault in node.book.switches] == ["1"]


def test_exporter_that_is_started_again_knows_it_and_its_cure(tmp_path: Path) -> None:
    fault = SwitchFault("2", "20034", 1000.0)
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    watch.observe(1005.0, 5.0, (), (), driver=False, sxids={FATAL: 1000.0})
    watch._saver.save_once()  # type: ignore[union-attr]

    again = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))
    again.observe(1010.0, 10.0, (), (), driver=False)

    assert again.status.switches == (fault,)
    assert state_file.read_state(tmp_path / NAME).state.switches == (fault,)


def test_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        '{"version":1,"boot":"b","acknowledged_until":0,"accepted":[],"devices":{},"faults":[]}'
    )

    assert state_file.read_state(tmp_path / NAME) == Loaded(FaultState("b"))


def test_it_is_shown_as_a_fault_of_no_gpu() -> None:
    status = FaultStatus(switches=(SwitchFault("2", "20034", 1000.0),))

    page = Renderer().render((Block(family, (), status) for family in FAULT_FAMILIES), "")[1].decode()

    labels = 'action="reset",evidence="NVSwitch 2: SXID 20034",fault="nvswitch",gpu="",uuid=""'
    assert f"gpu_fault_timestamp_seconds{{{labels}}} 1000.0\n" in page


@pytest.mark.parametrize(("kind", "found"), [("fatal", {FATAL: 9.0}), ("non_fatal", {})])
def test_fatal_ones_count_once_whatever_their_link(kind: str, found: object) -> None:
    sxids = SxidCounts()
    for link, time in (("30", 5.0), ("31", 9.0), ("30", 7.0)):
        sxids = count_sxid(sxids, Sxid("2", "0000:c1:00.0", "20034", kind, link), time)

    assert last_fatal(sxids) == found


def test_times_move_with_a_clock_that_is_set() -> None:
    kind = Sxid("2", "0000:c1:00.0", "20034", "fatal", "")

    assert shift_sxids(count_sxid(SxidCounts(), kind, 9.0), -4.0) == SxidCounts({kind: (1, 5.0)})
