"""The options of the sampling cycle."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.config.kinds import DurationUpTo, boolean, non_negative_int, positive_duration
from exporter.config.option import option

MAX_INTERVAL_SECONDS = 60.0
"""Beyond it the driver's sample buffers do not reach, and a scrape finds values that are minutes old."""
STALE_SECONDS = 10.0
"""The default age at which a gauge vanishes."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """`--sample.*`, in seconds."""

    interval: float = option(
        "1s",
        DurationUpTo(MAX_INTERVAL_SECONDS),
        "Time between two sampling cycles, 1m at most. A cycle waits four fifths of it for the GPUs.",
        metavar="DURATION",
    )
    stale: float = option(
        "10s",
        positive_duration,
        "Age at which a gauge vanishes; at least 1.8 times --sample.interval, to which the default grows.",
        metavar="DURATION",
    )


@dataclass(frozen=True, kw_only=True)
class ProcessConfig:
    """`--process.*`."""

    limit: int = option(
        "64", non_negative_int, "Processes shown per GPU; the rest are summed as pid 'other'.", metavar="N"
    )
    command_line: bool = option("false", boolean, "Show arguments in `command`, secrets masked; else the short name.")
