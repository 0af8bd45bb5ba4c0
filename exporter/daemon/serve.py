"""`gpu-exporter`: sample the GPUs and serve the metrics, until asked to stop or until only a new process can help."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import final

from exporter import __version__
from exporter.config import logs
from exporter.config.kinds import address_text
from exporter.core.clock import MonotonicTime, monotonic_time
from exporter.core.threads import Threads
from exporter.daemon import assembly
from exporter.daemon.assembly import Exporter, stale_seconds
from exporter.daemon.config import DaemonConfig
from exporter.exposition.page import PageStore
from exporter.host.rdma import pci_gpus
from exporter.sampling.blocks import stale_snapshot
from exporter.sampling.driver_connection import DriverState
from exporter.sampling.snapshot import ProcessHealth, Snapshot
from exporter.web.app import App, CachedStatusPage, RouteHandlers
from exporter.web.config import WebConfig
from exporter.web.history import GpuHistory
from exporter.web.server import Server
from exporter.web.settings import WebSettings

log = logging.getLogger(__name__)

_INTERVALS = 5
"""Sampling intervals without a sign of life after which the watchdog is left to act."""


@dataclass(frozen=True, slots=True)
class Notifier:
    """Sends lines to systemd; without an address (not started by systemd) it sends nothing."""

    address: str

    @staticmethod
    def of(environment: Mapping[str, str]) -> Notifier:
        return Notifier(environment.get("NOTIFY_SOCKET", ""))

    def send(self, *lines: str) -> None:
        if not self.address:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto("\n".join(lines).encode(), name)
        except OSError as error:
            log.debug("systemd was not notified of %s: %s", lines, error)


def status_line(snapshot: Snapshot) -> str:
    """Return the line that `systemctl status` shows."""
    gpus = snapshot.status.gpus
    answering = sum(gpu.up is True for gpu in gpus)
    return f"STATUS={snapshot.not_ready or f'{answering} of {len(gpus)} GPUs reachable'}"


@final
class Watchdog:
    """Reports that the exporter serves, that it samples, and that it ends.

    `silent` is for how many seconds no cycle has ended: after some intervals of them nothing more is reported, and
    systemd restarts an exporter that serves and no longer samples.
    """

    def __init__(
        self, notifier: Notifier, interval: float, snapshot: Callable[[], Snapshot], silent: Callable[[], float]
    ) -> None:
        self._notifier, self._snapshot, self._silent = notifier, snapshot, silent
        self._timeout_seconds = max(_INTERVALS * interval, 10.0)

    def __enter__(self) -> Watchdog:
        self._notifier.send("READY=1", status_line(self._snapshot()))
        return self

    def tick(self) -> None:
        if self._silent() <= self._timeout_seconds:
            self._notifier.send("WATCHDOG=1", status_line(self._snapshot()))

    def __exit__(self, *_: object) -> None:
        self._notifier.send("STOPPING=1")


log = logging.getLogger(__name__)

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""M_ARENA_MAX and M_MMAP_THRESHOLD of malloc.h."""
_LARGE_BYTES = 1 << 16
"""Bytes: what is as large as a page goes back to the system when it is dropped."""
_YOUNG = 10_000
"""Objects made until Python looks for circles among them: a few sampling cycles. Most are dropped with theirs."""
_TICK_SECONDS = 2.0
"""Seconds between two checks of what is done beside the sampling cycles."""
_PAGE_THREADS = 4
"""Threads that answer requests."""
_TURN_SECONDS = 0.001
"""Seconds of one thread while others wait for their turn; a scrape needs a few of them."""


def run(config: DaemonConfig) -> int:
    """Serve until SIGTERM or SIGINT: status 0; 1 when only a new process or container can have the driver back."""
    logs.configure(config.log)
    stopping, reload = _signal_events()
    threads = Threads()
    web = WebSettings(config.web.config_file, threads)
    history, pages = GpuHistory(), PageStore(assembly.hidden(config))

    def published(snapshot: Snapshot) -> None:
        pages.publish(snapshot)
        history.add(snapshot)

    exporter = assembly.assemble(config, published, threads, lambda: process_health(threads, web))
    keeping = Housekeeping(exporter, threads, web, pages, stale_seconds(config.sample), reload)
    app = App(_route_handlers(config.web, exporter, keeping, pages, history), config.web.telemetry_path, web.policy)
    server = Server(app, config.web.listen_address, _PAGE_THREADS, web.certificates, threads)
    tune_runtime()
    exporter.start()
    server.start()
    host = config.web.listen_address[0] or "*"
    log.info("gpu-exporter %s serves %s on %s", __version__, config.web.telemetry_path, address_text(host, server.port))
    sysfs = config.paths.sysfs
    probe = NodeProbe(gpus=lambda: pci_gpus(sysfs), module_loaded=(sysfs / "module/nvidia").is_dir)
    with Watchdog(
        Notifier.of(os.environ), config.sample.interval, lambda: exporter.snapshot, lambda: exporter.silent_seconds
    ) as watchdog:
        status = _wait_for_end(
            exporter, RestartRule(config.input.exit_after, probe), stopping, (watchdog.tick, keeping.tick)
        )
    server.stop()
    exporter.stop()
    sys.stderr.flush()
    return status


def tune_runtime() -> None:
    """Let no thread keep the others waiting for long: short turns, and no search for garbage in what stays for ever.

    Before there are threads: glibc would give each a heap of its own, and every one grows to the size of a page.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    with contextlib.suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def _signal_events() -> tuple[threading.Event, threading.Event]:
    """Set by SIGTERM and SIGINT, and by SIGHUP: the end, and a read of the web configuration file."""
    stopping, reload = threading.Event(), threading.Event()
    for number, event in ((signal.SIGTERM, stopping), (signal.SIGINT, stopping), (signal.SIGHUP, reload)):
        signal.signal(number, functools.partial(_set_event, event))
    return stopping, reload


def _set_event(event: threading.Event, _number: int, _frame: FrameType | None) -> None:
    event.set()


def _route_handlers(
    config: WebConfig, exporter: Exporter, keeping: Housekeeping, metrics: PageStore, history: GpuHistory
) -> RouteHandlers:
    def draw(snapshot: Snapshot) -> str:
        from exporter.web.status import render_status_page  # noqa: PLC0415 - few nodes need it

        return render_status_page(exporter.node, config, snapshot, history)

    status = CachedStatusPage(lambda: keeping.snapshot, draw)
    return RouteHandlers(
        metrics.page, status.page, keeping.not_ready, keeping.unhealthy, allocations=exporter.allocations
    )


def _wait_for_end(
    exporter: Exporter, rule: RestartRule, stopping: threading.Event, ticks: Sequence[Callable[[], None]]
) -> int:
    """`ticks` are called every two seconds."""
    while not stopping.wait(_TICK_SECONDS):
        for tick in ticks:
            tick()
        reason = rule.reason(exporter.driver_state, monotonic_time())
        if reason:
            log.error("%s", reason)
            return 1
    return 0


_HOPELESS_SECONDS = 60.0
"""Seconds a thread is down, or no cycle ends, until only a new process can help."""


def process_health(threads: Threads, web: WebSettings) -> ProcessHealth:
    found = web.health()
    if found is None:
        return ProcessHealth(threads.states())
    return ProcessHealth(threads.states(), found.reload_success, found.certificate_expiry)


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Tasks that run every two seconds beside the sampling cycles, and whether the exporter can be relied on."""

    exporter: Exporter
    threads: Threads
    web: WebSettings
    pages: PageStore
    stale: float
    """Age in seconds at which gauges vanish, also where no cycle ends to make them vanish."""
    reload: threading.Event

    @property
    def snapshot(self) -> Snapshot:
        """The last one, or what of it is still true."""
        found, silent = self.exporter.snapshot, self.exporter.silent_seconds
        if silent <= self.stale:
            return found
        return stale_snapshot(found, silent, process_health(self.threads, self.web))

    def tick(self) -> None:
        """Start the threads that could not be started; read the web configuration; let pages age."""
        self.threads.revive()
        if self.reload.is_set():
            self.reload.clear()
            self.web.reload()
        self.web.refresh()
        if self.exporter.silent_seconds > self.stale:
            self.pages.publish(self.snapshot)

    def not_ready(self) -> str:
        """Return why this node cannot be relied on; empty when it can."""
        silent = self.exporter.silent_seconds
        return self.exporter.snapshot.not_ready or (f"no cycle for {silent:.0f} s" if silent > self.stale else "")

    def unhealthy(self) -> str:
        """Return why only a new process can help; empty while none is needed."""
        name, down = self.threads.longest_down()
        if down > _HOPELESS_SECONDS:
            return f"thread {name} is down for {down:.0f} s"
        silent = self.exporter.silent_seconds
        return f"no cycle for {silent:.0f} s" if silent > max(_HOPELESS_SECONDS, self.stale) else ""


_OLD_LIBRARY_SECONDS, _MISMATCH_SECONDS = 10.0, 300.0
"""Seconds to go on reporting a library that does not fit the kernel module, before leaving it to a new process. Soon if
it did fit when this process started: the driver was exchanged since then, and a new process loads the new library."""

_NOT_GIVEN = {
    "LIBRARY_NOT_FOUND": "the driver's library is not in this container",
    "UNKNOWN": "the driver answers nothing in this container (its device rights were taken away, e.g. by systemd)",
    "NO_PERMISSION": "this container may not open the GPUs' devices",
}
_NO_DEVICES = "DRIVER_NOT_LOADED"


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """State of the node beside the driver. Read only when the driver has been away for long."""

    gpus: Callable[[], int | None]
    """Number of NVIDIA GPUs that the PCI bus shows; None where it cannot be read."""
    module_loaded: Callable[[], bool]


class RestartRule:
    """Given the driver's state now and then; `exit_after` seconds of a lack that a new container may end, 0: never."""

    def __init__(self, exit_after: float, surroundings: NodeProbe) -> None:
        self._exit_after = exit_after
        self._surroundings = surroundings
        self._since: dict[str, MonotonicTime] = {}

    def reason(self, state: DriverState, now: MonotonicTime) -> str:
        """Return why to end now; empty to stay."""
        seconds = _OLD_LIBRARY_SECONDS if any(state.versions) else _MISMATCH_SECONDS
        if self._has_lasted("mismatch", state.mismatch, now, seconds):
            return "driver library and kernel module differ: leaving, so that a new process loads the new library"
        lacking = state.error in _NOT_GIVEN or state.error == _NO_DEVICES
        if not (self._exit_after and self._has_lasted("lack", lacking, now, self._exit_after)):
            return ""
        return self._what_lacks(state.error)

    def _has_lasted(self, what: str, holds: bool, now: MonotonicTime, seconds: float) -> bool:  # noqa: FBT001 - a fact, not a mode
        if not holds:
            self._since.pop(what, None)
            return False
        return now - self._since.setdefault(what, now) >= seconds

    def _what_lacks(self, error: str) -> str:
        if not self._surroundings.gpus():
            return ""  # nobody can give what is not there, or not known to be
        found = _NOT_GIVEN.get(error, "")
        if error == _NO_DEVICES and self._surroundings.module_loaded():
            found = "the kernel module is loaded and its device nodes are not in this container"
        return f"{error}: {found}: leaving, so that a new container is given what this one lacks" if found else ""
