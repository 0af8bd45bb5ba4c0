"""Temperatures, their thresholds, and fans, in NVML's units."""

from __future__ import annotations

from exporter.tools.simulator.gpu import Gpu
from exporter.tools.simulator.models import ADA
from exporter.tools.simulator.refusal import refuse, unsupported


def temperature(gpu: Gpu, time: float, sensor: int = 0) -> int:
    return int(gpu.temperature(time)) if sensor == 0 else refuse("sensor")


def threshold(gpu: Gpu, time: float, which: int) -> int:
    """Ada and newer say them as offsets in fields 193 to 196."""
    del time
    above = {0: 7, 1: 4, 3: 0, **({2: 10} if gpu.model.hbm else {})}.get(which)
    if above is None or gpu.model.architecture >= ADA:
        raise unsupported(f"temperature threshold {which}")
    return gpu.model.max_temperature + above


def margin(gpu: Gpu, time: float) -> int:
    return gpu.model.max_temperature - int(gpu.temperature(time))


def fans(gpu: Gpu, time: float) -> int:
    del time
    return gpu.model.fans or refuse("fans")


def fan(gpu: Gpu, time: float, number: int = 0) -> int:
    if number >= gpu.model.fans:
        raise unsupported(f"fan {number}")
    if number == 0 and gpu.has("fan-failure", time):
        return 0
    return max(0, min(100, int((gpu.temperature(time) - 28) * 1.9)))
