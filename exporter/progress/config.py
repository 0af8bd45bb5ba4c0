"""The options of what programs report of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.config.kinds import optional_path
from exporter.config.option import option


@dataclass(frozen=True, kw_only=True)
class ProgressConfig:
    """`--progress.*`."""

    socket: Path | None = option(
        "",
        optional_path,
        "Unix datagram socket where programs send their progress: docs/progress.md.",
        metavar="FILE",
    )
    folder: Path | None = option(
        "",
        optional_path,
        "Directory where programs leave their progress: docs/progress.md.",
        metavar="DIR",
        name="dir",
    )
