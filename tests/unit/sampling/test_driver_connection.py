"""The connection to the driver: opened when it arrives, opened again when it goes."""

from __future__ import annotations

import logging
import threading

import pytest

from exporter.core.threads import Threads
from exporter.driver.interface import (
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    UnsupportedError,
)
from exporter.sampling.driver_connection import DriverConnection
from tests.unit.sampling.scripted import Scripted, ScriptedDriver, until


def test_driver_that_arrives_late_is_opened() -> None:
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


def test_thread_of_the_driver_has_its_name_in_the_series_of_threads() -> None:
    threads = Threads()
    connection = DriverConnection(ScriptedDriver(tuple))
    connection.start(threads)

    assert set(threads.states()) == {"driver"}
    connection.stop()


def test_mismatch_is_told() -> None:
    def opening() -> None:
        raise DriverMismatchError("differs")

    connection = DriverConnection(ScriptedDriver(tuple, opening))
    connection.start()
    until(lambda: connection.state.mismatch)

    assert connection.state.error == "LIB_RM_VERSION_MISMATCH"
    connection.stop()


def test_driver_that_goes_is_opened_again() -> None:
    opened: list[int] = []
    connection = DriverConnection(ScriptedDriver(tuple, lambda: opened.append(1)))
    connection.start()
    until(lambda: connection.state.error == "")

    connection.refresh(DriverGoneError("unloaded", "DRIVER_NOT_LOADED"))
    until(lambda: len(opened) == 2 and connection.state.error == "")
    connection.stop()


def test_gpus_stay_where_one_question_for_them_fails_and_go_where_it_fails_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[object] = []
    gpu = Scripted(0, lambda _: 1.0)

    def devices() -> tuple[Scripted, ...]:
        if answers and isinstance(answers[0], DriverError):
            raise answers.pop(0)  # type: ignore[misc]
        return (gpu,)

    connection = DriverConnection(ScriptedDriver(devices))
    connection._attempt()
    seen: list[tuple[int, str, float]] = []
    for fails in (1, 0, 1, 1, 0):
        answers[:] = [DriverError("count", "UNKNOWN")] * fails
        connection._attempt()
        seen.append((len(connection.state.devices), connection.state.error, connection.pause))

    assert seen == [(1, "", 1.0), (1, "", 30.0), (1, "", 1.0), (0, "UNKNOWN", 2.0), (1, "", 30.0)]
    assert caplog.messages.count("GPUs cannot be listed (UNKNOWN), the driver is asked again: count") == 2


def test_version_that_the_driver_does_not_tell_for_once_is_as_it_was() -> None:
    told = {"nvmlSystemGetDriverVersion": "580.95.05"}

    class Telling(ScriptedDriver):
        def call(self, function: str, *args: object) -> object:
            if function in told:
                return told[function]
            raise DriverError(f"{function}{args}", "UNKNOWN")

    connection = DriverConnection(Telling(tuple))
    connection._attempt()
    told.clear()
    connection._attempt()
    assert connection.state.versions == ("580.95.05", "", "")

    connection.refresh(DriverGoneError("unloaded", "DRIVER_NOT_LOADED"))
    connection._attempt()

    assert connection.state.versions == ("", "", ""), "it may be another driver now"


class Versions(ScriptedDriver):
    """Tells its versions, but not NVML's."""

    refused = ((3, "GPU_IS_LOST"),)

    def call(self, function: str, *args: object) -> object:
        found = {"nvmlSystemGetDriverVersion": "570.1", "nvmlSystemGetCudaDriverVersion": 12080}
        if function not in found or args:
            raise UnsupportedError(function)
        return found[function]


def test_life_of_a_driver_is_told_in_the_log_and_in_its_state(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble: list[Exception] = []
    devices: list[Scripted] = [Scripted(0, lambda _: 1.0)]

    def opening() -> None:
        if trouble:
            raise trouble[0]

    connection = DriverConnection(Versions(lambda: tuple(devices), opening))
    connection._attempt()
    connection._attempt()
    opened = connection.state
    connection.refresh(DriverError("one call failed", "UNKNOWN"))
    assert connection.state is opened
    connection.refresh(DriverMismatchError("another library"))
    gone = connection.state
    trouble.append(DriverGoneError("not loaded", "DRIVER_NOT_LOADED"))
    connection._attempt()
    connection._attempt()
    closed = connection.state
    trouble.clear()
    devices.append(Scripted(1, lambda _: 1.0))
    connection._attempt()

    assert (opened.versions, opened.error, opened.refused) == (("570.1", "", "12.8"), "", ((3, "GPU_IS_LOST"),))
    assert (gone.devices, gone.versions, gone.error, gone.mismatch) == (
        (), opened.versions, "LIB_RM_VERSION_MISMATCH", True,
    )  # fmt: skip
    assert (closed.devices, closed.versions, closed.error, closed.mismatch) == (
        (), opened.versions, "DRIVER_NOT_LOADED", False,
    )  # fmt: skip
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "GPUs without a handle: 3 (GPU_IS_LOST)"),
        ("INFO", "driver 570.1 shows 1 GPU"),
        ("WARNING", "driver not available (DRIVER_NOT_LOADED): not loaded"),
        ("WARNING", "GPUs without a handle: 3 (GPU_IS_LOST)"),
        ("INFO", "driver 570.1 shows 2 GPUs"),
    ]


def test_driver_without_a_version_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    DriverConnection(ScriptedDriver(lambda: (Scripted(0, lambda _: 1.0),)))._attempt()

    assert caplog.messages == ["driver ? shows 1 GPU"]


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 30.0), (1, 1.0), (2, 2.0), (3, 5.0), (4, 10.0), (5, 30.0), (9, 30.0)]
)
def test_pause_grows_with_failures(failures: int, pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = DriverConnection(ScriptedDriver(tuple))
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        connection._stopped = True

    monkeypatch.setattr(connection, "_attempt", lambda: setattr(connection, "_failures", failures))
    monkeypatch.setattr(connection._wake, "wait", wait)
    connection._run()

    assert pauses == [pause]
    assert connection.first.is_set()


class Refuses(ScriptedDriver):
    refused = ((1, "GPU_IS_LOST"),)


def test_gpu_that_is_missing_is_looked_for_often() -> None:
    """One that the driver no longer shows gives no error, in no cycle: nothing else would ask for it."""
    devices: list[Scripted] = [Scripted(0, lambda _: 1.0), Scripted(1, lambda _: 1.0)]
    connection = DriverConnection(ScriptedDriver(lambda: tuple(devices)))
    pauses: list[float] = []
    for change in (lambda: None, devices.pop, lambda: devices.append(Scripted(1, lambda _: 1.0))):
        change()
        connection._attempt()
        pauses.append(connection.pause)
    refusing = DriverConnection(Refuses(lambda: tuple(devices)))
    refusing._attempt()

    assert pauses == [30.0, 5.0, 30.0]
    assert refusing.pause == 5.0


def test_gpu_that_was_replaced_is_not_looked_for() -> None:
    first, second = Scripted(0, lambda _: 1.0), Scripted(1, lambda _: 1.0)
    first.pci_bus_id = second.pci_bus_id = "0000:1a:00.0"
    devices: list[Scripted] = [first]
    connection = DriverConnection(ScriptedDriver(lambda: tuple(devices)))
    pauses: list[float] = []
    for shown in ([first], [], [second]):
        devices[:] = shown
        connection._attempt()
        pauses.append(connection.pause)

    assert pauses == [30.0, 5.0, 30.0]


def test_released_driver_is_closed_and_left_alone_until_it_is_taken_up_again() -> None:
    class Closing(ScriptedDriver):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    opened: list[int] = []
    driver = Closing(tuple, lambda: opened.append(1))
    connection = DriverConnection(driver)
    connection.start()
    until(lambda: connection.state.error == "")
    closed = driver.closed

    connection.release(on=True)
    until(lambda: connection.state.error == "RELEASED")
    assert (driver.closed, len(opened)) == (closed + 1, 1)

    connection.release(on=False)
    until(lambda: connection.state.error == "")
    assert len(opened) == 2
    connection.stop()
