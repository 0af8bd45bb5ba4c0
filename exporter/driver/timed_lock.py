"""A lock for calls that must not overlap, which a hung call cannot keep."""

from __future__ import annotations

import threading

from exporter.core.clock import NEVER, MonotonicClock, monotonic_time


class TimedLock:
    """Lets one thread through at a time. A holder that has been inside for `timeout` seconds is taken for hung.

    The gate is then given to the next one; what the hung thread does when it comes back no longer matters to it.
    """

    def __init__(self, timeout: float, clock: MonotonicClock = monotonic_time) -> None:
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._holder: object | None = None
        self._since = NEVER

    def hold(self) -> _Hold:
        """A context manager: inside of it is this thread alone, unless it hangs there."""
        return _Hold(self)

    def enter(self, ticket: object) -> None:
        with self._lock:
            if self._holder is not None:
                self._wait()
            self._holder, self._since = ticket, self._clock()

    def leave(self, ticket: object) -> None:
        with self._lock:
            if self._holder is ticket:
                self._holder = None
                if self._waiting:
                    self._changed.notify()

    def _wait(self) -> None:
        """Until the holder has left, or is taken for hung."""
        self._waiting += 1
        while self._holder is not None:
            left = self._since + self._timeout - self._clock()
            if left <= 0:
                break
            self._changed.wait(left)
        self._waiting -= 1


class _Hold:
    """One thread's turn, and the ticket that distinguishes it from others."""

    __slots__ = ("_gate",)

    def __init__(self, gate: TimedLock) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.enter(self)

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self)
