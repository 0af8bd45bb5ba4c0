"""The thread that runs the passes, and the snapshot that everybody else reads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from exporter.core.clock import monotonic_time
from exporter.core.threads import Threads
from exporter.sampling.snapshot import Snapshot


class Loop:
    """Runs one pass per interval and keeps the last snapshot.

    A pass that takes longer than the interval delays the next one; missed passes are not made up for. A bug in one pass
    ends the thread, which is run again: the last snapshot is served meanwhile, with its age.
    """

    def __init__(
        self, run_pass: Callable[[], Snapshot], interval: float, published: Callable[[Snapshot], None]
    ) -> None:
        self._run_pass = run_pass
        self._interval = interval
        self._published = published
        self._stopped = threading.Event()
        self.snapshot = Snapshot()
        self.alive_at = monotonic_time()
        """When the last pass ended; before there is one, when the loop was made."""

    def start(self, threads: Threads) -> None:
        threads.start("sampler", self._run, longest_pause=self._interval)

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        due = monotonic_time()
        while not self._stopped.is_set():
            self.snapshot = self._run_pass()
            self.alive_at = monotonic_time()
            self._published(self.snapshot)
            due = max(due + self._interval, monotonic_time())
            self._stopped.wait(due - monotonic_time())
