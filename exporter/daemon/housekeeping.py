"""What is done every two seconds beside the passes, and whether the exporter can be relied on."""

from __future__ import annotations

import threading

from exporter.core.threads import Threads
from exporter.daemon.exporter import Exporter
from exporter.exposition.page import PageStore
from exporter.sampling.blocks import stale_snapshot
from exporter.sampling.snapshot import ProcessHealth, Snapshot
from exporter.web.settings import WebSettings

_HOPELESS = 60.0
"""Seconds a thread is down, or no pass ends, until only a new process can help."""


def process_health(threads: Threads, web: WebSettings) -> ProcessHealth:
    found = web.health()
    if found is None:
        return ProcessHealth(threads.states())
    return ProcessHealth(threads.states(), found.reload_success, found.certificate_expiry)


class Housekeeping:
    """`stale` is the age in seconds at which gauges vanish, also where no pass ends to make them vanish."""

    def __init__(
        self,
        exporter: Exporter,
        threads: Threads,
        web: WebSettings,
        pages: PageStore,
        stale: float,
        reload: threading.Event,
    ) -> None:
        self._exporter = exporter
        self._threads = threads
        self._web = web
        self._pages = pages
        self._stale = stale
        self._reload = reload

    @property
    def snapshot(self) -> Snapshot:
        """The last one, or what of it is still true."""
        found, silent = self._exporter.snapshot, self._exporter.silent_seconds
        if silent <= self._stale:
            return found
        return stale_snapshot(found, silent, process_health(self._threads, self._web))

    def tick(self) -> None:
        """Start the threads that could not be started; after SIGHUP read the web configuration; let pages age."""
        self._threads.revive()
        if self._reload.is_set():
            self._reload.clear()
            self._web.reload()
        if self._exporter.silent_seconds > self._stale:
            self._pages.publish(self.snapshot)

    def not_ready(self) -> str:
        """Why this node cannot be relied on; empty when it can."""
        silent = self._exporter.silent_seconds
        return self._exporter.snapshot.not_ready or (f"no pass for {silent:.0f} s" if silent > self._stale else "")

    def unhealthy(self) -> str:
        """Why only a new process can help; empty while none is needed."""
        name, down = self._threads.longest_down()
        if down > _HOPELESS:
            return f"thread {name} is down for {down:.0f} s"
        silent = self._exporter.silent_seconds
        return f"no pass for {silent:.0f} s" if silent > max(_HOPELESS, self._stale) else ""
