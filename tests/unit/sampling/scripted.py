"""GPUs and a driver made of plain functions, and a collector of one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from exporter.collectors.base import Collector, Pace, Scope, Tick
from exporter.core.families import Unit, counter
from exporter.driver.interface import (
    Device,
    Driver,
    Mig,
    UnsupportedError,
    XidEvent,
)

DEADLINE = 10.0


class Scripted(Device):
    """A device whose every call is one function."""

    def __init__(self, index: int, answer: Callable[[str], Any], mig: Mig | None = None) -> None:
        self.index, self.uuid, self.pci_bus_id, self.minor, self.mig = index, f"GPU-{index}", "", index, mig
        self._answer = answer

    def call(self, function: str, *args: Any) -> Any:
        del args
        return self._answer(function)


class ScriptedDriver(Driver):
    def __init__(self, devices: Callable[[], tuple[Device, ...]], opening: Callable[[], None] = lambda: None) -> None:
        self._devices, self._opening = devices, opening

    def open(self) -> None:
        self._opening()

    def close(self) -> None:
        pass

    def devices(self) -> tuple[Device, ...]:
        return self._devices()

    def call(self, function: str, *args: Any) -> Any:
        raise UnsupportedError(f"{function}{args}")

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        raise UnsupportedError(f"events {timeout}")


@dataclass(frozen=True, slots=True)
class Value:
    value: float | None


def collector(name: str, pace: Pace = Pace.CYCLE, scope: Scope = Scope.GPU) -> Collector[Value]:
    def read(device: Device, _previous: Value | None, _tick: Tick) -> Value:
        return Value(device.call(name))

    family = counter(f"gpu_{name}_total", "A test.", Unit.NONE, lambda v: v.value)
    return Collector(name=name, help="A test.", pace=pace, read=read, families=(family,), scope=scope)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.005)


def answers(**values: Any) -> Callable[[str], Any]:
    def answer(function: str) -> Any:
        value = values[function]
        if isinstance(value, Exception):
            raise value
        return value

    return answer
