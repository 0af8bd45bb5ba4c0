"""One process of the exporter: its moving parts, started and stopped together."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping

from exporter.core.clock import monotonic_time
from exporter.core.threads import Threads
from exporter.sampling.driver_connection import DriverState
from exporter.sampling.sampler import Loop, Sampler
from exporter.sampling.snapshot import Snapshot

XidSources = Mapping[str, Callable[[threading.Event], None]]
"""By name, what follows a source of XIDs until the event is set."""


class Exporter:
    """Made by `assembly`; what the pages and the commands ask the passes goes through it."""

    def __init__(self, node: str, sampler: Sampler, loop: Loop, xids: XidSources, threads: Threads) -> None:
        self.node = node
        """Its name, as the schedulers call it."""
        self._sampler = sampler
        self._loop = loop
        self._xids = xids
        self._threads = threads
        self._stopped = threading.Event()

    @property
    def snapshot(self) -> Snapshot:
        return self._loop.snapshot

    @property
    def driver_state(self) -> DriverState:
        return self._sampler.connection.state

    @property
    def silent_seconds(self) -> float:
        """How long ago the last pass ended; before there is one, since the start."""
        return max(0.0, monotonic_time() - self._loop.alive_at)

    def start(self) -> None:
        self._sampler.start(self._threads)
        self._loop.start(self._threads)
        for name, follow in self._xids.items():
            self._threads.start(f"xid-{name}", functools.partial(follow, self._stopped))

    def stop(self) -> None:
        """Ask every thread to end. None is waited for: one may hang in the driver."""
        self._threads.stop()
        self._stopped.set()
        self._loop.stop()
        self._sampler.stop()
