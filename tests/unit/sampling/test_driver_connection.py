"""The connection to the driver: opened when it arrives, opened again when it goes."""

from __future__ import annotations

import threading

from exporter.driver.interface import (
    DriverGoneError,
    DriverMismatchError,
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
