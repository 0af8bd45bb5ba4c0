"""A short look at a GPU: enough to see that something has changed since the last one, at a tenth of a pass's cost."""

from __future__ import annotations

from exporter.driver import constants as nvml
from exporter.driver.interface import Device, DriverError, UnsupportedError
from exporter.record import record

_BUSY = 15
"""Percentage points by which a load that is the same goes up and down from one window of the driver to the next."""
_MEMORY = 64 << 20
"""Bytes; the context of a program that comes or goes is several times as large."""
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
    held_down: int = 0
    """Bits of the reasons."""


UNKNOWN = Look(None)


def look(device: Device) -> Look:
    """Ask three things. What fails is not known: then nobody can say that nothing has changed."""
    try:
        with device.reading():
            rates = device.prepared("nvmlDeviceGetUtilizationRates")()
            memory = device.prepared("nvmlDeviceGetMemoryInfo")()
            reasons = _reasons(device)
    except DriverError:
        return UNKNOWN
    return Look(rates.gpu, memory.used, reasons & _HELD_DOWN)


def _reasons(device: Device) -> int:
    try:
        return int(device.prepared("nvmlDeviceGetCurrentClocksEventReasons")())
    except UnsupportedError:
        return 0


def same(before: Look, now: Look) -> bool:
    """Whether nothing has happened that a pass would have to see."""
    if before.busy is None or now.busy is None or before.held_down != now.held_down:
        return False
    return abs(now.busy - before.busy) <= _BUSY and abs(now.memory - before.memory) < _MEMORY
