"""`gpu-exporter once`: print the metrics once and exit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from exporter import assembly, config, logs
from exporter.exposition import Renderer


def run(arguments: Sequence[str]) -> int:
    """Status 0, or 1 when the driver is not available (the exporter's own metrics are printed all the same)."""
    settings = config.load(arguments, os.environ, config.options(), "gpu-exporter once")
    logs.configure(settings["log.level"], settings["log.format"])
    exporter = assembly.assemble(settings, lambda _: None)
    exporter.run_pass()
    time.sleep(settings["sample.interval"])
    snapshot = exporter.run_pass()  # what is measured between two points in time (GPM, pressure) needs a second pass
    exporter.stop()
    sys.stdout.write(Renderer().render(snapshot.blocks, "")[1].decode())
    return 1 if snapshot.status.driver_error else 0
