"""The thread that runs the passes, and the snapshot that everybody else reads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from exporter.core.clock import monotonic_time
from exporter.core.threads import Threads
from exporter.sampling.snapshot import Snapshot


class Loop:
    """Runs `tick` once per interval and keeps the last snapshot; a tick without one leaves things as they are.

    Who cannot wait for the next tick has one at once. A pass that takes longer than the interval delays the next one;
    missed passes are not made up for. A bug in one pass ends the thread, which is run again: the last snapshot is
    served meanwhile, with its age.
    """

    def __init__(
        self, tick: Callable[[], Snapshot | None], interval: float, published: Callable[[Snapshot], None]
    ) -> None:
        self._tick = tick
        self._interval = interval
        self._published = published
        self._stopped = False
        self._wanted = threading.Event()
        """Set when the next tick is to begin at once."""
        self._ended = threading.Condition()
        self._ticks = self._done = 0
        """Number of the last tick that began, and of the last that ended."""
        self.snapshot = Snapshot()
        self.alive_at = monotonic_time()
        """When the last tick ended, with a pass or without; before there is one, when the loop was made."""

    def start(self, threads: Threads) -> None:
        threads.start("sampler", self._run, longest_pause=self._interval)

    def stop(self) -> None:
        with self._ended:
            self._stopped = True
            self._wanted.set()

    def tick_now(self, seconds: float) -> None:
        """Have a tick that begins now, and wait until it has ended; `seconds` at most."""
        with self._ended:
            wanted = self._ticks + 1
            self._wanted.set()
            self._ended.wait_for(lambda: self._done >= wanted, seconds)

    def _run(self) -> None:
        due = monotonic_time()
        while not self._stopped:
            self._begin()
            snapshot = self._tick()
            self.alive_at = monotonic_time()
            if snapshot is not None:
                self.snapshot = snapshot
                self._published(snapshot)
            self._end()
            due = max(due + self._interval, monotonic_time())
            if self._wanted.wait(due - monotonic_time()):
                due = monotonic_time()

    def _begin(self) -> None:
        with self._ended:
            self._ticks += 1
            if not self._stopped:
                self._wanted.clear()

    def _end(self) -> None:
        with self._ended:
            self._done = self._ticks
            self._ended.notify_all()
