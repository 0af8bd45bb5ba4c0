"""A short look at a GPU: enough to see that something has changed since the last one, at a tenth of a pass's cost."""

from __future__ import annotations

from exporter.collectors.base import Seen
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, DriverError, UnsupportedError
from exporter.record import record

_BUSY = 15
"""Percentage points by which a load that is the same goes up and down from one window of the driver to the next."""
_MEMORY = 64 << 20
"""Bytes; the context of a program that comes or goes is several times as large."""
_POWER, _WATTS = 0.15, 10_000
"""Share by which the power of the same load goes up and down, and milliwatts by which that of an idle GPU does. One
that begins to spin in place is as busy as before, and draws less."""
_HELD_DOWN = (
    nvml.nvmlClocksEventReasonHwSlowdown
    | nvml.nvmlClocksEventReasonSwThermalSlowdown
    | nvml.nvmlClocksEventReasonHwThermalSlowdown
    | nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
)
"""Reasons that somebody is to hear of; the others come and go with the load."""


@record
class Look:
    """What one GPU shows at a glance. `busy` is percent; None: it could not be seen whether it works."""

    busy: int | None
    memory: int = 0
    """Bytes in use."""
    power: int = 0
    """Milliwatts."""
    held_down: int = 0
    """Bits of the reasons."""
    memory_busy: int = 0
    """Percent of the time in which device memory was read or written; it goes up and down with the load."""


UNKNOWN = Look(None)


def look(device: Device) -> Look:
    """Ask four things. What fails is not known: then nobody can say that nothing has changed."""
    try:
        with device.reading():
            rates = device.prepared("nvmlDeviceGetUtilizationRates")()
            memory = device.prepared("nvmlDeviceGetMemoryInfo")()
            power = _number(device, "nvmlDeviceGetPowerUsage")
            reasons = _number(device, "nvmlDeviceGetCurrentClocksEventReasons")
    except DriverError:
        return UNKNOWN
    return Look(rates.gpu, memory.used, power, reasons & _HELD_DOWN, rates.memory)


def _number(device: Device, function: str) -> int:
    """0 where the device has none."""
    try:
        return int(device.prepared(function)())
    except UnsupportedError:
        return 0


def counted(before: Seen, found: Look, seconds: float) -> Seen:
    """What looks have seen so far and this one, which stands for the `seconds` since the one before."""
    busy, memory_busy = (found.busy or 0) / 100, found.memory_busy / 100
    return Seen(before.seconds + seconds, before.busy + busy * seconds, before.memory_busy + memory_busy * seconds)


def same(before: Look, now: Look) -> bool:
    """Whether nothing has happened that a pass would have to see."""
    if before.busy is None or now.busy is None or before.held_down != now.held_down:
        return False
    if abs(now.power - before.power) > max(_POWER * max(before.power, now.power), _WATTS):
        return False
    return abs(now.busy - before.busy) <= _BUSY and abs(now.memory - before.memory) < _MEMORY
