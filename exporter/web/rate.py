"""The rate limit of the web configuration file: a token bucket over all requests."""

from __future__ import annotations

import threading

from exporter.core.clock import MonotonicClock


class Bucket:
    """Holds up to `burst` tokens; one comes back every `interval` seconds, and each request takes one."""

    def __init__(self, interval: float, burst: int, clock: MonotonicClock) -> None:
        self._interval, self._burst, self._clock = interval, burst, clock
        self._tokens, self._filled = float(burst), clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether there was a token to take."""
        with self._lock:
            if not self._filled_up():
                return False
            self._tokens -= 1
            return True

    def empty(self) -> bool:
        """Whether there is none to take now."""
        with self._lock:
            return not self._filled_up()

    def _filled_up(self) -> bool:
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._filled) / self._interval)
        self._filled = now
        return self._tokens >= 1
