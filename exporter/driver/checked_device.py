"""A device whose answers have been checked: implausible ones are absent, and every loss is reported.

Whatever the driver answers passes here on its way to a collector. What a device answered before, and its calls made
ready, are kept from read to read; the device objects that each enumeration makes anew are exchanged below them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from exporter.core.clock import NEVER, MonotonicTime
from exporter.driver.answer_checks import AnswerCheck, Check, FieldCheck, History, Key
from exporter.driver.interface import CURSORS, Device, DeviceLostError, DriverError, DriverGoneError, UnsupportedError
from exporter.driver.plausibility import FUNCTIONS, Rule

ACCEPTED_AFTER_SECONDS = 300.0
"""Seconds after which a reading that was there and is refused since counts as one that the device does not have."""

_RETRY_SECONDS, _MAX_RETRY_SECONDS = 5.0, 10.0
"""Seconds until a call that was refused or failed is made again: the first time, and at most where it failed."""
FAILS_ALONE_AFTER = 3
"""Reads in a row that one call fails before it costs its own value alone. Until then what was read before stands."""
_FORGOTTEN_AFTER_SECONDS = 100.0
"""Seconds after which a call that failed and was not made again counts no more."""
SINGLE = frozenset({
    f"nvmlDeviceGet{name}" for name in (
        "Name", "Serial", "VbiosVersion", "Architecture", "CudaComputeCapability", "MemoryAffinity", "PersistenceMode",
        "MigMode", "EccMode", "BAR1MemoryInfo", "UtilizationRates", "EncoderUtilization", "DecoderUtilization",
        "JpgUtilization", "OfaUtilization", "PowerUsage", "TotalEnergyConsumption", "EnforcedPowerLimit",
        "PowerManagementDefaultLimit", "PowerManagementLimitConstraints", "ClockInfo", "MaxClockInfo",
        "PerformanceState", "MarginTemperature", "TemperatureThreshold", "FanSpeed_v2", "FanSpeedRPM",
        "CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth",
        "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "SramEccErrorStatus", "MemoryErrorCounter",
        "RowRemapperHistogram",
    )
})  # fmt: skip
"""Calls that give one thing each, without which the others are as true. Of the rest, as lists of processes, fields and
counters of two sources, a part would be taken for the whole."""
_APART = frozenset({("gpm", "nvmlDeviceGetFieldValues")})
"""Collector and function: others that cost their own value alone, and at once. GPM covers the time since it was asked
last, so what it reported would be lost with a reading that failed."""
_Question = tuple[str, tuple[Any, ...]]
"""Function and arguments that stay."""
_FIELDS = "nvmlDeviceGetFieldValues"


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of one collector in one read: how many answers were implausible, and in words what is missing."""

    rejected: int = 0
    words: str = ""


NO_LOSSES = Losses()


@dataclass(frozen=True, slots=True)
class Failing:
    """A call that fails: by which collector it was made, in how many reads, when last, and how."""

    collector: str
    reads: int
    at: MonotonicTime
    words: str


class CheckedDevice(Device):
    """A GPU or MIG instance as the collectors see it, one after the other. Used by one thread at a time."""

    def __init__(self, device: Device) -> None:
        self.now = NEVER
        self.power_limit = 0.0
        self.refused: dict[History, tuple[str, MonotonicTime]] = {}
        """Calls that once worked and are refused now: the collector that asks, and since when."""
        self.failing: dict[_Question, Failing] = {}
        self._collector = ""
        self.rejected: list[str] = []
        """Descriptions of what was implausible of what the collector at hand was answered."""
        self._histories: dict[Key, History] = {}
        self._paused: dict[_Question, tuple[int, MonotonicTime]] = {}
        """Refusals in a row of a call that was never answered or failed alone, and the time of its next try."""
        self._checks: dict[_Question, Check] = {}
        """Checks of the calls that were made to this device object."""
        self._meet_device(device)

    def begin(self, device: Device, monotonic: MonotonicTime) -> None:
        """A read begins: of the device as the driver shows it now, at `monotonic` seconds."""
        self.now = monotonic
        if device is not self._device:
            self._meet_device(device)

    def asked_by(self, collector: str) -> None:
        """Let this collector read from now on; what the one before lost is forgotten."""
        self._collector = collector
        if self.rejected:
            self.rejected = []

    def losses(self) -> Losses:
        """Return what was lost in this read, or is refused for a while already. Call it once the collector has read."""
        if not self.rejected and not self.refused and not self.failing:
            return NO_LOSSES
        late = [
            f"{history.name} is not answered any more"
            for history, (collector, since) in self.refused.items()
            if collector == self._collector and self.now - since < ACCEPTED_AFTER_SECONDS
        ]
        words = [*self.rejected, *self._failures(), *dict.fromkeys(late)]
        return Losses(len(self.rejected), "; ".join(words[:3])) if words else Losses()

    def fails(self) -> bool:
        """Return whether calls of the collector that reads have failed."""
        return bool(self.failing) and bool(self._failures())

    def _failures(self) -> list[str]:
        mine = [each for each in self.failing.values() if each.collector == self._collector]
        return [each.words for each in mine if self.now - each.at < _FORGOTTEN_AFTER_SECONDS]

    def reading(self) -> AbstractContextManager[object]:
        return self._device.reading()

    def get(self, function: str, *args: Any) -> Any:
        """Return what is believed of the driver's answer. Guards the value.

        None where the device has no such reading, where it is implausible, and where this call alone keeps failing.
        """
        fixed, cursor = (args[:-1], args[-1:]) if function in CURSORS else (args, ())
        times, again = self._paused.get((function, fixed), (0, NEVER))
        if self.now < again:
            return None
        check = self._checks.get((function, fixed)) or self._checked(function, fixed)
        try:
            answer = check.believed(check.call(*cursor))
        except UnsupportedError:
            check.refused()
            self.failing.pop((function, fixed), None)
            if not check.answered:
                self._paused[function, fixed] = self._next_pause(times, ACCEPTED_AFTER_SECONDS)
            return None
        except DriverError as error:
            if isinstance(error, DeviceLostError | DriverGoneError) or not self._fails_alone(function, fixed, error):
                raise
            if self.failing[function, fixed].reads >= FAILS_ALONE_AFTER:
                self._paused[function, fixed] = self._next_pause(times, _MAX_RETRY_SECONDS)
            return None
        if self.failing or times:
            self.failing.pop((function, fixed), None)
            self._paused.pop((function, fixed), None)
        return answer

    def call(self, function: str, *args: Any) -> Any:
        """Call like `get`, but raise UnsupportedError where nothing is believed."""
        answer = self.get(function, *args)
        if answer is None:
            raise UnsupportedError(f"{function}: no plausible answer")
        return answer

    def _fails_alone(self, function: str, args: tuple[Any, ...], error: DriverError) -> bool:
        """Return whether to go on without this answer: it never was there, or fails again and again."""
        if function not in SINGLE and (self._collector, function) not in _APART:
            return False
        before = self.failing.get((function, args))
        reads = 1 if before is None else before.reads + (before.at != self.now)
        self.failing[function, args] = Failing(self._collector, reads, self.now, str(error))
        history = self._histories.get(_reading_key(function, args))
        return reads >= FAILS_ALONE_AFTER or history is None or not history.answered

    def _next_pause(self, times: int, longest: float) -> tuple[int, MonotonicTime]:
        return times + 1, self.now + min(_RETRY_SECONDS * 2.0 ** min(times, 16), longest)

    def history(self, key: Key, rule: Rule | None = None) -> History:
        known = self._histories.get(key)
        if known is None:
            known = self._histories[key] = History(key, rule)
        return known

    def accept(self, history: History) -> None:
        self.refused.pop(history, None)

    def refuse(self, history: History) -> None:
        if not history.answered:
            return
        _, since = self.refused.setdefault(history, (self._collector, self.now))
        if self.now - since >= ACCEPTED_AFTER_SECONDS:
            history.answered = False
            del self.refused[history]

    def reject(self, name: str, answer: object) -> None:
        self.rejected.append(f"{name} answered {str(answer)[:40]}, which is implausible")

    def _meet_device(self, device: Device) -> None:
        self._device = device
        self._checks, self._paused = {}, {}
        self.index, self.uuid, self.pci_bus_id, self.minor = device.index, device.uuid, device.pci_bus_id, device.minor
        self.parent_uuid, self.mig = device.parent_uuid, device.mig
        self.instances, self.system_memory = device.instances, device.system_memory

    def _checked(self, function: str, fixed: tuple[Any, ...]) -> Check:
        call = self._device.prepared(function, *fixed)
        check = (
            FieldCheck(self, call, *fixed)
            if function == _FIELDS
            else AnswerCheck(self, call, _reading_key(function, fixed))
        )
        self._checks[function, fixed] = check
        return check


def _reading_key(function: str, args: tuple[Any, ...]) -> Key:
    """Return what distinguishes a reading that is not checked from another: the function, and which samples."""
    return (function, *args) if function in FUNCTIONS or function in CURSORS else (function,)
