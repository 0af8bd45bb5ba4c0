"""A short look at a GPU: enough to see that something has changed since the last one, at a tenth of a pass's cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.collectors.base import Seen
from exporter.driver import constants as nvml
from exporter.driver.interface import Call, Device, DriverError, UnsupportedError

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


class Look(NamedTuple):
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


class Looker:
    """Looks at one GPU. Used by one thread at a time."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._calls: tuple[Call, Call, Call, Call] | None = None
        """Made ready with the first look."""

    def look(self) -> Look:
        """Ask four things. What fails is not known: then nobody can say that nothing has changed."""
        try:
            with self.device.reading():
                rates_of, memory_of, power_of, reasons_of = self._calls or self._prepared()
                rates, memory = rates_of(), memory_of()
                try:
                    power = int(power_of())
                except UnsupportedError:
                    power = 0
                try:
                    reasons = int(reasons_of())
                except UnsupportedError:
                    reasons = 0
        except DriverError:
            return UNKNOWN
        return Look(rates.gpu, memory.used, power, reasons & _HELD_DOWN, rates.memory)

    def _prepared(self) -> tuple[Call, Call, Call, Call]:
        prepared = self.device.prepared
        self._calls = (
            prepared("nvmlDeviceGetUtilizationRates"),
            prepared("nvmlDeviceGetMemoryInfo"),
            prepared("nvmlDeviceGetPowerUsage"),
            prepared("nvmlDeviceGetCurrentClocksEventReasons"),
        )
        return self._calls


def counted(looks: Iterable[tuple[float, Look]]) -> Seen:
    """What these looks have seen, each of which stands for the seconds since the one before."""
    seconds = busy = memory_busy = 0.0
    for span, found in looks:
        seconds += span
        busy += (found.busy or 0) / 100 * span
        memory_busy += found.memory_busy / 100 * span
    return Seen(seconds, busy, memory_busy)


def same(before: Look, now: Look) -> bool:
    """Whether nothing has happened that a pass would have to see."""
    if before.busy is None or now.busy is None or before.held_down != now.held_down:
        return False
    if abs(now.power - before.power) > max(_POWER * max(before.power, now.power), _WATTS):
        return False
    return abs(now.busy - before.busy) <= _BUSY and abs(now.memory - before.memory) < _MEMORY
