"""One look after the other: exactly what is kept of a GPU, and exactly which faults stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.faults.latch import advance_faults
from exporter.faults.model import (
    Acknowledgement,
    Fault,
    FaultKind,
    FaultState,
    GpuRecord,
    Observation,
    ObservedGpu,
    RepairAction,
)

NOW = 1_000_000.0
KNOWN = GpuRecord(0, "S", "0000:00:00.0", links=18, joules=5e6, uncorrected=3.0, baseline_time=NOW - 5)
SEEN = ObservedGpu("GPU-0", 0, "S", "0000:00:00.0", up=True, joules=5.1e6, uncorrected=3.0, links=18)
MARKED = replace(KNOWN, joules=5.1e6, baseline_time=NOW)
"""What is kept after a look that found nothing new."""
XID = Fault("GPU-0", 0, FaultKind.XID, "XID 119", RepairAction.RESET, NOW - 100)
ECC = Fault("GPU-0", 0, FaultKind.ECC, "1 uncorrectable error", RepairAction.RESET, NOW - 100)
LINK = Fault("GPU-0", 0, FaultKind.NVLINK, "1 of 18 links down", RepairAction.INSPECT, NOW - 100)
REMAP = Fault("GPU-0", 0, FaultKind.REMAP, "no spare rows", RepairAction.REPLACE, NOW - 100)
SRAM = Fault("GPU-0", 0, FaultKind.SRAM, "over NVIDIA's threshold", RepairAction.REPLACE, NOW - 100)
LOST = Fault("GPU-0", 0, FaultKind.LOST, "GPU_IS_LOST", RepairAction.RESTART, NOW - 100)


def observe(known: GpuRecord, *faults: Fault, boot: str = "b", **changed: Any) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """What is kept of the GPU, and its faults, after one look that found it as SEEN but for what `changed` says."""
    before = FaultState("b", {"GPU-0": known}, faults)
    after = advance_faults(before, Observation(NOW, boot, driver=True, gpus=(replace(SEEN, **changed),)))
    return after.devices["GPU-0"], after.faults


def test_first_look_marks_what_it_finds() -> None:
    after = advance_faults(FaultState(), Observation(NOW, "b", driver=True, gpus=(SEEN,)))

    assert after.boot == "b"
    assert after.devices == {"GPU-0": MARKED}
    assert after.faults == (Fault("GPU-0", 0, FaultKind.ECC, "3 uncorrectable errors", RepairAction.RESET, NOW),)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, {}),
        ({"joules": None}, {"joules": 5e6}),
        ({"uncorrected": None}, {}),
        ({"links": 20}, {"links": 20}),
        ({"links": None}, {}),
        ({"serial": ""}, {}),
        ({"serial": "T"}, {"serial": "T"}),
        ({"bus": ""}, {}),
        ({"index": 4}, {"index": 4}),
    ],
)
def test_marks_follow_what_is_seen_and_stay_where_nothing_is(changed: dict[str, Any], kept: dict[str, Any]) -> None:
    assert observe(KNOWN, **changed) == (replace(MARKED, **kept), ())


@pytest.mark.parametrize(
    ("joules", "began_anew"),
    [(4e6, False), (10_000.1, False), (10_000.0, True), (0.0, True), (-1.0, False), (5e6, False)],
)
def test_energy_that_may_have_been_counted_since_the_mark_began_anew(joules: float, began_anew: bool) -> None:  # noqa: FBT001
    known, faults = observe(KNOWN, XID, joules=joules)

    assert known == (replace(KNOWN, reset_observations=1) if began_anew else replace(MARKED, joules=joules))
    assert faults == (XID,)


@pytest.mark.parametrize(("joules", "low"), [(2000.0, 1), (2000.1, 0)])
def test_two_looks_at_one_moment_are_a_second_apart(joules: float, low: int) -> None:
    assert observe(replace(KNOWN, baseline_time=NOW), joules=joules)[0].reset_observations == low


def test_counters_that_are_low_once_are_forgotten() -> None:
    assert observe(replace(KNOWN, reset_observations=1), XID) == (MARKED, (XID,))


def test_second_look_at_low_counters_is_a_cure_of_what_a_reset_mends() -> None:
    known, faults = observe(
        replace(KNOWN, reset_observations=1), XID, ECC, LINK, REMAP, joules=100.0, uncorrected=0.0, links=17
    )

    assert known == replace(KNOWN, joules=100.0, uncorrected=0.0, baseline_time=NOW, last_reset=NOW)
    assert faults == (LINK, REMAP)


def test_errors_after_a_cure_are_counted_from_zero() -> None:
    known, faults = observe(replace(KNOWN, reset_observations=1), ECC, joules=None, uncorrected=1.0)

    assert known == replace(KNOWN, joules=None, uncorrected=1.0, baseline_time=NOW, last_reset=NOW)
    assert faults == (replace(ECC, since=NOW),)


def test_errors_while_the_counters_are_low_wait_for_the_next_look() -> None:
    assert observe(KNOWN, joules=100.0, uncorrected=4.0) == (replace(KNOWN, reset_observations=1), ())


@pytest.mark.parametrize(
    ("xids", "contained"),
    [
        ({}, False),
        ({94: NOW - 120}, True),
        ({94: NOW - 121}, False),
        ({94: NOW, 48: NOW - 120}, False),
        ({94: NOW, 48: NOW - 121}, True),
    ],
)
def test_errors_are_those_since_the_mark_and_contained_where_an_xid_of_then_says_so(
    xids: dict[int, float],
    contained: bool,  # noqa: FBT001
) -> None:
    action = RepairAction.RESET_WHEN_IDLE if contained else RepairAction.RESET
    evidence = "2 uncorrectable errors" + (", contained" if contained else "")

    found = observe(replace(KNOWN, last_reset=NOW), uncorrected=5.0, xids=xids)[1]

    assert found == (Fault("GPU-0", 0, FaultKind.ECC, evidence, action, NOW),)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"links": 17}, replace(LINK, since=NOW)),
        ({"remap_failed": True}, replace(REMAP, since=NOW)),
        ({"sram_exceeded": True}, replace(SRAM, since=NOW)),
        ({"xids": {119: NOW - 50}}, replace(XID, since=NOW - 50)),
    ],
)
def test_fault_is_latched_with_what_mends_it_and_its_time(changed: dict[str, Any], fault: Fault) -> None:
    assert observe(KNOWN, **changed) == (MARKED, (fault,))


@pytest.mark.parametrize(("time", "told"), [(NOW - 100, False), (NOW - 99.9, True)])
def test_xid_of_the_moment_of_a_cure_is_mended_with_it(time: float, told: bool) -> None:  # noqa: FBT001
    known = replace(KNOWN, last_reset=NOW - 100)

    assert bool(observe(known, xids={119: time})[1]) is told


def test_xid_that_comes_again_keeps_the_time_of_the_first() -> None:
    assert observe(KNOWN, XID, xids={119: NOW})[1] == (XID,)


@pytest.mark.parametrize("up", [False, None])
def test_xid_of_a_gpu_that_does_not_answer_is_told(up: object) -> None:
    assert observe(KNOWN, up=up, xids={119: XID.since})[1] == (XID,)


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({}, (SRAM,)),
        ({"remap_failed": False}, (SRAM,)),
        ({"sram_exceeded": False}, (REMAP,)),
        ({"remap_failed": False, "sram_exceeded": False}, ()),
    ],
)
def test_level_ends_with_its_own_flag(changed: dict[str, Any], left: tuple[Fault, ...]) -> None:
    assert observe(KNOWN, REMAP, SRAM, **changed)[1] == left


@pytest.mark.parametrize(
    ("back", "kept", "over"), [(None, NOW, False), (NOW - 29.9, NOW - 29.9, False), (NOW - 30.0, None, True)]
)
@pytest.mark.parametrize("fault", [LOST, LINK])
def test_what_was_missing_must_be_back_for_half_a_minute(
    fault: Fault,
    back: float | None,
    kept: float | None,
    over: bool,  # noqa: FBT001
) -> None:
    assert observe(replace(KNOWN, returned_at=back), fault) == (
        replace(MARKED, returned_at=kept),
        () if over else (fault,),
    )


def test_nothing_is_awaited_where_nothing_is_missing() -> None:
    assert observe(replace(KNOWN, returned_at=NOW - 3), XID) == (MARKED, (XID,))
    assert observe(replace(KNOWN, returned_at=NOW - 30), LINK, links=17) == (MARKED, (LINK,))


@pytest.mark.parametrize(("failure", "evidence"), [("GPU_IS_LOST", "GPU_IS_LOST"), ("", "no answer")])
def test_gpu_that_does_not_answer_is_lost_ten_seconds_later(failure: str, evidence: str) -> None:
    assert observe(KNOWN, up=False, failure=failure) == (replace(KNOWN, missing_since=NOW), ())
    for away, lost in ((NOW - 9.9, False), (NOW - 10.0, True)):
        gone = replace(LOST, evidence=evidence, since=away)
        found = observe(replace(KNOWN, missing_since=away, returned_at=NOW - 20), up=False, failure=failure)
        assert found == (replace(KNOWN, missing_since=away), (gone,) if lost else ())


def test_lost_gpu_is_lost_once_whatever_it_says_later() -> None:
    assert observe(replace(KNOWN, missing_since=NOW - 100), LOST, up=False, failure="UNKNOWN")[1] == (LOST,)


def test_gpu_that_answers_is_not_away() -> None:
    assert observe(replace(KNOWN, missing_since=NOW - 3)) == (MARKED, ())


def test_restart_of_the_node_forgets_the_marks_and_what_it_mends() -> None:
    known = replace(KNOWN, reset_observations=1, missing_since=NOW - 100, returned_at=NOW - 3)
    before = FaultState("b", {"GPU-0": known}, (XID, ECC, LINK, LOST))

    after = advance_faults(before, Observation(NOW, "c", driver=False, gpus=()))

    anew = replace(
        known,
        joules=None,
        uncorrected=0.0,
        reset_observations=0,
        baseline_time=NOW,
        last_reset=NOW,
        last_boot=NOW,
        missing_since=None,
    )
    assert (after.boot, after.devices, after.faults) == ("c", {"GPU-0": anew}, (LINK, LOST))


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("xid", {"links": 18}),
        ("nvlink_down", {"links": -1}),
        ("lost", {"links": 18, "expected": False, "missing_since": None, "returned_at": None}),
    ],
)
def test_acknowledgement_changes_what_is_kept_by_what_it_covers(kind: str, kept: dict[str, Any]) -> None:
    known = replace(KNOWN, missing_since=NOW - 100, returned_at=NOW - 3, last_reset=NOW - 500)
    said = Acknowledgement("0", kind, "ada", "mended", NOW - 1)
    before = FaultState("b", {"GPU-0": known}, (XID, LINK, LOST))

    after = advance_faults(before, Observation(NOW, "b", driver=False, gpus=(), acknowledgements=(said,)))

    assert after.devices == {"GPU-0": replace(known, last_reset=NOW - 1, **kept)}
    assert [fault.kind.value for fault in after.faults] == [
        each for each in ("xid", "nvlink_down", "lost") if each != kind
    ]
    assert after.acknowledged_until == NOW - 1


def test_acknowledgement_never_takes_a_later_cure_back() -> None:
    said = Acknowledgement("0", "xid", "ada", "mended", NOW - 1)
    before = FaultState("b", {"GPU-0": replace(KNOWN, last_reset=NOW)}, (XID,))

    after = advance_faults(before, Observation(NOW, "b", driver=False, gpus=(), acknowledgements=(said,)))

    assert after.devices["GPU-0"].last_reset == NOW


def test_gpus_that_the_driver_does_not_show_are_told_but_for_those_nobody_expects() -> None:
    gone = replace(KNOWN, expected=False)
    away = {
        "GPU-1": replace(KNOWN, index=1, missing_since=NOW - 60),
        "GPU-2": replace(KNOWN, index=2, missing_since=NOW - 60),
    }
    lost = Fault("GPU-2", 2, FaultKind.LOST, "no answer", RepairAction.RESTART, NOW - 60)
    shown = replace(SEEN, uuid="GPU-5", index=5, bus="0000:05:00.0")
    before = FaultState("b", {"GPU-0": gone, "GPU-5": KNOWN, **away, "GPU-9": gone}, (lost,))

    after = advance_faults(
        before, Observation(NOW, "b", driver=True, gpus=(shown,), refused=((1, "GPU_IS_LOST"), (2, "UNKNOWN")))
    )

    first = Fault("GPU-1", 1, FaultKind.LOST, "GPU_IS_LOST", RepairAction.RESTART, NOW - 60)
    assert set(after.faults) == {first, lost}
    assert after.devices["GPU-0"] == gone


def test_gpus_that_never_had_a_name_keep_the_time_of_their_first_refusal() -> None:
    refused = ((6, "GPU_IS_LOST"), (7, "UNKNOWN"))
    first = advance_faults(FaultState(), Observation(NOW - 60, "b", driver=True, gpus=(), refused=refused))

    after = advance_faults(first, Observation(NOW, "b", driver=True, gpus=(), refused=(refused[0], (7, "GPU_IS_LOST"))))

    assert after.faults == (
        Fault("", 6, FaultKind.LOST, "GPU_IS_LOST", RepairAction.RESTART, NOW - 60),
        Fault("", 7, FaultKind.LOST, "GPU_IS_LOST", RepairAction.RESTART, NOW - 60),
    )
