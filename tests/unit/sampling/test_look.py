"""What a GPU shows at a glance, and which difference calls for a pass."""

from __future__ import annotations

import pytest

from exporter.driver.interface import DeviceLostError, Record, UnsupportedError
from exporter.sampling.look import UNKNOWN, Look, look, same
from tests.unit.sampling.scripted import Scripted

CALM = Look(50, 8 << 30, 0)
ANSWERS: dict[str, object] = {
    "nvmlDeviceGetUtilizationRates": Record(gpu=42, memory=7),
    "nvmlDeviceGetMemoryInfo": Record(total=80 << 30, used=3 << 30),
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
    assert look(device()) == Look(42, 3 << 30, 0x8 | 0x20 | 0x40 | 0x80)


def test_driver_without_reasons_is_looked_at_all_the_same() -> None:
    assert look(device(CurrentClocksEventReasons=UnsupportedError(""))) == Look(42, 3 << 30, 0)


@pytest.mark.parametrize("name", ["UtilizationRates", "MemoryInfo", "CurrentClocksEventReasons"])
def test_gpu_that_fails_is_unknown(name: str) -> None:
    assert look(device(**{name: DeviceLostError("")})) == UNKNOWN


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (CALM, True),
        (Look(65, 8 << 30), True),
        (Look(66, 8 << 30), False),
        (Look(34, 8 << 30), False),
        (Look(50, (8 << 30) + (64 << 20) - 1), True),
        (Look(50, (8 << 30) + (64 << 20)), False),
        (Look(50, (8 << 30) - (64 << 20)), False),
        (Look(50, 8 << 30, 0x20), False),
        (UNKNOWN, False),
    ],
)
def test_what_is_the_same(now: Look, expected: bool) -> None:  # noqa: FBT001
    assert same(CALM, now) is expected
    assert same(now, CALM) is expected
