"""What holds for every collector: absence, failures, names, and the calls it makes."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector, Pace, Scope, Tick
from exporter.collectors.ecc import RETIRED_PAGES
from exporter.collectors.gpm import GPM
from exporter.driver.interface import DeviceLostError, UnsupportedError
from exporter.tools.simulator import simulate
from tests.unit.collectors.answers import FakeDevice, FakeInstance, cycles, first, hopper

GPU_COLLECTORS = [collector for collector in COLLECTORS if collector.scope is Scope.GPU]


def named(collector: AnyCollector) -> str:
    return collector.name


@pytest.mark.parametrize("collector", COLLECTORS, ids=named)
def test_a_device_that_answers_nothing_is_unsupported_or_silent(collector: AnyCollector) -> None:
    """An unnamed GPU still has its bus id; everything else raises rather than publish zeros."""
    device = FakeInstance() if collector.scope is Scope.INSTANCE else FakeDevice()
    try:
        published = first(collector, device)
    except UnsupportedError:
        published = {}
    assert set(published) <= {"gpu_info", "gpu_mig_info"}


@pytest.mark.parametrize("collector", GPU_COLLECTORS, ids=named)
def test_a_failing_driver_fails_the_reading(collector: AnyCollector) -> None:
    device = FakeDevice(otherwise=DeviceLostError("gone"))
    with pytest.raises(DeviceLostError):
        collector.read(device, None, Tick(1000.0, 0.0))


@pytest.mark.parametrize("collector", [c for c in GPU_COLLECTORS if c is not RETIRED_PAGES], ids=named)
def test_every_collector_reads_a_hopper(collector: AnyCollector) -> None:
    """Our own, or the simulator's where ours answers nothing of it."""
    try:
        published = first(collector, hopper())
    except UnsupportedError:
        driver = simulate("1xH200:training", lambda: 1000.0)
        driver.open()
        published = first(collector, driver.devices()[0])
    assert set(published) >= {
        family.name
        for family in collector.families
        if family.name
        not in {
            "gpu_temperature_threshold_celsius",
            "gpu_fan_speed_ratio",
            "gpu_fan_speed_rpm",
            "gpu_fabric_info",
        }
    } - ({f.name for f in GPM.families if "active" in f.name or "occupancy" in f.name} if collector is GPM else set())


def test_names_are_unique_over_all_collectors() -> None:
    names = Counter(family.name for collector in COLLECTORS for family in collector.families)
    assert [name for name, count in names.items() if count > 1] == []
    assert len({collector.name for collector in COLLECTORS}) == len(COLLECTORS)


def test_driver_calls_per_minute() -> None:
    """The cost of sampling at 1 s is the driver's time."""
    calls = {collector.name: len(_minute(collector).asked) for collector in GPU_COLLECTORS}
    dear = {name: count for name, count in calls.items() if count >= 30}

    assert dear == {
        "utilization": 180, "engines": 48, "gpm": 120, "power": 126, "clocks": 68, "temperature": 48,
        "throttle": 243, "pcie": 30, "processes": 96,
    }  # fmt: skip
    assert sum(calls.values()) <= 1100


@pytest.mark.parametrize("collector", GPU_COLLECTORS, ids=named)
def test_collector_says_what_a_gpu_without_answers_lacks(collector: AnyCollector) -> None:
    device = FakeDevice()
    try:
        first(collector, device)
    except UnsupportedError as error:
        assert re.search(r"[a-z]{3}", str(error))  # noqa: PT017 - one collector publishes all the same
    else:
        assert collector.name == "info"


def _minute(collector: AnyCollector) -> FakeDevice:
    device = hopper()
    every = max(collector.pace.value, 1.0)
    try:
        cycles(collector, device, round(60 / every), every)
    except UnsupportedError:
        assert not {name for name in device.functions if name in device.answers}
    return device


def test_never_the_call_that_blocks_twenty_milliseconds() -> None:
    assert "nvmlDeviceGetPcieThroughput" not in {name for c in GPU_COLLECTORS for name in _minute(c).functions}


def test_pace_of_every_collector() -> None:
    assert {c.name for c in COLLECTORS if c.pace is Pace.CYCLE} == {
        "utilization", "gpm", "power", "throttle", "processes", "mig",
    }  # fmt: skip
