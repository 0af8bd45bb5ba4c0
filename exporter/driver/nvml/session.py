"""One opening of the driver, from init to shutdown."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

from exporter.core.clock import monotonic_time
from exporter.driver.interface import Call, DeviceLostError, DriverError, DriverGoneError
from exporter.driver.nvml.binding import error_for
from exporter.driver.nvml.events import Feed
from exporter.driver.nvml.gpm import Meter, TimedLock
from exporter.driver.nvml.library import Library

log = logging.getLogger(__name__)

T = TypeVar("T")

_DOUBTFUL = frozenset({"UNINITIALIZED", "DRIVER_NOT_LOADED"})
"""Errors that one call may raise though the driver is there: it is asked once more before every GPU is given up."""
_DRAIN_SECONDS = 1.0
"""Seconds that closing waits for the calls under way."""


@dataclass(slots=True, eq=False)
class DeviceHandle:
    """A device's handle, with what is kept for its calls from one to the next. One thread uses it at a time."""

    session: Session
    handle: Any
    meter: Meter
    calls: dict[Hashable, Call] = field(default_factory=dict[Hashable, Call])
    """Made ready, by function and arguments."""
    buffers: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    """Those that grow with what the driver has to say, by function."""
    told: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values that described the device when it was last enumerated, by function."""
    instances: dict[int, Any] = field(default_factory=dict[int, Any])
    """Its MIG instances as last enumerated, by place."""
    retired: bool = False
    """The device is not there any more."""

    @property
    def library(self) -> Library:
        return self.session.library

    def filling(
        self, symbol: str, arguments: tuple[Any, ...], buffer: Any, blank: bytes, read: Callable[[memoryview], Any]
    ) -> Call:
        """Prepare a C function that fills `buffer`: blank before each call, `read` after it.

        Guards the session: raises DriverGoneError once it has ended, DeviceLostError once the device has gone.
        """
        session, library, function = self.session, self.library, self.library.function(symbol)
        given, view = (self.handle, *arguments), memoryview(buffer).cast("B")

        def session_guard() -> Any:
            if session.ended or self.retired:
                session.refuse()
            view[:] = blank
            code = function(*given)
            library.calls += 1
            if code:
                raise session.confirmed(error_for(code, symbol))
            return read(view)

        return session_guard

    def guarded(self, call: Call) -> Call:
        """Guard the session around a call that is more than one C function, as `filling` does."""
        session = self.session

        def session_guard(*cursor: Any) -> Any:
            if session.ended or self.retired:
                session.refuse()
            try:
                return call(*cursor)
            except DriverGoneError as error:
                raise session.confirmed(error) from None

        return session_guard


class Session:
    """Knows which devices it has met and which threads are inside the driver.

    Calling a driver that has been shut down, or freeing a buffer under a call, would crash the process. So a thread
    first notes that it is inside and looks before each call whether the session is closed; closing does it the other
    way round.
    """

    def __init__(self, library: Library, gate: TimedLock) -> None:
        self.library = library
        self.gate = gate
        self.feed = Feed(library, partial(self.run, None))
        self.targets: dict[str, DeviceHandle] = {}
        """Handles by uuid."""
        self.gpus: dict[int, str] = {}
        """Uuid by handle; replaced as a whole, since the thread of the events reads it."""
        self.shown: dict[int, Any] = {}
        """The GPUs as last enumerated, by index."""
        self.refused: tuple[tuple[int, str], ...] = ()
        """Index and code of the GPUs that gave no handle when they were last enumerated."""
        self.ended = False
        self._inside: set[Inside] = set()

    def closed(self) -> bool:
        return self.ended

    def inside(self, target: DeviceHandle | None) -> Inside:
        """A context manager: this thread is inside the driver, for calls of this device if it is about one."""
        return Inside(self._inside, target)

    def run(self, target: DeviceHandle | None, call: Callable[..., T], *args: Any) -> T:
        """Make a driver call, unless the session has ended or the device has gone."""
        with self.inside(target):
            if self.ended or (target is not None and target.retired):
                self.refuse()
            return call(*args)

    def refuse(self) -> NoReturn:
        if self.ended:
            raise DriverGoneError("the driver was closed", "UNINITIALIZED")
        raise DeviceLostError("the device is not there any more")

    def confirmed(self, error: DriverError) -> DriverError:
        """Return the error, but a plain one where the driver is said to be gone and yet answers another call."""
        if not isinstance(error, DriverGoneError) or error.code not in _DOUBTFUL:
            return error
        try:
            self.run(None, self.library.bound, "nvmlSystemGetDriverVersion")
        except DriverError:
            return error
        return DriverError(str(error), error.code)

    def retire(self, present: set[str]) -> None:
        """Forget the devices that are not among these; buffers under a hung call are left alone."""
        for uuid in self.targets.keys() - present:
            target = self.targets.pop(uuid)
            target.retired = True
            if not any(each.target is target for each in tuple(self._inside)):
                target.meter.free()

    def close(self) -> None:
        self.ended = True
        if not self._is_drained():
            log.warning("a driver call hangs: the driver is left open under it")
            return
        for target in self.targets.values():
            target.meter.free()
        self.feed.free()
        self.library.stop()

    def _is_drained(self) -> bool:
        own = threading.get_ident()
        deadline = monotonic_time() + _DRAIN_SECONDS
        while any(each.thread != own for each in tuple(self._inside)):
            if monotonic_time() >= deadline:
                return False
            time.sleep(0.01)  # a condition to wait on would be paid for in every read
        return True


class Inside:
    """The note that a thread is inside the driver."""

    __slots__ = ("_notes", "target", "thread")

    def __init__(self, notes: set[Inside], target: DeviceHandle | None) -> None:
        self._notes = notes
        self.target = target
        self.thread = threading.get_ident()

    def __enter__(self) -> None:
        self._notes.add(self)

    def __exit__(self, *_: object) -> None:
        self._notes.discard(self)
