"""Record what the driver answers to every collector, for a bug report or a test; `replay` gives it again.

    {"format": "gpu-exporter capture", "version": 1, "start": Unix seconds, "simulated": …, "driver": …,
     "system":  {call: timeline},
     "devices": [{"index": …, "uuid": …, …, "present": timeline, "calls": {call: timeline}, "instances": […]}],
     "events":  [[seconds, uuid, xid, Unix seconds]]}

A call is `["function",arguments…]`; a timeline is `[[seconds since the start, answer], …]` with an entry for each
change. Field values and GPM metrics are filed one by one, so that another exporter may ask them in other batches.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time as wall
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from exporter import __version__
from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector, Scope, Tick
from exporter.core.clock import UnixTime
from exporter.core.threads import run_with_timeout
from exporter.driver.interface import GPM_SECONDS, Device, Driver, DriverError
from exporter.tools.capture.replay import BY_FIELD, BY_METRIC, FORMAT, VERSION, encode, key_of

log = logging.getLogger(__name__)

_SYSTEM = ("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion")
_ALWAYS = ("nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetUUID")
"""Asked once of every device, whichever collectors run: names make a capture readable, the others are masked."""

_CALL_TIMEOUT_SECONDS = 5.0
"""Seconds for the driver to answer, and again for all that one GPU is asked in a cycle."""


@dataclass(slots=True)
class _Log:
    """Timelines by call."""

    calls: dict[str, list[list[Any]]] = field(default_factory=dict[str, "list[list[Any]]"])

    def add(self, time: float, key: str, answer: Any) -> None:
        timeline = self.calls.setdefault(key, [])
        encoded = encode(answer)
        if not timeline or timeline[-1][1] != encoded:
            timeline.append([time, encoded])

    def copy(self) -> _Log:
        return _Log({key: list(timeline) for key, timeline in self.calls.items()})


class RecordingDevice(Device):
    """Passes every call on and files its answer."""

    def __init__(
        self,
        device: Device,
        log: _Log,
        now: Callable[[], float],
        logs: Mapping[str, _Log],
        asked: list[str] | None = None,
    ) -> None:
        self._device = device
        self._log = log
        self._now = now
        self.index = device.index
        self.uuid = device.uuid
        self.pci_bus_id = device.pci_bus_id
        self.minor = device.minor
        self.parent_uuid = device.parent_uuid
        self.mig = device.mig
        self.asked = [] if asked is None else asked
        """The last call, also of its instances."""
        self.instances = tuple(
            RecordingDevice(each, logs[each.uuid], now, logs, self.asked) for each in device.instances
        )

    def call(self, function: str, *args: Any) -> Any:
        self.asked[:] = [function]
        try:
            answer = self._device.call(function, *args)
        except DriverError as error:
            args = () if function in {BY_FIELD, BY_METRIC} else args
            self._log.add(self._now(), key_of(function, args), error)
            raise
        for key, part in _answer_parts(function, args, answer):
            self._log.add(self._now(), key, part)
        return answer


def record(  # noqa: PLR0913 - the seams of a recording
    driver: Driver,
    seconds: float,
    interval: float = 1.0,
    *,
    mask: bool = True,
    collectors: Sequence[AnyCollector] = COLLECTORS,
    clock: Callable[[], float] = wall.time,
    sleep: Callable[[float], None] = wall.sleep,
    timeout: float = _CALL_TIMEOUT_SECONDS,
) -> dict[str, Any]:
    """Let the collectors read for `seconds`, once per `interval`, and return what `write` writes.

    The driver must be open. `mask` replaces serial numbers, UUIDs and PCI addresses, the same one always by the same.
    A GPU that hangs is asked no more; what it answered before is recorded, as is what one fails.
    Raises DriverGoneError when the driver goes, TimeoutError where all of it hangs.
    """
    recorder = _Recorder(driver, collectors, clock, timeout)
    deadline = clock() + seconds
    while True:
        recorder.run_cycle()
        left = deadline - clock()
        if left <= 0:
            break
        sleep(min(interval, left))
    capture = recorder.capture()
    return masked(capture) if mask else capture


def write(capture: Mapping[str, Any], path: Path) -> None:
    """Write a capture as JSON, one call a line. Raises OSError."""
    path.write_text(_json_lines(capture, 0) + "\n", encoding="utf-8")


class _Recorder:
    def __init__(
        self, driver: Driver, collectors: Sequence[AnyCollector], clock: Callable[[], float], timeout: float
    ) -> None:
        self._driver = driver
        self._timeout = timeout
        self._hanging: set[str] = set()
        self._collectors = collectors
        self._clock = clock
        self._start = clock()
        self._system = _Log()
        self._logs: dict[str, _Log] = {}
        self._devices: dict[str, Device] = {}
        self._instances: dict[str, dict[str, Device]] = {}
        """Instances by uuid of the GPU and by their own; those that are gone, too."""
        self._presence: dict[str, _Log] = {}
        self._read: dict[tuple[str, str], tuple[float, Any]] = {}
        self._events: list[list[Any]] = []

    def now(self) -> float:
        return round(self._clock() - self._start, 6)

    def run_cycle(self) -> None:
        present = run_with_timeout(self._timeout, self._present_devices)
        for device in present.values():
            self._meet_device(device)
        self._note_presence(present.values())
        for device in present.values():
            if device.uuid not in self._hanging:
                self._read_in_time(RecordingDevice(device, self._logs[device.uuid], self.now, self._logs))
        run_with_timeout(self._timeout, self._take_events)

    def _present_devices(self) -> Mapping[str, Device]:
        for function in _SYSTEM:
            self._system.add(self.now(), key_of(function, ()), _call_outcome(self._driver, function))
        return {device.uuid: device for device in self._driver.devices()}

    def _read_in_time(self, device: RecordingDevice) -> None:
        try:
            run_with_timeout(self._timeout, lambda: self._read_device(device))
        except TimeoutError:
            log.warning("GPU %d hangs: no answer to %s", device.index, *device.asked)
            self._hanging.add(device.uuid)
            for target in (device, *device.instances):  # its thread may still write to the ones there were
                self._logs[target.uuid] = self._logs[target.uuid].copy()

    def capture(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "exporter": __version__,
            "simulated": self._driver.simulated,
            "start": self._start,
            "system": self._system.calls,
            "devices": [self._device_entry(device) for device in self._devices.values()],
            "events": self._events,
        }

    def _meet_device(self, device: Device) -> None:
        """Take note of a device seen for the first time, and of instances made since."""
        self._devices[device.uuid] = device
        self._instances.setdefault(device.uuid, {}).update({each.uuid: each for each in device.instances})
        for target in (device, *device.instances):
            self._logs.setdefault(target.uuid, _Log())

    def _note_presence(self, present: Iterable[Device]) -> None:
        there = {target.uuid for device in present for target in (device, *device.instances)}
        first = not self._presence
        for uuid in self._logs:
            if uuid not in self._presence:
                self._presence[uuid] = _Log()
                if not first:
                    self._presence[uuid].add(0.0, "present", False)  # noqa: FBT003 - a call and its answer
            self._presence[uuid].add(self.now(), "present", uuid in there)

    def _read_device(self, device: RecordingDevice) -> None:
        for target in (device, *device.instances):
            if not self._logs[target.uuid].calls:
                for function in _ALWAYS:
                    _call_outcome(target, function)
            for collector in self._collectors:
                if (collector.scope is Scope.INSTANCE) == (target.mig is not None):
                    self._collect_once(target, collector)

    def _collect_once(self, target: Device, collector: AnyCollector) -> None:
        key = (target.uuid, collector.name)
        now = self._clock()
        last, previous = self._read.get(key, (now, None))
        if previous is not None and now - last < collector.pace.value:
            return
        try:
            self._read[key] = (now, collector.read(target, previous, Tick(UnixTime(now), now - last)))
        except DriverError:
            return  # recorded as the answer it is

    def _take_events(self) -> None:
        try:
            events = self._driver.events(0.0)
        except DriverError:
            return
        self._events += [[self.now(), event.uuid, event.xid, event.timestamp] for event in events]

    def _device_entry(self, device: Device) -> dict[str, Any]:
        mig = device.mig
        return {
            "index": device.index,
            "uuid": device.uuid,
            "pci_bus_id": device.pci_bus_id,
            "minor": device.minor,
            "parent_uuid": device.parent_uuid,
            "mig": [mig.gpu_instance, mig.compute_instance, mig.profile, mig.share] if mig else None,
            "present": self._presence[device.uuid].calls["present"],
            "calls": self._logs[device.uuid].calls,
            "instances": [self._device_entry(each) for each in self._instances.get(device.uuid, {}).values()],
        }


def _call_outcome(source: Device | Driver, function: str) -> Any:
    try:
        return source.call(function)
    except DriverError as error:
        return error


def _answer_parts(function: str, args: Sequence[Any], answer: Any) -> list[tuple[str, Any]]:
    if function == BY_FIELD:
        parts = [(key_of(function, list(arguments)), value) for arguments, value in zip(args[0], answer, strict=True)]
        return [(key_of(function, ()), None), *parts]
    if function == BY_METRIC:
        parts = [(key_of(function, [metric]), value) for metric, value in answer.items() if metric != GPM_SECONDS]
        return [(key_of(function, ()), {}), *parts]
    return [(key_of(function, args), answer)]


def _json_lines(value: Any, depth: int) -> str:
    """JSON broken into lines down to the timelines."""
    indent, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict):
        entries = cast("Mapping[str, Any]", value)
        lines = [f"{indent}{json.dumps(key)}: {_json_lines(item, depth + 1)}" for key, item in entries.items()]
        return "{" + ",".join(lines) + end + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        items = cast("Sequence[Any]", value)
        return "[" + ",".join(indent + _json_lines(item, depth + 1) for item in items) + end + "]"
    return json.dumps(value, separators=(",", ":"))


_CLUSTER = ("nvmlDeviceGetGpuFabricInfoV", "clusterUuid")
_NUMBERED = (("nvmlDeviceGetPlatformInfo", "ibGuid"), ("nvmlDeviceGetPlatformInfo", "chassisSerialNumber"))
"""Their digest could be found by trying all there can be, as that of a random UUID cannot."""
_TELLING = 6
"""Characters of a name that can be distinguished from any other text."""


def masked(capture: dict[str, Any]) -> dict[str, Any]:
    """Return the capture with other serial numbers, UUIDs, PCI addresses and names of places."""
    return cast("dict[str, Any]", _mask_texts(capture, _uuid_masks(capture)))


def _uuid_masks(capture: Mapping[str, Any]) -> dict[str, str]:
    """Return the replacement of every name that shows which machine this was."""
    found: dict[str, str] = {}
    for device in capture["devices"]:
        for target in (device, *device["instances"]):
            prefix, _, rest = target["uuid"].partition("-")
            digest = hashlib.sha256(rest.encode()).hexdigest()
            groups = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
            found[target["uuid"]] = "-".join((prefix, *groups))
        bus = device["pci_bus_id"]
        masked = f"0000:{0x10 + device['index']:02x}:00.0"
        if bus:
            found |= {f"0000{bus}".upper(): f"0000{masked}".upper(), bus.upper(): masked.upper(), bus: masked}
        for _, serial in device["calls"].get(key_of("nvmlDeviceGetSerial", ()), []):
            if isinstance(serial, str):
                found[serial] = f"{device['index']:013d}"
        for value in _reported_values(device["calls"], *_CLUSTER):
            found[value] = hashlib.sha256(value.encode()).hexdigest()[: len(value)]
    for place in _NUMBERED:
        names = dict.fromkeys(
            value for device in capture["devices"] for value in _reported_values(device["calls"], *place)
        )
        found |= {value: f"{number:0{len(value)}d}" for number, value in enumerate(names, 1)}
    return found


def _reported_values(calls: Mapping[str, Any], function: str, name: str) -> Iterator[str]:
    """Return what the driver reported there: zeros are nothing."""
    for _, answer in calls.get(key_of(function, ()), []):
        recorded: Mapping[str, Any] = cast("Any", answer).get("record", {}) if isinstance(answer, dict) else {}
        value = recorded.get(name)
        if isinstance(value, str) and value.strip("0"):
            yield value


def _mask_texts(value: Any, masks: Mapping[str, str]) -> Any:
    """Texts alone hold names: the digits of a short serial number are in every number too."""
    telling = sorted((name for name in masks if len(name) >= _TELLING), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, telling)) or r"(?!)")

    def text(plain: str) -> str:
        return masks[plain] if plain and plain in masks else pattern.sub(lambda match: masks[match[0]], plain)

    def whole(part: Any) -> Any:
        if isinstance(part, str):
            return text(part)
        if isinstance(part, list):
            return [whole(each) for each in cast("Sequence[Any]", part)]
        if isinstance(part, dict):
            return {text(key): whole(each) for key, each in cast("dict[str, Any]", part).items()}
        return part

    return whole(value)
