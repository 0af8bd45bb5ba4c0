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
from pathlib import Path
from types import FrameType

from exporter import __version__
from exporter.config import load as config
from exporter.config.load import Config
from exporter.config.network import address_text
from exporter.core.clock import monotonic_time
from exporter.core.threads import Threads
from exporter.daemon import assembly, logs
from exporter.daemon.exporter import Exporter
from exporter.daemon.housekeeping import Housekeeping, process_health
from exporter.daemon.pacing import stale_seconds
from exporter.daemon.restart import RestartRule, Surroundings
from exporter.daemon.systemd import Notifier, Watchdog
from exporter.exposition.page import PageStore
from exporter.host.pci import pci_gpus
from exporter.sampling.snapshot import Snapshot
from exporter.web.app import App, Pages
from exporter.web.history import History
from exporter.web.once import OncePerSnapshot
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
_TURN = 0.001
"""Seconds of one thread while others wait for their turn; a scrape needs a few of them."""


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT: status 0; 1 when only a new process or container can have the driver back."""
    settings = config.load(arguments, os.environ, config.options())
    logs.configure(settings["log.level"], settings["log.format"])
    stopping, reload = _signals()
    web = WebSettings(Path(settings["web.config.file"]) if settings["web.config.file"] else None)
    history = History()
    pages = PageStore(assembly.hidden(settings))

    def published(snapshot: Snapshot) -> None:
        pages.publish(snapshot)
        history.add(snapshot)

    threads = Threads()
    exporter = assembly.assemble(settings, published, threads, lambda: process_health(threads, web))
    keeping = Housekeeping(exporter, threads, web, pages, stale_seconds(settings), reload)
    server = _server(settings, web, threads, _pages(settings, exporter.node, keeping, pages, history))
    tune_runtime()
    exporter.start()
    server.start()
    address = address_text(settings["web.listen-address"][0] or "*", server.port)
    log.info("gpu-exporter %s serves %s on %s", __version__, settings["web.telemetry-path"], address)
    with _watchdog(settings, exporter) as watchdog:
        status = _wait(exporter, _restart_rule(settings), stopping, (watchdog.tick, keeping.tick))
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


def _pages(settings: Config, node: str, keeping: Housekeeping, metrics: PageStore, history: History) -> Pages:
    def made(snapshot: Snapshot) -> str:
        from exporter.daemon.status_page import made  # noqa: PLC0415 - a node whose page nobody looks at need not load it

        return made(node, settings, snapshot, history)

    status = OncePerSnapshot(lambda: keeping.snapshot, made)

    return Pages(
        metrics=metrics.page,
        status=status.page,
        ready=keeping.not_ready,
        unhealthy=keeping.unhealthy,
    )


def _server(settings: Config, web: WebSettings, threads: Threads, pages: Pages) -> Server:
    app = App(pages, settings["web.telemetry-path"], web.policy)
    workers = settings["web.max-threads"]
    return Server(app, settings["web.listen-address"], workers, web.certificates, threads)


def _watchdog(settings: Config, exporter: Exporter) -> Watchdog:
    notifier, interval = Notifier.of(os.environ), settings["sample.interval"]
    return Watchdog(notifier, interval, lambda: exporter.snapshot, lambda: exporter.silent_seconds)


def _restart_rule(settings: Config) -> RestartRule:
    sysfs = Path(settings["path.sysfs"])
    return RestartRule(
        settings["driver.exit-after"],
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
