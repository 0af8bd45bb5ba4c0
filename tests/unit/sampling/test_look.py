"""What a GPU shows at a glance, and which difference calls for a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.collectors.base import Seen
from exporter.driver.interface import DeviceLostError, Record, UnsupportedError
from exporter.sampling.look import UNKNOWN, Look, counted, look, same
from tests.unit.sampling.scripted import Scripted

CALM = Look(50, 8 << 30, 200_000)
ANSWERS: dict[str, object] = {
    "nvmlDeviceGetUtilizationRates": Record(gpu=42, memory=7),
    "nvmlDeviceGetMemoryInfo": Record(total=80 << 30, used=3 << 30),
    "nvmlDeviceGetPowerUsage": 350_000,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x1 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x100,
}


def device(**answers: object) -> Scripted:
    def answer(function: str) -> object:
        found = {**ANSWERS, **{f"nvmlDeviceGet{name}": each for name, each in answers.items()}}[function]
        if isinstance(found, Exception):
            raise found
        return found

    return Scripted(0, answer)


def test_look_has_the_reasons_of_heat_and_power_supply_and_none_that_go_with_the_load() -> None:
    assert look(device()) == Look(42, 3 << 30, 350_000, 0x8 | 0x20 | 0x40 | 0x80, 7)


def test_gpu_without_power_or_reasons_is_looked_at_all_the_same() -> None:
    assert look(device(CurrentClocksEventReasons=UnsupportedError(""))) == Look(42, 3 << 30, 350_000, 0, 7)
    assert look(device(PowerUsage=UnsupportedError(""), CurrentClocksEventReasons=0)) == Look(42, 3 << 30, 0, 0, 7)


@pytest.mark.parametrize("name", ["UtilizationRates", "MemoryInfo", "PowerUsage", "CurrentClocksEventReasons"])
def test_gpu_that_fails_is_unknown(name: str) -> None:
    assert look(device(**{name: DeviceLostError("")})) == UNKNOWN


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (CALM, True),
        (replace(CALM, busy=65), True),
        (replace(CALM, busy=66), False),
        (replace(CALM, busy=34), False),
        (replace(CALM, memory=(8 << 30) + (64 << 20) - 1), True),
        (replace(CALM, memory=(8 << 30) + (64 << 20)), False),
        (replace(CALM, memory=(8 << 30) - (64 << 20)), False),
        (replace(CALM, power=230_000), True),
        (replace(CALM, power=169_000), False),
        (replace(CALM, power=240_000), False),
        (replace(CALM, held_down=0x20), False),
        (UNKNOWN, False),
    ],
)
def test_what_is_the_same(now: Look, expected: bool) -> None:  # noqa: FBT001
    assert same(CALM, now) is expected
    assert same(now, CALM) is expected


def test_power_of_a_gpu_that_draws_little_goes_up_and_down_by_watts() -> None:
    assert same(Look(0, 0, 20_000), Look(0, 0, 30_000))
    assert not same(Look(0, 0, 20_000), Look(0, 0, 30_001))


def test_looks_add_up_to_how_busy_the_seconds_were_that_they_stand_for() -> None:
    seen = counted(counted(Seen(), Look(50, memory_busy=20), 2.0), Look(100, memory_busy=30), 1.0)

    assert seen == Seen(3.0, pytest.approx(2.0), pytest.approx(0.7))
    assert counted(seen, UNKNOWN, 4.0) == Seen(7.0, pytest.approx(2.0), pytest.approx(0.7))
