"""Options about the machine around the GPUs: where those are simulated or recorded, they do nothing."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Sequence

from exporter.config.option import options_of, values_of
from exporter.daemon.config import DaemonConfig

log = logging.getLogger(__name__)

PATTERNS = (
    "path.*",
    "process.command-line",
    "attribution.kubernetes",
    "attribution.kubernetes.api",
    "attribution.containers*",
    "attribution.nomad.*",
    "attribution.slurm",
    "attribution.slurm.*",
    "progress.*",
    "nccl.*",
    "maintenance.file",
)


def warn(config: DaemonConfig) -> None:
    """Name those that are set. They are not refused: a unit or a chart that serves a node sets them in any case."""
    values = values_of(config)
    made_up = next((name for name in ("simulate", "driver.capture") if values[name]), "")
    changed = [option.name for option in options_of(DaemonConfig) if values[option.name] != option.default_value]
    idle = [name for name in changed if any(matching(pattern, (name,)) for pattern in PATTERNS)]
    if made_up and idle:
        log.warning("--%s: without effect beside it: %s", made_up, ", ".join(f"--{name}" for name in idle))


def matching(pattern: str, names: Iterable[str]) -> Sequence[str]:
    return [name for name in names if fnmatch.fnmatchcase(name, pattern)]
