"""Recording a driver and replaying it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector, Scope, Tick
from exporter.driver.interface import (
    Device,
    DeviceLostError,
    Driver,
    DriverError,
    Record,
    UnsupportedError,
    XidEvent,
)
from exporter.tools.capture.record import masked, record, write
from exporter.tools.capture.replay import CaptureDriver, load
from exporter.tools.simulator import SimulatedDriver, parse
from tests.captures import simulated

EPOCH = 1_800_000_000.0
CAPTURES = sorted(simulated.folder().glob("*.json"))


@dataclass
class Clock:
    time: float = EPOCH

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def recorded(
    spec: str, *, seconds: float = 5.0, after: float = 100.0, mask: bool = False
) -> tuple[dict[str, Any], SimulatedDriver]:
    """A capture of a simulation that had been running for `after` seconds."""
    clock = Clock()
    driver = SimulatedDriver(parse(spec), clock, clock.sleep)
    driver.open()
    clock.time += after
    return record(driver, seconds, mask=mask, clock=clock, sleep=clock.sleep), driver


def readings(driver: Driver, clock: Clock, seconds: int) -> list[tuple[str, str, Any]]:
    """What every collector reads of every target in as many cycles, each at its pace."""
    previous: dict[tuple[str, str], tuple[float, Any]] = {}
    found: list[tuple[str, str, Any]] = []
    for _ in range(seconds):
        for target in [each for device in driver.devices() for each in (device, *device.instances)]:
            for collector in COLLECTORS:
                if (collector.scope is Scope.INSTANCE) == (target.mig is not None):
                    found += read_when_due(collector, target, previous, clock.time)
        clock.time += 1
    return found


def read_when_due(
    collector: AnyCollector, target: Device, previous: dict[tuple[str, str], tuple[float, Any]], now: float
) -> list[tuple[str, str, Any]]:
    """The reading, or the kind of error there was instead; nothing before its pace is over."""
    key = (target.uuid, collector.name)
    last, before = previous.get(key, (now, None))
    if before is not None and now - last < collector.pace.value:
        return []
    try:
        previous[key] = (now, collector.read(target, before, Tick(now, now - last)))
    except DriverError as error:
        return [(*key, type(error))]
    return [(*key, previous[key][1])]


@pytest.mark.parametrize(
    "spec", ["2xH200:training,free", "A100-mig:training,free,notebook", "V100:thermal+RTX4090:inference"]
)
def test_a_replay_reads_as_the_original(spec: str) -> None:
    capture, _ = recorded(spec)
    clock = Clock(EPOCH + 100)
    original = SimulatedDriver(parse(f"{spec};start={EPOCH:.0f}"), clock)
    original.open()
    expected = readings(original, clock, 5)
    clock.time = EPOCH + 100
    replay = CaptureDriver(json.loads(json.dumps(capture)), clock)
    replay.open()

    assert readings(replay, clock, 5) == expected


def test_the_last_answer_is_held() -> None:
    capture, _ = recorded("H200:training")
    clock = Clock(5.0)
    replay = CaptureDriver(capture, clock)
    replay.open()
    (device,) = replay.devices()
    energy = []
    for clock.time in (5.0, 8.0, 10.0, 1000.0):
        energy.append(device.call("nvmlDeviceGetTotalEnergyConsumption"))

    assert energy[0] < energy[1] < energy[2] == energy[3]
    assert replay.simulated
    assert replay.call("nvmlSystemGetDriverVersion") == "580.95.05"


def test_samples_come_once_and_only_as_far_as_the_replay_has_come() -> None:
    capture, _ = recorded("H200:training")
    clock = Clock(0.0)
    replay = CaptureDriver(capture, clock)
    replay.open()
    (device,) = replay.devices()
    clock.time = 2.0
    seen = device.call("nvmlDeviceGetSamples", 1, 0)
    clock.time = 3.0
    new = device.call("nvmlDeviceGetSamples", 1, seen[-1][0])

    assert EPOCH + 101.8 < seen[-1][0] / 1e6 <= EPOCH + 102
    assert [round(stamp / 1e6 - EPOCH - 102, 3) for stamp, _ in new] == [0.167, 0.333, 0.5, 0.667, 0.833, 1.0]
    assert device.call("nvmlDeviceGetSamples", 1, new[-1][0]) == ()


def test_a_gpu_lost_during_the_recording_is_lost_in_the_replay() -> None:
    capture, driver = recorded("2xH200:training;fault=lost:1@102.5", seconds=6)
    clock = Clock(0.0)
    replay = CaptureDriver(capture, clock, clock.sleep)
    replay.open()
    lost = replay.devices()[1]
    assert replay.events(0) == ()

    clock.time = 4.0

    assert [device.uuid for device in replay.devices()] == [driver.devices()[0].uuid]
    assert replay.events(0) == (XidEvent(lost.uuid, 79, EPOCH + 102.5),)
    assert replay.events(0) == ()


def test_unknown_calls_are_unsupported() -> None:
    capture, _ = recorded("H200:training")
    replay = CaptureDriver(capture)
    (device,) = replay.devices()

    for call in (replay.call, device.call):
        with pytest.raises(UnsupportedError, match="not in the capture"):
            call("nvmlDeviceInventedCall", 1)
    assert device.call("nvmlDeviceGetFieldValues", ((91, 0), (9999, 0))) == (18, None)


def test_a_masked_capture_names_no_machine_and_masks_alike() -> None:
    plain, driver = recorded("2xH200:training+A100-mig:training")
    hidden, _ = recorded("2xH200:training+A100-mig:training", mask=True)
    text = json.dumps(hidden)

    for device in driver.devices():
        names = [
            device.uuid,
            device.pci_bus_id,
            device.call("nvmlDeviceGetSerial"),
            *(each.uuid for each in device.instances),
        ]
        assert not [name for name in names if name in text or name.upper() in text]
    assert hidden == recorded("2xH200:training+A100-mig:training", mask=True)[0]
    assert len({device["uuid"] for device in hidden["devices"]}) == 3
    assert hidden["devices"][2]["instances"][0]["parent_uuid"] == hidden["devices"][2]["uuid"]
    assert [list(device["calls"]) for device in hidden["devices"]] == [
        list(device["calls"]) for device in plain["devices"]
    ]


@pytest.mark.parametrize("serial", ["0", "17", 'a"b\\c', "1800000000"])
def test_masking_a_serial_number_changes_no_number(serial: str) -> None:
    plain, _ = recorded("H200:training")
    usual = masked(plain)
    plain["devices"][0]["calls"]['["nvmlDeviceGetSerial"]'] = [[0.0, serial]]

    assert masked(plain) == usual


def test_a_gpu_without_an_address_has_none_in_a_masked_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.tools.simulator.gpu.Gpu.pci_bus_id", "")

    assert "0000:10:00.0" not in json.dumps(recorded("H200:training", mask=True)[0])


@dataclass
class _Brittle(Device):
    """Answers from a script, one list of answers by function."""

    index: int = 0
    uuid: str = "GPU-1"
    pci_bus_id: str = "0000:01:00.0"
    minor: int | None = None
    script: dict[str, list[Any]] = field(default_factory=dict)

    def call(self, function: str, *args: Any) -> Any:
        del args
        answers = self.script.get(function) or [UnsupportedError("no")]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, DriverError):
            raise answer
        return answer


class _OneDevice(Driver):
    def __init__(self, device: Device) -> None:
        self._device = device

    def open(self) -> None: ...

    def close(self) -> None: ...

    def devices(self) -> tuple[Device, ...]:
        return (self._device,)

    def call(self, function: str, *args: Any) -> Any:
        del args
        raise UnsupportedError(function)

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        raise UnsupportedError(str(timeout))


def test_failures_are_recorded_by_kind_and_code_and_recovered_from() -> None:
    script = {"nvmlDeviceGetPowerUsage": [70_000, DriverError("slow", "TIMEOUT"), DeviceLostError("gone"), 71_000]}
    clock = Clock(0.0)
    power = tuple(collector for collector in COLLECTORS if collector.name == "power")

    capture = record(_OneDevice(_Brittle(script=script)), 4, collectors=power, clock=clock, sleep=clock.sleep)

    replay = CaptureDriver(capture, clock)
    start = clock.time
    replay.open()
    found: list[Any] = []
    for clock.time in (start, start + 1, start + 2, start + 3):
        (device,) = replay.devices()
        try:
            found.append(device.call("nvmlDeviceGetPowerUsage"))
        except DriverError as error:
            found.append((type(error), str(error), error.code))
    lost, late = (DeviceLostError, "gone", "GPU_IS_LOST"), (DriverError, "slow", "TIMEOUT")
    assert found == [70_000, late, lost, 71_000]


def test_collector_is_recorded_at_its_own_pace() -> None:
    clock, asked = Clock(0.0), list[tuple[str, float]]()

    class Counted(_Brittle):
        def call(self, function: str, *args: Any) -> Any:
            asked.append((function, clock.time))
            return super().call(function, *args)

    device = Counted(
        script={"nvmlDeviceGetPowerUsage": [70_000], "nvmlDeviceGetMemoryInfo": [Record(total=1, free=1, used=0)]}
    )
    some = tuple(each for each in COLLECTORS if each.name in {"power", "memory"})

    record(_OneDevice(device), 6, collectors=some, clock=clock, sleep=clock.sleep)

    assert [at for function, at in asked if function == "nvmlDeviceGetPowerUsage"] == [0, 1, 2, 3, 4, 5, 6]
    assert [at for function, at in asked if function == "nvmlDeviceGetMemoryInfo"] == [0, 5]


def test_a_written_capture_is_read_again(tmp_path: Path) -> None:
    capture, _ = recorded("H200:training", mask=True)

    write(capture, tmp_path / "capture.json")

    assert json.loads((tmp_path / "capture.json").read_text(encoding="utf-8")) == capture
    assert load(tmp_path / "capture.json").devices()[0].call("nvmlDeviceGetName") == "NVIDIA H200"


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_captures_read_without_failures(path: Path) -> None:
    clock = Clock(0.0)
    driver = load(path, clock)
    driver.open()

    found = readings(driver, clock, 4)
    always = {"info", "power"} if path.stem.startswith("published") else {"info", "memory", "power"}

    assert {name for _, name, reading in found if not isinstance(reading, type)} >= always


def test_captures_hold_every_outcome() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in CAPTURES)

    for outcome in ('"UnsupportedError"', '"DeviceLostError"', '"record"', ",[]]", "null", "true", "false"):
        assert outcome in text
