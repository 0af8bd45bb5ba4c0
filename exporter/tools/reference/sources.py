"""From which driver calls each device metric is made: found on simulated nodes, by refusing one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from exporter.collectors.base import AnyCollector, Scope, Tick
from exporter.core.clock import UnixTime
from exporter.core.families import Sample
from exporter.driver import constants
from exporter.driver.interface import Device, DriverError, UnsupportedError
from exporter.tools.simulator import simulate

_NODES = (
    "2xH200:training", "2xA100-mig:training", "2xH100-mig:training", "2xB200:training",
    "2xV100:training", "2xRTX4090:training", "2xT4:training;driver=470.82.01",
    "2xL40S:inference", "2xA10:training;driver=525.60.13",
)  # fmt: skip
_START, _PASSES, _PASS = 1_700_000_000.0, 3, 31.0
"""Each pass is long enough for everything to be due."""
_FIELDS = "nvmlDeviceGetFieldValues"

Shown = Mapping[str, tuple[Sample, ...]]


class _Refusing(Device):
    """A device that refuses some calls; `answered` are those it answered. A field is a call of its own."""

    def __init__(self, device: Device, allowed: Callable[[str], bool], answered: set[str]) -> None:
        self.index, self.uuid, self.pci_bus_id, self.minor = device.index, device.uuid, device.pci_bus_id, device.minor
        self.parent_uuid, self.mig = device.parent_uuid, device.mig
        self.instances = tuple(_Refusing(each, allowed, answered) for each in device.instances)
        self._device, self._allowed, self._answered = device, allowed, answered

    def call(self, function: str, *args: Any) -> Any:
        if function == _FIELDS:
            return self._fields(args[0])
        if not self._allowed(function):
            raise UnsupportedError(f"{function}: refused")
        answer = self._device.call(function, *args)
        self._answered.add(function)
        return answer

    def _fields(self, wanted: Collection[tuple[int, int]]) -> tuple[Any, ...]:
        answers = self._device.call(_FIELDS, wanted)
        kept = [
            answer if self._allowed(_name(field)) else None for (field, _), answer in zip(wanted, answers, strict=True)
        ]
        self._answered.update(
            _name(field) for (field, _), answer in zip(wanted, kept, strict=True) if answer is not None
        )
        return tuple(kept)


@cache
def _field_names() -> Mapping[int, str]:
    return {value: name for name, value in vars(constants).items() if name.startswith("NVML_FI_")}


def _name(field: int) -> str:
    return _field_names().get(field, f"field {field}")


def _shown(collector: AnyCollector, spec: str, allowed: Callable[[str], bool], answered: set[str]) -> Shown:
    """The samples by family after some passes on a simulated node; families without any are left out."""
    now = [_START]
    driver = simulate(spec, lambda: now[0])
    driver.open()
    target = next(iter(_targets(driver.devices(), collector.scope)), None)
    if target is None:
        return {}
    device, reading = _Refusing(target, allowed, answered), None
    for _ in range(_PASSES):
        now[0] += _PASS
        try:
            reading = collector.read(device, reading, Tick(UnixTime(now[0]), _PASS))
        except DriverError:
            return {}
    samples = {family.name: family.collect(reading) for family in collector.families}
    return {name: found for name, found in samples.items() if found}


def _targets(devices: Iterable[Device], scope: Scope) -> Iterator[Device]:
    for device in devices:
        if scope is Scope.GPU:
            yield device
        else:
            yield from device.instances


@cache
def sources(collector: AnyCollector) -> Mapping[str, tuple[str, ...]]:
    """By family, the calls without which its samples would be others, on any of the nodes.

    Where calls stand in for each other, those of which each alone is enough.
    """
    found: dict[str, set[str]] = {family.name: set() for family in collector.families}
    for spec in _NODES:
        for name, calls in _needed(collector, spec).items():
            found[name] |= calls
    for spec in _NODES if not all(found.values()) else ():
        for name, calls in _enough(collector, spec, {name for name, calls in found.items() if not calls}).items():
            found[name] |= calls
    return {name: tuple(sorted(calls)) for name, calls in found.items()}


def _needed(collector: AnyCollector, spec: str) -> Mapping[str, set[str]]:
    whole, answered = _whole(collector, spec)
    found: dict[str, set[str]] = {name: set() for name in whole}
    for call in answered:
        without = _shown(collector, spec, _all_but(call), set())
        for name in whole:
            if without.get(name) != whole[name]:
                found[name].add(call)
    return found


def _enough(collector: AnyCollector, spec: str, names: set[str]) -> Mapping[str, set[str]]:
    whole, answered = _whole(collector, spec)
    for call in tuple(answered):  # what is asked only where another has no answer
        _shown(collector, spec, _all_but(call), answered)
    shown = {call: _shown(collector, spec, _only(call), set()) for call in answered}
    return {name: {call for call, alone in shown.items() if name in alone} for name in names & whole.keys()}


def _whole(collector: AnyCollector, spec: str) -> tuple[Shown, set[str]]:
    answered: set[str] = set()
    return _shown(collector, spec, _all_but(""), answered), answered


def _all_but(call: str) -> Callable[[str], bool]:
    return lambda called: called != call


def _only(call: str) -> Callable[[str], bool]:
    return lambda called: called == call
