"""Integrals of GPM, the two sources of bytes, and the driver's throttle counters."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.base import Tick
from exporter.collectors.gpm import GPM, UNIT_IDS, Activity, add_activity
from exporter.collectors.throttle import THROTTLE
from exporter.driver.constants import throttle_field_ids
from exporter.driver.interface import Record, UnsupportedError
from tests.unit.collectors.answers import ALL_LINKS, FakeDevice, by_argument, cycles, first, hopper, samples


def test_activity_starts_at_zero_and_adds_share_times_seconds() -> None:
    readings = cycles(GPM, hopper(), 11)
    assert samples(GPM, readings[0])["gpu_sm_active_seconds_total"] == {(): 0.0}
    assert samples(GPM, readings[-1])["gpu_sm_active_seconds_total"] == {(): pytest.approx(8.0)}
    assert samples(GPM, readings[-1])["gpu_sm_occupancy_seconds_total"] == {(): pytest.approx(4.0)}
    assert samples(GPM, readings[-1])["gpu_integer_active_seconds_total"] == {(): pytest.approx(0.2)}
    assert readings[-1].ratios["tensor"] == 0.5


def test_the_empty_first_answer_of_gpm_publishes_nothing_yet() -> None:
    device = hopper()
    answers = [{}, {2: 50.0}, {2: 50.0}]
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: answers.pop(0)
    readings = cycles(GPM, device, 3)
    published = [samples(GPM, reading).get("gpu_sm_active_seconds_total") for reading in readings]
    assert published == [None, {(): 0.0}, {(): 0.5}]


def test_a_unit_that_says_nothing_for_a_cycle_keeps_its_total() -> None:
    device = hopper()
    answers: list[dict[int, float | None]] = [{2: 50.0}, {2: 50.0}, {2: math.nan}, {2: None}, {}]
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: answers.pop(0)
    readings = cycles(GPM, device, 5)
    totals = [reading.activity.seconds["sm"] for reading in readings]
    assert totals == [0.0, 0.5, 0.5, 0.5, 0.5]
    assert ["sm" in reading.ratios for reading in readings] == [True, True, False, False, False]


def test_time_whose_answer_was_lost_is_not_booked_as_what_came_after_it() -> None:
    """For a minute the fields of the links failed, or a call hung: GPM was asked, and its answers came to nothing."""
    device = hopper()
    device.fields = {}
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: {0: 1.0, 2: 80.0, 20: 100.0, 21: 200.0, 60: 0.0, 61: 0.0}
    before = cycles(GPM, device, 2)[-1]

    after = samples(GPM, GPM.read(device, before, Tick(1061.0, 60.0)))

    assert after["gpu_sm_active_seconds_total"] == {(): pytest.approx(1.6)}
    assert after["gpu_pcie_bytes_total"] == {
        ("transmit",): pytest.approx(200 * 2**20),
        ("receive",): pytest.approx(400 * 2**20),
    }


def test_what_gpm_reports_after_a_rest_counts_and_is_not_of_the_cycle() -> None:
    """Fifteen seconds, the last of which was the cycle: their mean is not compared with how busy the GPU was in it."""
    device = hopper()
    device.fields = {}
    window = [1.0, 1.0, 15.0, 2.0]
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: {0: window.pop(0), 2: 10.0, 20: 100.0, 21: 200.0}
    _, before, rested, soon = cycles(GPM, device, 4)

    assert [dict(each.ratios) for each in (before, rested, soon)] == [{"sm": 0.1}, {}, {"sm": 0.1}]
    assert [each.pcie.rate for each in (before, rested, soon)] == [300 * 2**20, None, 300 * 2**20]
    assert samples(GPM, soon)["gpu_sm_active_seconds_total"] == {(): pytest.approx(1.8)}


VALUE = st.one_of(st.floats(-10, 200), st.just(math.nan), st.none())


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(UNIT_IDS), VALUE), st.floats(0, 100))))
def test_activity_never_falls_and_never_outruns_time(steps: list[tuple[dict[int, Any], float]]) -> None:
    now, elapsed = Activity(), 0.0
    for values, seconds in steps:
        after = add_activity(now, values, seconds)
        elapsed += seconds
        assert all(after.seconds[unit] >= total for unit, total in now.seconds.items())
        assert all(total <= elapsed + 1e-6 for total in after.seconds.values())
        assert all(0.0 <= ratio <= 1.0 for ratio in after.ratios.values())
        now = after


MIB = 2.0**20
WRAP = 2**32


def test_nvlink_bytes_come_from_the_field_counters() -> None:
    device = hopper()
    readings = cycles(GPM, device, 1)
    published = samples(GPM, readings[0])
    assert published["gpu_nvlink_bytes_total"] == {("transmit",): 10240, ("receive",): 20480}
    device.fields[(139, ALL_LINKS)] = 30
    reading = GPM.read(device, readings[0], Tick(1002.0, 2.0))
    assert reading.nvlink.rate == 5120.0


def test_bytes_come_from_gpm_where_there_is_no_counter() -> None:
    device = hopper()
    device.fields = {}
    readings = cycles(GPM, device, 11)
    assert samples(GPM, readings[-1])["gpu_nvlink_bytes_total"] == {
        ("transmit",): pytest.approx(20000 * MIB),
        ("receive",): pytest.approx(10000 * MIB),
    }


def test_pcie_bytes_come_from_gpm_and_the_wrapping_fields_are_not_asked() -> None:
    """As a GPU of PCIe 5 under full traffic does: the fields wrap several times in a cycle."""
    device = hopper()
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: {0: 1.0, 2: 1.0, 20: 30_000.0, 21: 28_000.0}
    readings = cycles(GPM, device, 11)
    assert samples(GPM, readings[0])["gpu_pcie_bytes_total"] == {("transmit",): 0.0, ("receive",): 0.0}
    assert samples(GPM, readings[-1])["gpu_pcie_bytes_total"] == {
        ("transmit",): pytest.approx(300_000 * MIB),
        ("receive",): pytest.approx(280_000 * MIB),
    }
    assert readings[-1].pcie.rate == 58_000 * MIB
    assert not [args for _, *args in device.asked if args and (197, 0) in args[0]]


def test_pcie_bytes_wait_for_gpm_where_it_says_nothing_for_once() -> None:
    device = hopper()
    answers: list[dict[int, float]] = [{}, {0: 1.0, 20: 1.0, 21: 2.0}, {}, {0: 1.0, 20: 1.0, 21: 2.0}]
    device.answers["nvmlGpmMetricsGet"] = lambda _ids: answers.pop(0)
    readings = []
    for number in range(4):
        device.fields |= {(197, 0): number * 1_000_000_000}
        tick = Tick(1000.0 + number, 1.0 if number else 0.0)
        readings.append(GPM.read(device, readings[-1] if readings else None, tick))

    assert [each.pcie.totals["transmit"] for each in readings] == [0.0, MIB, MIB, 2 * MIB]
    assert [each.pcie.rate for each in readings] == [None, 3 * MIB, None, 3 * MIB]


def ampere(*counts: int, seconds: float = 1.0) -> list[Any]:
    """Readings of a GPU without GPM whose PCIe counter reads so, one after the other."""
    device = FakeDevice({})
    readings: list[Any] = []
    for number, now in enumerate(counts):
        device.fields = {(197, 0): now, (198, 0): 0}
        tick = Tick(1000.0 + number * seconds, seconds if number else 0.0)
        readings.append(GPM.read(device, readings[-1] if readings else None, tick))
    return readings


@pytest.mark.parametrize(
    ("counts", "seconds", "moved"),
    [
        ((1000, 6000), 1.0, 5000),
        ((4_000_000_000, 100_000_000), 1.0, WRAP - 3_900_000_000),
        ((4_000_000_000, 100_000_000, 0), 1.0, 2 * WRAP - 4_000_000_000),
        ((4_000_000_000, 100_000_000), 60.0, 100_000_000),  # a reset takes its time: it cannot be told from a wrap
        ((WRAP + 5, WRAP + 9), 1.0, 4),
        ((WRAP + 5, 7), 1.0, 7),  # a wide counter does not wrap
        ((1000, 2**60), 1.0, 0),
    ],
    ids=["steady", "wrap", "two wraps", "after a gap", "wide", "wide and reset", "garbage"],
)
def test_pcie_bytes_without_gpm_are_counted_across_wraps(counts: tuple[int, ...], seconds: float, moved: int) -> None:
    readings = ampere(*counts, seconds=seconds)

    assert samples(GPM, readings[0])["gpu_pcie_bytes_total"] == {("transmit",): 0, ("receive",): 0}
    assert samples(GPM, readings[-1])["gpu_pcie_bytes_total"] == {("transmit",): moved, ("receive",): 0}


def test_pcie_rate_without_gpm_is_what_was_counted_of_both_directions() -> None:
    assert [each.pcie.rate for each in ampere(1000, 5000, 5000, seconds=2.0)] == [None, 2000.0, 0.0]


def test_pcie_counter_that_does_not_answer_for_once_loses_nothing() -> None:
    device = FakeDevice({}, {(197, 0): 100, (198, 0): 100})
    first_read = GPM.read(device, None, Tick(1000.0, 0.0))
    device.fields = {(198, 0): 300}
    second = GPM.read(device, first_read, Tick(1001.0, 1.0))
    device.fields = {(197, 0): 500, (198, 0): 300}
    third = GPM.read(device, second, Tick(1002.0, 1.0))

    assert [dict(each.pcie.totals) for each in (second, third)] == [
        {"transmit": 0.0, "receive": 200.0},
        {"transmit": 400.0, "receive": 200.0},
    ]


def test_pcie_bytes_go_on_where_gpm_goes_and_comes() -> None:
    """Entering MIG mode takes GPM away from the GPU, leaving it brings it back."""
    device = hopper()
    before = cycles(GPM, device, 2)[-1]
    device.answers["nvmlGpmMetricsGet"] = UnsupportedError("MIG")
    device.fields[(197, 0)] = 4_000_000_000
    without = GPM.read(device, before, Tick(1002.0, 1.0))
    device.fields[(197, 0)] += 1000
    counted = GPM.read(device, without, Tick(1003.0, 1.0))

    assert [each.pcie.totals["transmit"] for each in (before, without, counted)] == [
        100 * MIB,
        100 * MIB,
        100 * MIB + 1000,
    ]


def test_blackwell_counts_nvlink_bytes_in_its_own_fields() -> None:
    device = FakeDevice({}, {(202, ALL_LINKS): 77, (204, ALL_LINKS): 88})
    assert first(GPM, device) == {"gpu_nvlink_bytes_total": {("transmit",): 77, ("receive",): 88}}


def test_an_ampere_has_bytes_without_activity_and_is_asked_for_gpm_seldom() -> None:
    device = FakeDevice({}, {(197, 0): 1, (198, 0): 2})
    readings = cycles(GPM, device, 301)
    assert readings[-1].activity is None
    assert device.functions.count("nvmlGpmMetricsGet") == 2


def test_a_gpu_with_neither_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        first(GPM, FakeDevice())


def throttled(version: str, fields: dict[tuple[int, int], int], **answers: Any) -> FakeDevice:
    return FakeDevice({"nvmlSystemGetDriverVersion": version, **answers}, fields)


@pytest.mark.parametrize(
    ("version", "ids"),
    [
        ("470.223.02", None),
        ("570.148.08", None),
        ("575.51.03", 251),
        ("580.65.06", 251),
        ("580.66.01", None),
        ("580.81", None),
        ("580.82.07", 269),
        ("580.126.09", 269),
        ("590.44.01", 269),
        ("615.71", 269),
        ("", None),
        ("unknown", None),
    ],
)
def test_time_fields_follow_the_driver_version(version: str, ids: int | None) -> None:
    found = throttle_field_ids(version)
    expected = {} if ids is None else {"sw_thermal": ids, "hw_thermal": ids + 1, "hw_power_brake": ids + 2}
    assert found == expected


@pytest.mark.parametrize(("version", "start"), [("575.51.03", 251), ("580.126.09", 269)])
def test_seconds_come_from_the_ids_of_this_driver(version: str, start: int) -> None:
    both = {(field, 0): 1_000_000_000 for field in (251, 252, 253, 269, 270, 271)}
    fields = both | {(start, 0): 2_500_000_000, (start + 1, 0): 0, (74, 0): 10_000_000_000}
    published = first(THROTTLE, throttled(version, fields))
    assert published["gpu_throttled_seconds_total"] == {
        ("sw_power_cap",): 10.0,
        ("sw_thermal",): 2.5,
        ("hw_thermal",): 0.0,
        ("hw_power_brake",): 1.0,
    }


def test_ids_that_mean_something_else_are_never_asked() -> None:
    device = throttled("570.148.08", {(251, 0): 1, (74, 0): 0})
    cycles(THROTTLE, device, 3)
    asked = {
        entry[0] for function, *args in device.asked if function == "nvmlDeviceGetFieldValues" for entry in args[0]
    }
    assert asked == {74, 76, 77, 78, 79}


def test_older_drivers_count_thermal_time_in_the_violation_counter() -> None:
    published = first(THROTTLE, hopper())
    assert published["gpu_throttled_seconds_total"][("thermal",)] == 7.0
    assert published["gpu_throttled_seconds_total"][("sw_power_cap",)] == 5.0


def test_counter_of_all_thermal_reasons_is_not_asked_for_beside_one_of_a_kind() -> None:
    thermal = by_argument(None, Record(referenceTime=1, violationTime=7_000_000_000))
    device = throttled("580.126.09", {(270, 0): 0}, nvmlDeviceGetViolationStatus=thermal)

    assert first(THROTTLE, device)["gpu_throttled_seconds_total"] == {("hw_thermal",): 0.0}


def test_without_any_field_every_reason_is_a_violation_counter() -> None:
    status = by_argument(*(Record(referenceTime=1, violationTime=n * 10**9) for n in range(6)))
    device = throttled("450.1", {}, nvmlDeviceGetViolationStatus=status)
    assert first(THROTTLE, device)["gpu_throttled_seconds_total"] == {
        ("sw_power_cap",): 0.0,
        ("thermal",): 1.0,
        ("sync_boost",): 2.0,
        ("board_limit",): 3.0,
        ("low_utilization",): 4.0,
        ("reliability",): 5.0,
    }


def test_every_supported_reason_is_shown_held_or_not() -> None:
    device = throttled(
        "580.126.09",
        {},
        nvmlDeviceGetCurrentClocksEventReasons=0x1 | 0x8 | 0x40,
        nvmlDeviceGetSupportedClocksEventReasons=0x5FF,
    )
    active = first(THROTTLE, device)["gpu_throttle_active"]
    assert {labels[0] for labels, value in active.items() if value} == {"hw_slowdown", "hw_thermal"}
    assert len(active) == 9
    assert ("board_limit",) not in active
    assert ("reliability",) in active


@pytest.mark.parametrize("reason", [0x4, 0x20, 0x40, 0x80], ids=["power limit", "software", "heat", "power brake"])
def test_clock_is_read_while_heat_or_power_lowers_it_and_not_else(reason: int) -> None:
    device = hopper()
    device.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x1
    calm = cycles(THROTTLE, device, 1)[0]
    device.answers["nvmlDeviceGetCurrentClocksEventReasons"] = reason

    assert (calm.sm_clock, cycles(THROTTLE, device, 1)[0].sm_clock) == (None, 1980e6)


def test_old_names_of_the_reasons_still_work() -> None:
    device = throttled("470.1", {}, nvmlDeviceGetCurrentClocksThrottleReasons=0x20)
    active = first(THROTTLE, device)["gpu_throttle_active"]
    assert active[("sw_thermal",)] == 1.0
    assert len(active) == 8


def test_what_a_device_answers_is_found_out_once() -> None:
    device = hopper()
    cycles(THROTTLE, device, 10)
    assert device.functions.count("nvmlSystemGetDriverVersion") == 1
    assert device.functions.count("nvmlDeviceGetSupportedClocksEventReasons") == 1
