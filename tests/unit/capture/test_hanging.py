"""Recording a node of which something hangs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.driver.interface import Device
from exporter.tools.capture.record import RecordingDevice, _Log, record
from exporter.tools.simulator import SimulatedDriver, parse


class Hanging(Device):
    """Passes its calls on until one hangs."""

    def __init__(self, device: Device, function: str, ended: threading.Event) -> None:
        self._device, self._function, self._ended = device, function, ended
        self.index, self.uuid, self.pci_bus_id, self.minor = device.index, device.uuid, device.pci_bus_id, device.minor

    def call(self, function: str, *args: Any) -> Any:
        if function == self._function:
            self._ended.wait()
        return self._device.call(function, *args)


class HalfHanging(SimulatedDriver):
    """Its first GPU hangs at one call; with no such call, the driver itself does."""

    def __init__(self, function: str, ended: threading.Event) -> None:
        super().__init__(parse("2xH200"))
        self._function, self._ended = function, ended

    def devices(self) -> tuple[Device, ...]:
        if not self._function:
            self._ended.wait()
        first, *others = super().devices()
        return (Hanging(first, self._function, self._ended), *others)


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_gpu_that_hangs_leaves_the_recording_of_the_others(
    ended: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    driver = HalfHanging("nvmlDeviceGetBAR1MemoryInfo", ended)

    first, second = record(driver, 0.01, interval=0.001, timeout=0.5)["devices"]

    assert "GPU 0 hangs: no answer to nvmlDeviceGetBAR1MemoryInfo" in caplog.text
    assert caplog.text.count("hangs") == 1
    assert "nvmlDeviceGetName" in json.dumps(first["calls"])
    assert "nvmlDeviceGetBAR1MemoryInfo" not in json.dumps(first["calls"])
    assert "nvmlDeviceGetBAR1MemoryInfo" in json.dumps(second["calls"])


def test_call_of_an_instance_that_hangs_is_named_as_its_gpus() -> None:
    (gpu,) = SimulatedDriver(parse("A100-mig")).devices()
    recording = RecordingDevice(gpu, _Log(), lambda: 0.0, {each.uuid: _Log() for each in gpu.instances})
    recording.call("nvmlDeviceGetName")
    recording.instances[-1].call("nvmlDeviceGetMemoryInfo")

    assert recording.asked == ["nvmlDeviceGetMemoryInfo"]


def test_a_driver_that_hangs_ends_the_recording(ended: threading.Event) -> None:
    with pytest.raises(TimeoutError):
        record(HalfHanging("", ended), 0.01, timeout=0.05)
