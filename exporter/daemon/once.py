"""`gpu-exporter once`: print the metrics once and exit."""

from __future__ import annotations

import sys
import threading
from itertools import count

from exporter.config import logs
from exporter.config.command_line import Page
from exporter.daemon import assembly
from exporter.daemon.assembly import pacing
from exporter.daemon.config import DaemonConfig
from exporter.exposition.page import Renderer
from exporter.sampling.driver_connection import DriverState
from exporter.sampling.snapshot import Snapshot

PAGE = Page("gpu-exporter once", "Print the metrics once, after two sampling cycles.", common=("Input", "Metrics"))
_CYCLES = 2
"""Two cycles: GPM and pressure are measured between two points in time."""
_DRIVER_OPEN_TIMEOUT_SECONDS = 15.0
"""Seconds to wait beyond the cycles' own time, for a driver that is slow to open."""


def run(config: DaemonConfig) -> int:
    """Status 0, or 1 when the driver is not available (the exporter's own metrics are printed all the same)."""
    logs.configure(config.log)
    done = threading.Event()
    cycles = count(1)

    def published(snapshot: Snapshot) -> None:
        unopened = snapshot.status.driver_error == DriverState().error  # cycles begin before it has been opened
        if not unopened and next(cycles) >= _CYCLES:
            done.set()

    hidden = assembly.hidden(config)
    exporter = assembly.assemble(config, published, once=True)
    exporter.start()
    done.wait(_DRIVER_OPEN_TIMEOUT_SECONDS + _CYCLES * pacing(config.sample).deadline)
    snapshot = exporter.snapshot
    exporter.stop()
    sys.stdout.write(Renderer(hidden).render(snapshot.blocks, "")[1].decode())
    return 1 if snapshot.status.driver_error else 0
