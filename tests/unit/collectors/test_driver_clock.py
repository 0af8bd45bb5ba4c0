"""Busy seconds where the driver's clock is set, as after a start with a wrong one: no second is lost or made."""

from __future__ import annotations

import pytest

from exporter.collectors.base import Tick
from exporter.collectors.utilization import Utilization, read_utilization
from exporter.driver.interface import Record
from tests.unit.collectors.answers import FakeDevice

PERIOD = 0.25
BOOT = 1_000_000.0


class Driver:
    """Half busy: one sample full, the next one idle. `offset` is what its clock was set by."""

    def __init__(self) -> None:
        self.now, self.offset = 0.0, 0.0

    def samples(self, _type: int, last: int) -> tuple[tuple[int, int], ...]:
        newest = int(self.now / PERIOD)
        found = ((round((BOOT + self.offset + n * PERIOD) * 1e6), n % 2 * 100) for n in range(newest - 80, newest + 1))
        return tuple((stamp, value) for stamp, value in found if stamp > last)


def busy(offset: float, interval: float) -> list[float]:
    """After each read; the clock is set after 30 s of 90."""
    driver = Driver()
    device = FakeDevice(
        {"nvmlDeviceGetUtilizationRates": Record(gpu=50, memory=0), "nvmlDeviceGetSamples": driver.samples}
    )
    reading: Utilization | None = None
    totals = list[float]()
    while driver.now <= 90.0:
        driver.offset = offset if driver.now > 30.0 else 0.0
        reading = read_utilization(device, reading, Tick(BOOT + driver.now, interval if reading else 0.0))
        assert reading.busy is not None
        totals.append(reading.busy.total)
        driver.now += interval
    return totals


@pytest.mark.parametrize("interval", [0.5, 1.0, 7.5, 15.0])
@pytest.mark.parametrize("offset", [-3600.0, -30.0, -16.0, 4.0, 30.0, 3600.0])
def test_clock_that_is_set_costs_no_busy_second(offset: float, interval: float) -> None:
    assert busy(offset, interval)[-1] == pytest.approx(busy(0.0, interval)[-1], abs=1.1)


@pytest.mark.parametrize("offset", [-2.0, -3.0, -4.0, -5.5])
def test_clock_that_is_set_back_by_little_costs_little(offset: float) -> None:
    assert busy(offset, 1.0)[-1] == pytest.approx(busy(0.0, 1.0)[-1], abs=1.1)


def test_driver_whose_samples_stand_still_is_asked_for_all_of_them_a_few_times() -> None:
    """Its clock was not set: nothing is counted, and nothing begins anew before it must."""
    device = FakeDevice({"nvmlDeviceGetSamples": lambda _type, last: ((5_000_000, 80),) if last < 5_000_000 else ()})
    reading: Utilization | None = None
    for second in range(4):
        reading = read_utilization(device, reading, Tick(BOOT + second, 1.0 if second else 0.0))

    assert reading is not None
    assert reading.busy is not None
    assert (reading.busy.cursor, reading.busy.exact) == (5_000_000, 0.0)
