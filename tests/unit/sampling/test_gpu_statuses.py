"""What of a GPU is shown as it is now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from exporter.collectors.base import Pace
from exporter.collectors.power import Power, PowerLimits
from exporter.collectors.sample_integral import Integral
from exporter.collectors.temperature import Temperature
from exporter.collectors.utilization import Utilization
from exporter.core.clock import MonotonicTime
from exporter.core.units import Joules, Watts
from exporter.sampling.blocks import gpu_statuses
from exporter.sampling.gpus import LATE, Gpu
from exporter.sampling.snapshot import GpuStatus
from tests.unit.sampling.scripted import Scripted

NOW = MonotonicTime(100.0)
STALE = 10.0


def shown(gpu: Gpu) -> GpuStatus:
    result: Any = SimpleNamespace(
        unattributed_bytes={gpu.device.uuid: 3.0}, states={gpu.device.uuid: {"free": 7.0}}, shares={}, stuck=frozenset()
    )
    (found,) = gpu_statuses([gpu], {gpu.device.uuid: 0.5}, result, NOW, STALE)
    return found


def read(moment: float) -> Gpu:
    device = Scripted(0, lambda _: None)
    limits: Any = SimpleNamespace(value=PowerLimits(Watts(700.0), None, None, None))
    temperature: Any = Temperature.__new__(Temperature)
    temperature.gpu = 61.0
    readings: dict[str, Any] = {
        "utilization": Utilization(0.5, 0.1, Integral(total=7.0, share=0.25), None),
        "power": Power(Watts(350.0), Joules(9000.0), limits),
        "temperature": temperature,
    }
    collector = SimpleNamespace(pace=Pace.CYCLE)
    cached: dict[str, Any] = {
        name: SimpleNamespace(collector=collector, monotonic=MonotonicTime(moment), reading=each)
        for name, each in readings.items()
    }
    state: Any = SimpleNamespace(readings=cached)
    return Gpu(device, {device.uuid: state}, answered=MonotonicTime(moment), failure=LATE)


def test_numbers_are_of_the_last_reading_as_long_as_it_is_fresh() -> None:
    found = shown(read(95.0))

    assert (found.up, found.age, found.hung_seconds) == (True, 5.0, 0.5)
    assert (found.busy_ratio, found.busy_seconds) == (0.25, 7.0)
    assert (found.power_watts, found.joules, found.temperature_celsius) == (350.0, 9000.0, 61.0)
    assert (found.unattributed_bytes, found.states) == (3.0, {"free": 7.0})


def test_of_a_silent_gpu_only_its_ledger_is_shown() -> None:
    found = shown(read(89.0))

    assert (found.up, found.age) == (False, 11.0)
    assert (found.busy_ratio, found.busy_seconds, found.power_watts, found.joules) == (None, None, None, None)
    assert (found.temperature_celsius, found.unattributed_bytes) == (None, None)
    assert found.states == {"free": 7.0}


def test_gpu_that_was_never_read_shows_no_number() -> None:
    device = Scripted(0, lambda _: None)
    found = shown(Gpu(device))

    assert found == GpuStatus(0, device.uuid, "", up=False, age=float("inf"), hung_seconds=0.5, states={"free": 7.0})
