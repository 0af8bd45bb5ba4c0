"""A lock for calls that must not overlap, which a hung call cannot keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class TimedLock:
    """Lets one thread through at a time. A holder that has been inside for `timeout` seconds is taken for hung.

    The gate is then given to the next one; what the hung thread does when it comes back no longer matters to it.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._clock = clock
        self._changed = threading.Condition()
        self._holder: object | None = None
        self._since = 0.0

    @contextmanager
    def hold(self) -> Generator[None]:
        ticket = object()
        self._enter(ticket)
        try:
            yield
        finally:
            self._leave(ticket)

    def _enter(self, ticket: object) -> None:
        with self._changed:
            while self._holder is not None:
                left = self._since + self._timeout - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._holder, self._since = ticket, self._clock()

    def _leave(self, ticket: object) -> None:
        with self._changed:
            if self._holder is ticket:
                self._holder = None
                self._changed.notify()
