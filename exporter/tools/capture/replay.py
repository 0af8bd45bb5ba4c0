"""A driver that returns recorded answers, each at its time, and the JSON form of an answer."""

from __future__ import annotations

import bisect
import json
import math
import time as wall
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from exporter.core import site_file
from exporter.core.clock import UnixTime
from exporter.core.units import Fraction
from exporter.driver.interface import (
    Device,
    DeviceLostError,
    Driver,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    Mig,
    Record,
    UnsupportedError,
    XidEvent,
)

_ERRORS: Mapping[str, type[DriverError]] = {
    error.__name__: error
    for error in (DriverError, UnsupportedError, DeviceLostError, DriverGoneError, DriverMismatchError)
}
_PLAIN = (str, int, float, bool)


def encode(answer: Any) -> Any:
    """JSON for an answer, or for the DriverError it was. Raises TypeError for what is not plain data.

    Tuples are JSON lists; everything else that JSON has no word for is an object with one key that names it.
    """
    if isinstance(answer, DriverError):
        name = type(answer).__name__ if type(answer).__name__ in _ERRORS else DriverError.__name__
        return {"error": name, "code": answer.code, "message": str(answer)}
    if isinstance(answer, Record):
        return {"record": {name: encode(value) for name, value in vars(answer).items()}}
    if isinstance(answer, tuple | list):
        return [encode(item) for item in cast("list[Any]", answer)]
    if isinstance(answer, dict):
        pairs = cast("Mapping[Any, Any]", answer)
        return {"map": [[encode(key), encode(value)] for key, value in pairs.items()]}
    if isinstance(answer, float) and not math.isfinite(answer):
        return {"float": repr(answer)}
    if answer is None or isinstance(answer, _PLAIN):
        return answer
    raise TypeError(f"{type(answer).__name__} is no plain data")


def decode(value: Any) -> Any:
    """The answer behind JSON; a DriverError is returned. Raises ValueError for what `encode` never wrote."""
    if isinstance(value, list):
        return tuple(decode(item) for item in cast("Sequence[Any]", value))
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    try:
        if "record" in fields:
            return Record(**{name: decode(item) for name, item in fields["record"].items()})
        if "map" in fields:
            return {decode(key): decode(item) for key, item in fields["map"]}
        if "float" in fields:
            return float(fields["float"])
        return _ERRORS[fields["error"]](str(fields["message"]), str(fields["code"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"answer {value!r}; expected a record, map, float or error") from error


FORMAT = "gpu-exporter capture"
VERSION = 1
BY_FIELD = "nvmlDeviceGetFieldValues"
BY_METRIC = "nvmlGpmMetricsGet"
SAMPLES = "nvmlDeviceGetSamples"
PROCESS_SAMPLES = frozenset({"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"})
_EVENT_STEP_SECONDS = 0.1
_MAX_BYTES = 256 << 20
"""Bytes: an hour of eight GPUs."""


def key_of(function: str, args: Sequence[Any]) -> str:
    """The key an answer is filed under; a cursor into a sample buffer is no part of it."""
    if function in PROCESS_SAMPLES:
        args = ()
    elif function == SAMPLES:
        args = args[:1]
    return json.dumps([function, *args], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Answers of one call with the times, in seconds since the start, from which they hold."""

    times: tuple[float, ...]
    answers: tuple[Any, ...]

    def at(self, time: float) -> Any:
        """The answer at `time`; before the first it is the first."""
        return self.answers[max(0, bisect.bisect_right(self.times, time) - 1)]

    def until(self, time: float) -> tuple[Any, ...]:
        """All answers so far."""
        return self.answers[: max(1, bisect.bisect_right(self.times, time))]


class _Moment:
    """The time of the replay, for all devices of a driver."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.began: float | None = None

    def now(self) -> float:
        """Seconds since the driver was first opened."""
        if self.began is None:
            self.began = self._clock()
        return self._clock() - self.began


class CaptureDriver(Driver):
    """`clock` is in seconds, of any origin; the capture begins when the driver is first opened."""

    simulated = True

    def __init__(
        self,
        capture: Mapping[str, Any],
        clock: Callable[[], float] = wall.time,
        sleep: Callable[[float], None] = wall.sleep,
    ) -> None:
        """Raises ValueError, one line that reports what was expected, where `capture` is none."""
        self._moment = _Moment(clock)
        self._sleep = sleep
        self._seen = -1.0
        self._last: dict[str, Device] = {}
        """Devices shown last, by uuid, of GPUs whose instances have changed."""
        if capture.get("format") != FORMAT or capture.get("version") != VERSION:
            raise ValueError(f"not a capture; expected format {FORMAT!r}, version {VERSION}")
        try:
            self._system = _parse_timelines(capture["system"])
            self._devices = tuple(_CaptureDevice(entry, self._moment) for entry in capture["devices"])
            self._events = tuple((float(at), XidEvent(str(uuid), int(xid), UnixTime(float(stamp))))
                                 for at, uuid, xid, stamp in capture["events"])  # fmt: skip
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, RecursionError) as error:
            reason = " ".join(f"{type(error).__name__} {error}".split())
            raise ValueError(f"not a capture ({reason}); expected what `gpu-exporter capture` writes") from error

    def open(self) -> None:
        self._moment.now()

    def close(self) -> None:
        """Nothing to release."""

    def devices(self) -> tuple[Device, ...]:
        return tuple(self._shown(device) for device in self._devices if device.present)

    def _shown(self, device: _CaptureDevice) -> Device:
        instances, last = device.present_instances(), self._last.get(device.uuid, device)
        if instances != last.instances:
            last = self._last[device.uuid] = device.holding(instances)
        return last

    def call(self, function: str, *args: Any) -> Any:
        return _answer_at(self._system, function, args, self._moment.now())

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        deadline = self._moment.now() + timeout
        while True:
            now = self._moment.now()
            found = tuple(event for at, event in self._events if self._seen < at <= now)
            self._seen = max(now, self._seen)
            if found or now >= deadline:
                return found
            self._sleep(min(_EVENT_STEP_SECONDS, deadline - now))


class _CaptureDevice(Device):
    def __init__(self, entry: Mapping[str, Any], moment: _Moment) -> None:
        self._moment = moment
        self._calls = _parse_timelines(entry["calls"])
        self._present = _parse_timeline(entry["present"])
        self.index = int(entry["index"])
        self.uuid = str(entry["uuid"])
        self.pci_bus_id = str(entry["pci_bus_id"])
        self.minor = None if entry["minor"] is None else int(entry["minor"])
        self.parent_uuid = str(entry["parent_uuid"])
        mig = entry["mig"]
        self.mig = None if mig is None else Mig(int(mig[0]), int(mig[1]), str(mig[2]), Fraction(mig[3]))
        self._recorded = tuple(_CaptureDevice(each, moment) for each in entry["instances"])
        self.instances = self._recorded

    def present_instances(self) -> tuple[Device, ...]:
        return tuple(each for each in self._recorded if each.present)

    def holding(self, instances: tuple[Device, ...]) -> Device:
        """Another object with these, as a driver gives it: who holds this one keeps what was there."""
        other = copy(self)
        other.instances = instances
        return other

    @property
    def present(self) -> bool:
        return bool(self._present.at(self._moment.now()))

    def call(self, function: str, *args: Any) -> Any:
        now = self._moment.now()
        if function in {BY_FIELD, BY_METRIC}:
            _answer_at(self._calls, function, (), now)  # raises where the batch as a whole failed
        if function == BY_FIELD:
            return tuple([self._part(function, list(field), now) for field in args[0]])
        if function == BY_METRIC:
            found = {metric: self._part(function, [metric], now, early=False) for metric in args[0]}
            return {metric: value for metric, value in found.items() if value is not None}
        if function in PROCESS_SAMPLES or function == SAMPLES:
            _answer_at(self._calls, function, args, now)
            after, timeline = args[-1] if args else 0, self._calls[key_of(function, args)]
            good = (answer for answer in timeline.until(now) if not isinstance(answer, DriverError))
            newer = (sample for answer in good for sample in answer if _sample_time(sample) > after)
            return tuple(sorted(newer, key=_sample_time))
        return _answer_at(self._calls, function, args, now)

    def _part(self, function: str, part: list[Any], now: float, *, early: bool = True) -> Any:
        """One entry of a batch; None where it was never answered, or unless `early` not yet (the first GPM call)."""
        timeline = self._calls.get(key_of(function, part))
        return timeline.at(now) if timeline and (early or timeline.times[0] <= now) else None


def load(path: str | Path, clock: Callable[[], float] = wall.time) -> CaptureDriver:
    """The driver of a capture file. Raises ValueError: one line that reports what was expected."""
    text = site_file.read(Path(path), _MAX_BYTES)
    try:
        capture = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); expected what `gpu-exporter capture` writes") from error
    if not isinstance(capture, dict):
        raise ValueError("not a capture; expected a JSON object")  # noqa: TRY004 - the user's file
    return CaptureDriver(cast("Mapping[str, Any]", capture), clock)


def _parse_timelines(entries: Mapping[str, Any]) -> dict[str, Timeline]:
    return {key: _parse_timeline(entry) for key, entry in entries.items()}


def _parse_timeline(entry: Sequence[Sequence[Any]]) -> Timeline:
    times = tuple(float(time) for time, _ in entry)
    if not times or list(times) != sorted(times):
        raise ValueError("a timeline is empty or out of order")
    return Timeline(times, tuple(decode(answer) for _, answer in entry))


def _answer_at(calls: Mapping[str, Timeline], function: str, args: Sequence[Any], now: float) -> Any:
    timeline = calls.get(key_of(function, args))
    if timeline is None:
        raise UnsupportedError(f"{function}: not in the capture")
    answer = timeline.at(now)
    if isinstance(answer, DriverError):
        raise type(answer)(str(answer), answer.code)  # a fresh one: raised twice, it would chain tracebacks
    return answer


def _sample_time(sample: Any) -> int:
    return int(sample.timeStamp) if isinstance(sample, Record) else int(sample[0])
