"""`gpu-exporter capture`: record the driver's answers, for a bug report or a test."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from exporter.config import logs
from exporter.config.command_line import Page
from exporter.config.kinds import boolean, positive_duration, text
from exporter.config.logs import print_error
from exporter.config.option import ConfigError, option, positional, section
from exporter.core.printable import printable
from exporter.core.threads import run_with_timeout
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.driver.interface import Driver, DriverError
from exporter.host.text import exists, is_folder
from exporter.tools.capture import record


@dataclass(frozen=True, kw_only=True)
class RecordingConfig:
    """`--capture.*`."""

    duration: float = option("5s", positive_duration, "How long to record.", metavar="DURATION")
    mask: bool = option("true", boolean, "Replace serial numbers, UUIDs and PCI addresses.")
    file: str = option("", text, "File to write; also the argument without a flag.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class CaptureConfig:
    """Every option of `gpu-exporter capture`."""

    capture: RecordingConfig = section(RecordingConfig, group="Capture")
    daemon: DaemonConfig = section(DaemonConfig, "")
    file: str = positional()


PAGE = Page(
    "gpu-exporter capture",
    "Record the driver's answers to FILE, which --driver.capture FILE replays.",
    """\
examples:
  gpu-exporter capture bug.json
  gpu-exporter capture bug.json --capture.duration 30s --no-capture.mask
""",
    argument="FILE",
    common=("Capture", "Input"),
)
_REPORT_AFTER_SECONDS = 2.0
_OPENING_SECONDS = 30.0
"""Seconds the driver may take to begin with; with many GPUs and no persistence mode it takes some."""


def run(config: CaptureConfig) -> int:
    """Status 0, or 1 when the driver is not available or the file cannot be written."""
    file, other = config.file or config.capture.file, config.capture.file
    if other not in ("", file):
        raise ConfigError(f"capture: expected one file, got {file!r} and --capture.file {other!r}")
    if not file:
        raise ConfigError("capture: expected a FILE to write (see gpu-exporter capture --help)")
    logs.configure(config.daemon.log)
    path = Path(file)
    place = path if exists(path) else path.parent
    if is_folder(path) or not os.access(place, os.W_OK):  # fails before a recording is lost
        raise ConfigError(f"capture: {file}: not a file that can be written")
    return _write_capture(assembly.driver_of(config.daemon), path, config)


def _write_capture(driver: Driver, file: Path, config: CaptureConfig) -> int:
    seconds = config.capture.duration
    if seconds > _REPORT_AFTER_SECONDS:
        sys.stderr.write(f"recording for {seconds:g} s\n")
    try:
        run_with_timeout(_OPENING_SECONDS, driver.open)
        recorded = record.record(
            driver,
            seconds,
            config.daemon.sample.interval,
            mask=config.capture.mask,
            collectors=config.daemon.collectors.enabled,
            clock=time.time,
        )
        record.write(recorded, file)
    except TimeoutError:
        print_error("capture: the driver hangs: nothing is recorded")
        return 1
    except DriverError as error:
        print_error(f"capture: driver not available ({error.code}): {error}")
        return 1
    except OSError as error:
        print_error(f"capture: {file}: {error.strerror or error}")
        return 1
    finally:
        driver.close()
    sys.stderr.write(f"wrote {printable(str(file))} ({file.stat().st_size} bytes)\n")
    return 0
