"""`gpu-exporter`: sample the GPUs and serve the metrics until asked to stop."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

from exporter import __version__
from exporter.config.kinds import address_text
from exporter.core.clock import monotonic_time
from exporter.core.threads import Threads
from exporter.daemon import assembly, logs
from exporter.daemon.assembly import stale_seconds
from exporter.daemon.config import DaemonConfig
from exporter.daemon.exporter import Exporter
from exporter.daemon.housekeeping import Housekeeping, process_health
from exporter.daemon.restart import RestartRule, Surroundings
from exporter.daemon.systemd import Notifier, Watchdog
from exporter.exposition.page import PageStore
from exporter.host.rdma import pci_gpus
from exporter.sampling.snapshot import Snapshot
from exporter.web.app import App, OncePerSnapshot, Pages
from exporter.web.config import WebConfig
from exporter.web.history import History
from exporter.web.server import Server
from exporter.web.settings import WebSettings

log = logging.getLogger(__name__)

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""M_ARENA_MAX and M_MMAP_THRESHOLD of malloc.h."""
_LARGE = 1 << 16
"""Bytes: what is as large as a page goes back to the system when it is dropped."""
_YOUNG = 10_000
"""Objects made until Python looks for circles among them: a few passes. Most are dropped with their pass."""
_TICK = 2.0
"""Seconds between two looks at what is done beside the passes."""
_PAGE_THREADS = 4
"""Threads that answer requests."""
_TURN = 0.001
"""Seconds of one thread while others wait for their turn; a scrape needs a few of them."""


def run(config: DaemonConfig) -> int:
    """Serve until SIGTERM or SIGINT: status 0; 1 when only a new process or container can have the driver back."""
    logs.configure(config.log)
    stopping, reload = _signals()
    web = WebSettings(config.web.config_file)
    history = History()
    pages = PageStore(assembly.hidden(config))

    def published(snapshot: Snapshot) -> None:
        pages.publish(snapshot)
        history.add(snapshot)

    threads = Threads()
    exporter = assembly.assemble(config, published, threads, lambda: process_health(threads, web))
    keeping = Housekeeping(exporter, threads, web, pages, stale_seconds(config.sample), reload)
    server = _server(config.web, web, threads, _pages(config.web, exporter.node, keeping, pages, history))
    tune_runtime()
    exporter.start()
    server.start()
    address = address_text(config.web.listen_address[0] or "*", server.port)
    log.info("gpu-exporter %s serves %s on %s", __version__, config.web.telemetry_path, address)
    notifier = Notifier.of(os.environ)
    with Watchdog(
        notifier, config.sample.interval, lambda: exporter.snapshot, lambda: exporter.silent_seconds
    ) as watchdog:
        status = _wait(exporter, _restart_rule(config), stopping, (watchdog.tick, keeping.tick))
    server.stop()
    exporter.stop()
    sys.stderr.flush()
    return status


def tune_runtime() -> None:
    """Let no thread keep the others waiting for long: short turns, and no search for garbage in what stays for ever.

    Before there are threads: glibc would give each a heap of its own, and every one grows to the size of a page.
    """
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    with contextlib.suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def _signals() -> tuple[threading.Event, threading.Event]:
    """Set by SIGTERM and SIGINT, and by SIGHUP: the end, and a look at the web configuration file."""
    stopping, reload = threading.Event(), threading.Event()
    for number, event in ((signal.SIGTERM, stopping), (signal.SIGINT, stopping), (signal.SIGHUP, reload)):
        signal.signal(number, functools.partial(_set, event))
    return stopping, reload


def _set(event: threading.Event, _number: int, _frame: FrameType | None) -> None:
    event.set()


def _pages(config: WebConfig, node: str, keeping: Housekeeping, metrics: PageStore, history: History) -> Pages:
    def made(snapshot: Snapshot) -> str:
        from exporter.daemon.status_page import made  # noqa: PLC0415 - a node whose page nobody looks at need not load it

        return made(node, config, snapshot, history)

    status = OncePerSnapshot(lambda: keeping.snapshot, made)

    return Pages(
        metrics=metrics.page,
        status=status.page,
        ready=keeping.not_ready,
        unhealthy=keeping.unhealthy,
    )


def _server(config: WebConfig, web: WebSettings, threads: Threads, pages: Pages) -> Server:
    app = App(pages, config.telemetry_path, web.policy)
    return Server(app, config.listen_address, _PAGE_THREADS, web.certificates, threads)


def _restart_rule(config: DaemonConfig) -> RestartRule:
    sysfs = config.paths.sysfs
    return RestartRule(
        config.input.exit_after,
        Surroundings(gpus=lambda: pci_gpus(sysfs), module_loaded=(sysfs / "module/nvidia").is_dir),
    )


def _wait(exporter: Exporter, rule: RestartRule, stopping: threading.Event, ticks: Sequence[Callable[[], None]]) -> int:
    """`ticks` are called every two seconds."""
    while not stopping.wait(_TICK):
        for tick in ticks:
            tick()
        reason = rule.reason(exporter.driver_state, monotonic_time())
        if reason:
            log.error("%s", reason)
            return 1
    return 0
