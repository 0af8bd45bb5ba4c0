"""GPUs and MIG instances that come and go while a driver is recorded come and go in the replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from exporter.collectors import COLLECTORS
from exporter.core.units import Fraction
from exporter.driver.interface import Device, Driver, Mig, UnsupportedError, XidEvent
from exporter.tools.capture.record import record
from exporter.tools.capture.replay import CaptureDriver
from tests.unit.capture.test_record_and_replay import Clock

SHOWN: Mapping[float, Mapping[str, tuple[str, ...]]] = {
    0.0: {"GPU-a": ("MIG-1", "MIG-2")},
    2.0: {"GPU-a": ("MIG-1",), "GPU-b": ()},
    4.0: {"GPU-a": ("MIG-1", "MIG-3"), "GPU-b": ()},
}
"""MIG instances by GPU, from each second on."""


class _Named(Device):
    pci_bus_id = ""
    minor = None

    def __init__(self, uuid: str, instances: tuple[Device, ...] = (), parent: str = "") -> None:
        self.index = 0
        self.uuid = uuid
        self.instances = instances
        self.parent_uuid = parent
        self.mig = Mig(1, 0, "1g.10gb", Fraction(0.5)) if parent else None

    def call(self, function: str, *args: Any) -> Any:
        del args
        if function == "nvmlDeviceGetName":
            return self.uuid
        raise UnsupportedError(function)


class _Changing(Driver):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def open(self) -> None: ...

    def close(self) -> None: ...

    def devices(self) -> tuple[Device, ...]:
        shown = SHOWN[max(time for time in SHOWN if time <= self._clock.time)]
        return tuple(
            _Named(gpu, tuple(_Named(uuid, parent=gpu) for uuid in instances)) for gpu, instances in shown.items()
        )

    def call(self, function: str, *args: Any) -> Any:
        del args
        raise UnsupportedError(function)

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        raise UnsupportedError(str(timeout))


def test_replay_shows_each_while_it_was_there() -> None:
    clock = Clock(0.0)
    capture = record(_Changing(clock), 6, collectors=COLLECTORS, clock=clock, sleep=clock.sleep, mask=False)
    clock.time = 100.0
    replay = CaptureDriver(json.loads(json.dumps(capture)), clock)
    replay.open()
    before = replay.devices()

    for time, shown in SHOWN.items():
        for clock.time in (100.0 + time, 101.0 + time):
            found = {gpu.uuid: tuple(each.uuid for each in gpu.instances) for gpu in replay.devices()}
            assert found == shown
            assert all(
                each.call("nvmlDeviceGetName") == each.uuid for gpu in replay.devices() for each in gpu.instances
            )
    assert [each.uuid for each in before[0].instances] == ["MIG-1", "MIG-2"]  # who holds what was shown keeps it


def test_names_of_instances_that_are_gone_are_masked() -> None:
    clock = Clock(0.0)
    capture = record(_Changing(clock), 6, collectors=COLLECTORS, clock=clock, sleep=clock.sleep)

    text = json.dumps(capture)
    assert not [name for name in ("GPU-a", "GPU-b", "MIG-1", "MIG-2", "MIG-3") if f'"{name}"' in text]
