"""Passes over GPUs that hang, get lost and come back, with a driver made of plain functions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from exporter.collectors import COLLECTORS
from exporter.collectors.base import Collector, Pace, Scope, Tick
from exporter.driver.interface import (
    Device,
    DeviceLostError,
    Driver,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    Mig,
    UnsupportedError,
    XidEvent,
)
from exporter.metrics.family import Unit, counter
from exporter.sampling.driver_connection import DriverConnection
from exporter.sampling.gpus import Gpu, Gpus
from exporter.sampling.reader import Outcome, read_gpu
from exporter.sampling.worker import Worker
from tests.unit.collectors.answers import hopper

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


def collector(name: str, pace: Pace = Pace.PASS, scope: Scope = Scope.GPU) -> Collector[Value]:
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


def test_failures_stay_where_they_happen() -> None:
    device = Scripted(0, answers(good=1.0, none=UnsupportedError("no"), bad=DriverError("no"), bug=KeyError("bug")))
    collectors = [collector(name) for name in ("bug", "bad", "none", "good")]

    result = read_gpu(device, {}, collectors, 0.0, 0.0, {})

    assert {outcome.collector: bool(outcome.error) for outcome in result.outcomes} == {
        "bug": True,
        "bad": True,
        "none": False,
        "good": False,
    }
    assert set(result.states["GPU-0"].readings) == {"good"}
    assert result.answered
    assert result.device_error is None


def test_lost_device_is_asked_no_more_in_that_pass() -> None:
    asked: list[str] = []

    def answer(function: str) -> Any:
        asked.append(function)
        raise DeviceLostError("fell off the bus")

    result = read_gpu(Scripted(0, answer), {}, [collector("one"), collector("two")], 0.0, 0.0, {})

    assert asked == ["one"]
    assert isinstance(result.device_error, DeviceLostError)
    assert not result.answered


def test_paces() -> None:
    calls: list[str] = []
    device = Scripted(0, lambda function: calls.append(function) or 1.0)
    collectors = [collector("each"), collector("slow", Pace.SLOW), collector("once", Pace.ONCE)]
    states: Any = {}
    for second in range(61):
        states = read_gpu(device, states, collectors, 0.0, float(second), {}).states

    assert {name: calls.count(name) for name in ("each", "slow", "once")} == {"each": 61, "slow": 3, "once": 1}


def test_collector_a_device_has_nothing_of_is_not_asked_at_every_pass() -> None:
    calls: list[str] = []

    def answer(function: str) -> Any:
        calls.append(function)
        raise UnsupportedError("no")

    states: Any = {}
    for second in range(100):
        states = read_gpu(Scripted(0, answer), states, [collector("gpm")], 0.0, float(second), {}).states

    assert len(calls) == 5  # after 5, 10, 20 and 40 s, and so on up to 300


def test_instances_are_read_by_their_own_collectors() -> None:
    parent = Scripted(0, answers(whole=1.0))
    instance = Scripted(1, answers(part=2.0), Mig(1, 0, "1g.10gb", 1 / 7))
    parent.instances = (instance,)

    states = read_gpu(parent, {}, [collector("whole"), collector("part", scope=Scope.INSTANCE)], 0.0, 0.0, {}).states

    assert {uuid: set(state.readings) for uuid, state in states.items()} == {"GPU-0": {"whole"}, "GPU-1": {"part"}}


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_hung_gpu_costs_only_itself_and_is_read_again_once_it_answers(gate: threading.Event) -> None:
    def hangs(_: str) -> float:
        gate.wait(DEADLINE)
        return 5.0

    devices = (Scripted(0, hangs), Scripted(1, lambda _: 1.0))
    gpus = Gpus([collector("value")])
    for _ in range(2):
        gpus.read(devices, 0.0, time.monotonic() + 1.0)  # of which the GPU that answers needs next to nothing
        assert [gpu.reading for gpu in gpus.all] == [False, True]
    assert gpus.hung_seconds("GPU-0") > 0
    assert gpus.all[0].failure == "HUNG"

    gate.set()
    until(lambda: gpus.hung_seconds("GPU-0") == 0)
    gpus.read(devices, 0.0, time.monotonic() + DEADLINE)

    assert [gpu.reading for gpu in gpus.all] == [True, True]
    assert gpus.all[0].failure == ""
    gpus.stop()


def test_late_gpu_is_not_lost_until_its_gauges_are_stale(gate: threading.Event) -> None:
    """One deadline missed on a loaded host is no lost GPU; see the alert GpuLost, and LOST on the dashboards."""
    values = iter((1.0,))

    def hangs(_: str) -> float:
        found = next(values, None)
        if found is None:
            gate.wait(DEADLINE)
            return 5.0
        return found

    gpus = Gpus([collector("value")])
    device = Scripted(0, hangs)

    gpus.read((device,), 0.0, time.monotonic() + DEADLINE, 100.0)
    assert gpus.all[0].answers(100.0, 10.0)

    gpus.read((device,), 0.0, time.monotonic() + 0.05, 101.0)
    (late,) = gpus.all
    assert late.failure == "HUNG"
    assert late.answers(101.0, 10.0)
    assert not late.answers(110.5, 10.0)

    gpus.read((), 0.0, time.monotonic() + DEADLINE, 102.0)
    assert not gpus.all[0].answers(102.0, 10.0)  # the driver no longer has it: lost at once
    gate.set()
    gpus.stop()


def test_gpu_that_never_answered_does_not_answer() -> None:
    assert not Gpu(Scripted(0, lambda _: 1.0)).answers(0.0, 10.0)


def test_gpu_that_goes_stays_listed_with_its_counters() -> None:
    gpus = Gpus([collector("value")])
    gpus.read((Scripted(0, lambda _: 3.0),), 0.0, time.monotonic() + DEADLINE)

    gpus.read((), 0.0, time.monotonic() + DEADLINE)

    (gone,) = gpus.all
    assert not gone.present
    assert not gone.reading
    assert gone.states["GPU-0"].readings["value"].samples[0][1][0].value == 3.0
    gpus.stop()


def test_counters_of_a_returned_gpu_go_on() -> None:
    values = iter((100.0, 3.0))
    device = Scripted(0, lambda _: next(values))
    gpus = Gpus([collector("value")])
    for present in ((device,), (), (device,)):
        gpus.read(present, 0.0, time.monotonic() + DEADLINE)

    assert gpus.all[0].states["GPU-0"].readings["value"].samples[0][1][0].value == 103.0
    gpus.stop()


def test_worker_gives_a_result_once_and_takes_one_task_at_a_time(gate: threading.Event) -> None:
    worker: Worker[str] = Worker("test")

    assert worker.submit(lambda: (gate.wait(DEADLINE), "done")[1])
    assert not worker.submit(lambda: "second")
    assert worker.wait(time.monotonic() + 0.01) is None
    gate.set()
    assert worker.wait(time.monotonic() + DEADLINE) == "done"
    assert worker.wait(time.monotonic() + DEADLINE) is None
    worker.stop()


def test_keeper_opens_a_driver_that_arrives_late() -> None:
    arrived = threading.Event()

    def opening() -> None:
        if not arrived.is_set():
            raise DriverGoneError("no library", "LIBRARY_NOT_FOUND")

    connection = DriverConnection(ScriptedDriver(lambda: (Scripted(0, lambda _: 1.0),), opening))
    connection.start()
    until(lambda: connection.state.error == "LIBRARY_NOT_FOUND")
    arrived.set()
    until(lambda: connection.state.error == "")

    assert len(connection.state.devices) == 1
    connection.stop()


def test_keeper_reports_a_mismatch() -> None:
    def opening() -> None:
        raise DriverMismatchError("differs")

    connection = DriverConnection(ScriptedDriver(tuple, opening))
    connection.start()
    until(lambda: connection.state.mismatch)

    assert connection.state.error == "LIB_RM_VERSION_MISMATCH"
    connection.stop()


def test_keeper_opens_again_when_the_driver_goes() -> None:
    opened: list[int] = []
    connection = DriverConnection(ScriptedDriver(tuple, lambda: opened.append(1)))
    connection.start()
    until(lambda: connection.state.error == "")

    connection.refresh(DriverGoneError("unloaded", "DRIVER_NOT_LOADED"))
    until(lambda: len(opened) == 2 and connection.state.error == "")
    connection.stop()


ON_HOPPER = [
    each.name for each in COLLECTORS if each.scope is Scope.GPU and each.families and each.name != "retired_pages"
]


@pytest.mark.parametrize("blip", [UnsupportedError("no", "NO_PERMISSION"), DriverError("no", "UNKNOWN")])
@pytest.mark.parametrize("name", ON_HOPPER)
def test_moment_of_refusal_blinds_no_collector_and_is_seen(name: str, blip: DriverError) -> None:
    """Four seconds of refusals of everything: shown as a failure while they last, and all is back soon after."""
    by_name = {each.name: each for each in COLLECTORS}
    device, memories, states = hopper(), {}, {}
    good = dict(device.answers)

    def second(at: float) -> tuple[Outcome, ...]:
        nonlocal states
        result = read_gpu(device, states, [by_name[name]], 1000.0 + at, at, memories)
        states = result.states
        return result.outcomes

    def published() -> set[str]:
        cached = states[device.uuid].readings.get(name)
        return {family.name for family, samples in cached.samples if samples} if cached else set()

    for at in range(3):
        second(at)
    before = published()
    assert before
    refuse = dict.fromkeys((*good, "nvmlDeviceGetFieldValues"), blip)
    device.answers = {**good, **refuse}
    errors = [outcome.error for at in range(40, 45) for outcome in second(at)]
    device.answers = good
    for at in range(45, 90):
        second(at)

    assert any(errors), "the refusals are not to be seen"
    assert published() == before
    assert not [outcome.error for outcome in second(121.0) if outcome.error]
