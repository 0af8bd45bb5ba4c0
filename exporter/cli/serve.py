"""`gpu-exporter`: sample the GPUs and serve the metrics until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from exporter import __version__
from exporter.cli import assembly, logs
from exporter.cli.restart import RestartRule, Surroundings
from exporter.config import load as config
from exporter.config.load import Config
from exporter.exposition.pages import PageStore
from exporter.exposition.snapshot import Snapshot
from exporter.node.interface import pci_gpus
from exporter.web.app import App, Pages
from exporter.web.auth import BasicAuth
from exporter.web.history import History
from exporter.web.rate import Bucket
from exporter.web.server import Server
from exporter.web.status import page
from exporter.web.webconfig import WebConfig, load

log = logging.getLogger(__name__)


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT: status 0; 1 when only a new process or container can have the driver back."""
    settings = config.load(arguments, os.environ, config.options())
    logs.configure(settings["log.level"], settings["log.format"])
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    web = load(Path(settings["web.config.file"])) if settings["web.config.file"] else WebConfig()
    history = History()
    pages = PageStore(settings["sample.interval"])

    def published(snapshot: Snapshot) -> None:
        pages.publish(snapshot)
        history.add(snapshot)

    exporter = assembly.assemble(settings, published)
    server = _server(settings, web, exporter, pages, history)
    exporter.start()
    server.start()
    address = settings["web.listen-address"][0] or "*"
    log.info("gpu-exporter %s serves %s on %s:%d", __version__, settings["web.telemetry-path"], address, server.port)
    status = _wait(exporter, _restart_rule(settings), stopping)
    server.stop()
    exporter.stop()
    sys.stderr.flush()
    return status


def _server(
    settings: Config, web: WebConfig, exporter: assembly.Exporter, metrics: PageStore, history: History
) -> Server:
    pages = Pages(
        metrics=metrics.page,
        status=lambda: page(exporter.snapshot, history, settings["web.telemetry-path"]),
        ready=lambda: exporter.snapshot.not_ready,
    )
    limit = web.rate_limit
    allows = Bucket(limit.interval, limit.burst, time.monotonic).take if limit else lambda: True
    app = App(pages, settings["web.telemetry-path"], BasicAuth(web.users), web.headers, allows)
    return Server(app, settings["web.listen-address"], settings["web.max-threads"], web.tls)


def _restart_rule(settings: Config) -> RestartRule:
    sysfs = Path(settings["path.sysfs"])
    return RestartRule(
        settings["driver.exit-after"],
        Surroundings(gpus=lambda: pci_gpus(sysfs), module_loaded=(sysfs / "module/nvidia").is_dir),
    )


def _wait(exporter: assembly.Exporter, rule: RestartRule, stopping: threading.Event) -> int:
    while not stopping.wait(1.0):
        reason = rule.reason(exporter.driver_state, time.monotonic())
        if reason:
            log.error("%s", reason)
            return 1
    return 0
