"""GPUs that hang, get lost and come back, from cycle to cycle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from exporter.collectors.base import Pace
from exporter.driver.interface import DeviceLostError, DriverError, DriverGoneError
from exporter.sampling.gpus import Gpu, Gpus
from tests.unit.sampling.scripted import DEADLINE, Scripted, collector, until


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
    failures: list[str] = []
    for _ in range(2):  # what the late read brought, and one in time
        gpus.read(devices, 0.0, time.monotonic() + DEADLINE)
        assert [gpu.reading for gpu in gpus.all] == [True, True]
        failures.append(gpus.all[0].failure)

    assert failures == ["HUNG", ""]
    gpus.stop()


class Slow:
    """Reads that each last until they are let go."""

    def __init__(self) -> None:
        self._begun, self._gate = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, _: str) -> float:
        self._begun.release()
        self._gate.acquire(timeout=DEADLINE)
        return 1.0

    def begin(self, gpus: Gpus, device: Scripted, at: float) -> None:
        """A cycle in which the read began and did not end."""

        def begun() -> bool:
            gpus.read((device,), 0.0, time.monotonic() + 0.01, at)
            return self._begun.acquire(blocking=False)

        until(begun)

    def end(self, gpus: Gpus) -> None:
        self._gate.release()
        until(lambda: gpus.hung_seconds("GPU-0") == 0)


def test_gpu_that_always_takes_longer_than_a_cycle_is_slow_and_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    """A first read asks for everything: where the driver takes 10 ms for a call, none ever ended within its cycle."""
    slow, gpus = Slow(), Gpus([collector("value")])
    device = Scripted(0, slow)
    seen: list[tuple[bool, bool, bool | None]] = []
    for at in (100.0, 102.0, 104.0):
        slow.begin(gpus, device, at)
        slow.end(gpus)
        gpus.read((device,), 0.0, time.monotonic() + DEADLINE, at + 1.0)
        (gpu,) = gpus.all
        seen.append((gpu.reading, at <= gpu.answered <= at + 1.0, gpu.answers(at + 1.0, 10.0)))
    gpus.stop()

    assert seen == [(True, True, True)] * 3
    assert caplog.messages == ["GPU GPU-0 does not answer within the deadline"]


def test_gpu_whose_reads_take_nine_seconds_is_up_between_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered when the read ended, not when it began: it was down until the next one had ended, and up again."""
    clock = [0.0]
    monkeypatch.setattr("exporter.sampling.reader.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    slow, gpus = Slow(), Gpus([collector("value")])
    device = Scripted(0, slow)
    up: list[bool | None] = []
    for at in (100.0, 110.0):
        slow.begin(gpus, device, at)
        up.append(gpus.all[0].answers(at + 8.0, 10.0))
        clock[0] += 9.0
        slow.end(gpus)
        gpus.read((device,), 0.0, time.monotonic() + DEADLINE, at + 9.0)
        up.append(gpus.all[0].answers(at + 9.0, 10.0))
    gpus.stop()

    assert up == [False, True, True, True]


def test_late_answer_counts_from_its_end_and_not_from_the_cycle_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine stood still for four seconds between the end of the read and the next cycle."""
    clock = [0.0]
    monkeypatch.setattr("exporter.sampling.reader.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    slow, gpus = Slow(), Gpus([collector("value")])
    device = Scripted(0, slow)
    slow.begin(gpus, device, 100.0)
    clock[0] += 4.0
    slow.end(gpus)
    gpus.read((device,), 0.0, time.monotonic() + DEADLINE, 108.0)
    gpus.stop()

    assert (gpus.all[0].reading, gpus.all[0].answered) == (True, 104.0)


def test_late_read_that_began_long_ago_tells_nothing() -> None:
    slow, gpus = Slow(), Gpus([collector("value")])
    device = Scripted(0, slow)
    slow.begin(gpus, device, 100.0)
    slow.end(gpus)
    slow.begin(gpus, device, 200.0)

    assert not gpus.all[0].reading
    slow.end(gpus)
    gpus.stop()


def test_gpu_that_nobody_could_ask_neither_answers_nor_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gpus = Gpus([collector("value")])
    device = Scripted(0, lambda _: 1.0)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        gpus.read((device,), 0.0, time.monotonic() + DEADLINE, 100.0)
        assert [(gpu.answers(500.0, 10.0), gpu.failure) for gpu in gpus.all] == [(None, "")]
        gpus.read((), 0.0, time.monotonic() + DEADLINE, 101.0)
        assert gpus.all[0].answers(101.0, 10.0) is False, "the driver does not show it"

    gpus.threads.threads.revive()
    gpus.read((device,), 0.0, time.monotonic() + DEADLINE, 102.0)

    assert gpus.all[0].answers(102.0, 10.0)
    gpus.stop()


def test_gpu_that_has_its_handle_and_answers_nothing_is_down_like_one_that_hangs() -> None:
    """So it is when its firmware is gone: UUID and PCI address come from the driver, all else is an error."""
    broken: set[str] = set()

    def answer(function: str) -> float:
        if function in broken:
            raise DriverError(function, "UNKNOWN")
        return 1.0

    device, found = Scripted(0, answer), list[tuple[bool | None, str]]()
    gpus = Gpus([collector("often"), collector("seldom", Pace.SLOW)])

    def read(*fails: str, at: float) -> None:
        broken.clear()
        broken.update(fails)
        gpus.read((device,), 0.0, time.monotonic() + DEADLINE, at)
        found.append((gpus.all[0].answers(at, 10.0), gpus.all[0].failure))

    read(at=100.0)
    read("often", at=105.0)  # what is read seldom has answered last
    read("often", "seldom", at=120.0)
    read("often", "seldom", at=131.0)
    read("often", "seldom", at=135.0)
    read("often", at=141.0)

    assert found == [(True, ""), (True, ""), (True, ""), (False, "SILENT"), (False, "SILENT"), (True, "")]
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


def test_error_of_each_gpu_is_passed_on_whatever_the_gpus_after_it_answer() -> None:
    def lost(_: str) -> float:
        raise DeviceLostError("fell off the bus")

    def gone(_: str) -> float:
        raise DriverGoneError("unloaded", "DRIVER_NOT_LOADED")

    gpus = Gpus([collector("value")])
    devices = [Scripted(index, answer) for index, answer in enumerate((lost, gone, lambda _: 1.0))]

    errors = gpus.read(devices, 0.0, time.monotonic() + DEADLINE)

    assert [type(error) for error in errors] == [DeviceLostError, DriverGoneError]
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
    assert gone.states["GPU-0"].readings["value"].blocks(())[0].samples[0].value == 3.0
    gpus.stop()


def test_counters_of_a_returned_gpu_go_on() -> None:
    values = iter((100.0, 3.0))
    device = Scripted(0, lambda _: next(values))
    gpus = Gpus([collector("value")])
    for present in ((device,), (), (device,)):
        gpus.read(present, 0.0, time.monotonic() + DEADLINE)

    assert gpus.all[0].states["GPU-0"].readings["value"].blocks(())[0].samples[0].value == 103.0
    gpus.stop()


def test_gpu_whose_uuid_changes_is_one_gpu() -> None:
    """A driver that answers garbage as a UUID for one cycle leaves no second GPU that is down for ever."""
    gpus = Gpus([collector("each")])
    shown = []
    for uuid in ("GPU-0", "garbage", "GPU-0"):
        card, other = Scripted(0, lambda _: 1.0), Scripted(1, lambda _: 1.0)
        card.uuid, card.pci_bus_id, other.pci_bus_id = uuid, "0000:1a:00.0", "0000:1b:00.0"
        gpus.read([card, other], 0.0, time.monotonic() + DEADLINE)
        shown.append([gpu.device.uuid for gpu in gpus.all])

    assert shown == [["GPU-0", "GPU-1"], ["garbage", "GPU-1"], ["GPU-0", "GPU-1"]]
