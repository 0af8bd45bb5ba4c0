"""What a GPU shows at a glance, and which difference calls for a pass."""

from __future__ import annotations

import pytest

from exporter.collectors.base import Seen
from exporter.driver.interface import DeviceLostError, Record, UnsupportedError
from exporter.sampling.look import UNKNOWN, Look, Looker, counted, same
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
    assert Looker(device()).look() == Look(42, 3 << 30, 350_000, 0x8 | 0x20 | 0x40 | 0x80, 7)


def test_gpu_without_power_or_reasons_is_looked_at_all_the_same() -> None:
    assert Looker(device(CurrentClocksEventReasons=UnsupportedError(""))).look() == Look(42, 3 << 30, 350_000, 0, 7)
    assert Looker(device(PowerUsage=UnsupportedError(""), CurrentClocksEventReasons=0)).look() == Look(
        42, 3 << 30, 0, 0, 7
    )


@pytest.mark.parametrize("name", ["UtilizationRates", "MemoryInfo", "PowerUsage", "CurrentClocksEventReasons"])
def test_gpu_that_fails_is_unknown(name: str) -> None:
    assert Looker(device(**{name: DeviceLostError("")})).look() == UNKNOWN


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (CALM, True),
        (CALM._replace(busy=65), True),
        (CALM._replace(busy=66), False),
        (CALM._replace(busy=34), False),
        (CALM._replace(memory=(8 << 30) + (64 << 20) - 1), True),
        (CALM._replace(memory=(8 << 30) + (64 << 20)), False),
        (CALM._replace(memory=(8 << 30) - (64 << 20)), False),
        (CALM._replace(power=230_000), True),
        (CALM._replace(power=169_000), False),
        (CALM._replace(power=240_000), False),
        (CALM._replace(held_down=0x20), False),
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
    looks = [(2.0, Look(50, memory_busy=20)), (1.0, Look(100, memory_busy=30))]

    assert counted(looks) == Seen(3.0, pytest.approx(2.0), pytest.approx(0.7))
    assert counted([*looks, (4.0, UNKNOWN)]) == Seen(7.0, pytest.approx(2.0), pytest.approx(0.7))
