"""The thread that runs the passes, and the snapshot that everybody else reads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from exporter.exposition.snapshot import Snapshot

log = logging.getLogger(__name__)


class Loop:
    """Runs `run_pass` once per interval and keeps the last snapshot.

    A pass that takes longer than the interval delays the next one; missed passes are not made up for.
    """

    def __init__(
        self, run_pass: Callable[[], Snapshot], interval: float, published: Callable[[Snapshot], None]
    ) -> None:
        self._run_pass = run_pass
        self._interval = interval
        self._published = published
        self._stopped = threading.Event()
        self.snapshot = Snapshot()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        due = time.monotonic()
        failed = ""
        while not self._stopped.is_set():
            try:
                self.snapshot = self._run_pass()
                self._published(self.snapshot)
                failed = ""
            except Exception as error:  # a bug in one pass: the last snapshot ages in public, and the next is tried
                if repr(error) != failed:
                    log.exception("pass failed")
                failed = repr(error)
            due = max(due + self._interval, time.monotonic())
            self._stopped.wait(due - time.monotonic())
