"""Every driver call the collectors make: which they are, what one costs, and which an ordinary user may make."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from exporter.collectors import COLLECTORS
from exporter.collectors.base import Scope, Tick
from exporter.driver.interface import Device, DriverError
from exporter.tools.capture.replay import BY_METRIC, key_of
from tests.hardware.figures import timing

Call = tuple[str, tuple[Any, ...]]

_TIMES, _LONGEST = 300, 1.5
"""Calls and seconds at most to time one function by."""
_BETWEEN: Mapping[str, float] = {BY_METRIC: 0.1}
"""Seconds to wait between calls of a function that has a shortest interval."""
_NOT_USED: tuple[Call, ...] = (
    ("nvmlDeviceGetIndex", ()),
    ("nvmlDeviceGetFieldValues", (((83, 0),),)),
    ("nvmlDeviceGetFieldValues", (tuple((field, 0) for field in range(1, 61)),)),
    ("nvmlDeviceGetPcieThroughput", (0,)),
)
"""To compare with: the least a call can cost, batches of 1 and of 60 fields, and the call that is avoided."""


class _Noting(Device):
    def __init__(self, device: Device, calls: dict[str, Call]) -> None:
        self._device = device
        self._calls = calls
        self.index, self.uuid, self.pci_bus_id = device.index, device.uuid, device.pci_bus_id
        self.minor, self.parent_uuid, self.mig = device.minor, device.parent_uuid, device.mig
        self.instances = tuple(_Noting(each, {}) for each in device.instances)

    def call(self, function: str, *args: Any) -> Any:
        self._calls[key_of(function, args)] = (function, args)
        return self._device.call(function, *args)


def used(device: Device) -> Mapping[str, Call]:
    """The calls of a cycle, by a name; a cursor into a sample buffer is that of the second cycle."""
    calls: dict[str, Call] = {}
    noting = _Noting(device, calls)
    readings: dict[str, Any] = {}
    for seconds in (0.0, 1.0):
        for collector in COLLECTORS:
            if collector.scope is not Scope.GPU:
                continue
            try:
                tick = Tick(time.time(), seconds)
                readings[collector.name] = collector.read(noting, readings.get(collector.name), tick)
            except DriverError:
                continue
    return calls


def label(call: Call) -> str:
    """Short: a batch is named by how many it asks for, the first and the last."""
    function, args = call
    if args and isinstance(args[0], tuple):
        first, last = (part[0] if isinstance(part, tuple) else part for part in (args[0][0], args[0][-1]))
        return f"{function} of {len(args[0])}, {first} to {last}"
    return f"{function}({', '.join(map(str, args))})" if args else function


def outcome(device: Device, call: Call) -> str:
    """`ok`, or NVML's name of the error."""
    try:
        device.call(call[0], *call[1])
    except DriverError as error:
        return error.code
    return "ok"


def costs(device: Device, calls: Sequence[Call], scale: float = 1.0) -> list[dict[str, Any]]:
    """µs per call through the driver seam, so with the exporter's own work; the first call is left out."""
    return [_cost(device, call, scale) for call in (*_NOT_USED, *calls)]


def _cost(device: Device, call: Call, scale: float) -> dict[str, Any]:
    told = outcome(device, call)
    spans: list[float] = []
    until = time.monotonic() + _LONGEST * scale
    between = _BETWEEN.get(call[0], 0.0) * scale
    while not spans or (len(spans) < _TIMES and time.monotonic() < until):
        time.sleep(between)
        began = time.perf_counter()
        outcome(device, call)
        spans.append(time.perf_counter() - began)
    return {"call": label(call), "outcome": told, **asdict(timing(spans))}
