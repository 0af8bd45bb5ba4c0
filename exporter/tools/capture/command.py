"""`gpu-exporter capture`: record the driver's answers, for a bug report or a test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from exporter.config import load as config
from exporter.config.command_line import ARGUMENT, Page
from exporter.config.option import ConfigError, Option, boolean, positive_duration, text
from exporter.core.timeout import within
from exporter.daemon import assembly, logs
from exporter.daemon.complaint import complain, one_line
from exporter.driver.interface import Driver, DriverError
from exporter.host.presence import exists, is_folder
from exporter.tools.capture import record

OPTIONS = (
    Option("capture.duration", 5.0, positive_duration, "DURATION", "How long to record.", "Capture"),
    Option("capture.mask", True, boolean, "", "Replace serial numbers, UUIDs and PCI addresses.", "Capture"),  # noqa: FBT003 - a table
    Option("capture.file", "", text, "FILE", "File to write; also the argument without a flag.", "Capture"),
)
PAGE = Page(
    "gpu-exporter capture",
    "Record the driver's answers to FILE, which --driver.capture FILE replays.",
    """\
examples:
  gpu-exporter capture bug.json
  gpu-exporter capture bug.json --capture.duration 30s --no-capture.mask
""",
    argument="FILE",
    groups=("Capture", "Input"),
)
_TELL_AFTER = 2.0
_OPENING = 30.0
"""Seconds the driver may take to begin with; with many GPUs and no persistence mode it takes some."""


def run(arguments: Sequence[str]) -> int:
    """Status 0, or 1 when the driver is not available or the file cannot be written."""
    settings = config.load(arguments, os.environ, table(), PAGE)
    file, other = settings[ARGUMENT] or settings["capture.file"], settings["capture.file"]
    if other not in ("", file):
        raise ConfigError(f"capture: expected one file, got {file!r} and --capture.file {other!r}")
    if not file:
        raise ConfigError("capture: expected a FILE to write (see gpu-exporter capture --help)")
    logs.configure(settings["log.level"], settings["log.format"])
    if not _writable(Path(file)):  # told before what is recorded is lost
        raise ConfigError(f"capture: {file}: not a file that can be written")
    return _record(assembly.driver_of(settings), Path(file), settings)


def table() -> Sequence[Option]:
    return (*OPTIONS, *config.options())


def _writable(file: Path) -> bool:
    place = file if exists(file) else file.parent
    return not is_folder(file) and exists(place) and os.access(place, os.W_OK)


def _record(driver: Driver, file: Path, settings: config.Config) -> int:
    seconds = settings["capture.duration"]
    if seconds > _TELL_AFTER:
        sys.stderr.write(f"recording for {seconds:g} s\n")
    try:
        within(_OPENING, driver.open)
        recorded = record.record(
            driver,
            seconds,
            settings["sample.interval"],
            mask=settings["capture.mask"],
            collectors=assembly.enabled(settings),
            clock=time.time,
        )
        record.write(recorded, file)
    except TimeoutError:
        complain("capture: the driver hangs: nothing is recorded")
        return 1
    except DriverError as error:
        complain(f"capture: driver not available ({error.code}): {error}")
        return 1
    except OSError as error:
        complain(f"capture: {file}: {error.strerror or error}")
        return 1
    finally:
        driver.close()
    sys.stderr.write(f"wrote {one_line(str(file))} ({file.stat().st_size} bytes)\n")
    return 0
