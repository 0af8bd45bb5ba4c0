"""The real driver: NVML through NVIDIA's own binding. Nothing outside this package knows ctypes or pynvml."""

from __future__ import annotations

from typing import Any

from exporter.driver.interface import Device, Driver, DriverGoneError, XidEvent
from exporter.driver.nvml.apart import Apart
from exporter.driver.nvml.devices import enumerate_devices
from exporter.driver.nvml.gpm import TimedLock
from exporter.driver.nvml.library import Library
from exporter.driver.nvml.session import Session

_CALL_TIMEOUT_SECONDS = 1.0
"""Seconds after which a GPM call counts as hung, and those of other GPUs go on."""


class NvmlDriver(Driver):
    """NVIDIA's driver on this node. Everything but `open` and `close` may be called from many threads."""

    def __init__(self) -> None:
        self._library = Library()
        self._gate = TimedLock(_CALL_TIMEOUT_SECONDS)
        self._apart = Apart()
        self._session: Session | None = None

    @property
    def calls(self) -> int:
        """Driver calls since the process began."""
        return self._library.calls

    def open(self) -> None:
        if self._session is None:
            self._library.start()
            self._session = Session(self._library, self._gate)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def devices(self) -> tuple[Device, ...]:
        session = self._open_session()
        found = session.run(None, enumerate_devices, session, self._apart)
        self.refused = session.refused
        return found

    def call(self, function: str, *args: Any) -> Any:
        return self._open_session().run(None, self._library.bound, function, *args)

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        session = self._open_session()
        return session.run(None, session.feed.wait, session.gpus, timeout, session.closed)

    def _open_session(self) -> Session:
        session = self._session
        if session is None:
            raise DriverGoneError("the driver is not open", "UNINITIALIZED")
        return session
