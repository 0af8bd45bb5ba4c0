"""The options of the daemon: those of its parts together, in the order of the reference."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.assembly.config import AttributionConfig
from exporter.collectors import CollectorsConfig
from exporter.config.kinds import (
    DurationUpTo,
    Subset,
    boolean,
    duration,
    non_negative_int,
    path,
    positive_duration,
    text,
)
from exporter.config.logs import LogConfig
from exporter.config.option import option, options_of, section, values_of
from exporter.exposition import MetricsConfig
from exporter.faults.config import FaultsConfig
from exporter.ledger.states import LedgerConfig
from exporter.progress.reader import ProgressConfig
from exporter.sampling.usage.nccl_status import NcclConfig
from exporter.web.config import WebConfig

log = logging.getLogger(__name__)

TAINT_PREFIX = "taint:"
NODE_HEALTH = ("condition", "events", f"{TAINT_PREFIX}NoSchedule", f"{TAINT_PREFIX}PreferNoSchedule")
MAX_INTERVAL_SECONDS = 60.0
"""Beyond it the driver's sample buffers do not reach, and a scrape finds values that are minutes old."""
STALE_SECONDS = 10.0
"""The default age at which a gauge vanishes."""


@dataclass(frozen=True, kw_only=True)
class PathsConfig:
    """`--path.*`: mounts and files of the host."""

    procfs: Path = option("/proc", path, "Mount of the host's procfs.", metavar="DIR")
    sysfs: Path = option("/sys", path, "Mount of the host's sysfs.", metavar="DIR")
    cgroupfs: Path = option("/sys/fs/cgroup", path, "Mount of the host's cgroups.", metavar="DIR")
    kmsg: Path = option("/dev/kmsg", path, "Kernel log to read XIDs from, where readable.", metavar="FILE")


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


@dataclass(frozen=True, kw_only=True)
class InputConfig:
    """`--simulate` and `--driver.*`."""

    simulate: str = option("", text, "Simulated GPUs in place of the driver, e.g. 8xH200:training.", metavar="SPEC")
    capture: str = option("", text, "Recorded answers in place of the driver.", metavar="FILE", name="driver.capture")
    exit_after: float = option(
        "0s",
        duration,
        "In a container: end after so long without library, devices or permission, so that a new one gets them; "
        "0 is never.",
        metavar="DURATION",
        name="driver.exit-after",
    )


@dataclass(frozen=True, kw_only=True)
class NodeHealthConfig:
    """`--kubernetes.*`."""

    node_health: Sequence[str] = option(
        "",
        Subset(NODE_HEALTH),
        "Write faults of GPUs to Kubernetes: condition is GPUHealthy of the node, taint is gpu-exporter/gpu-unhealthy "
        "with that effect, events are of the pods whose GPU failed. Each needs its rights.",
        metavar="NAMES",
    )

    @property
    def taint_effect(self) -> str:
        """Return the effect of the taint; empty: none."""
        return next((name.removeprefix(TAINT_PREFIX) for name in self.node_health if name.startswith(TAINT_PREFIX)), "")


@dataclass(frozen=True, kw_only=True)
class DaemonConfig:
    """Every option of the daemon."""

    web: WebConfig = section(WebConfig, group="Web")
    paths: PathsConfig = section(PathsConfig, "path", group="Paths")
    sample: SamplingConfig = section(SamplingConfig, group="Sampling")
    process: ProcessConfig = section(ProcessConfig, group="Processes")
    metrics: MetricsConfig = section(MetricsConfig, group="Metrics")
    attribution: AttributionConfig = section(AttributionConfig, group="Attribution")
    progress: ProgressConfig = section(ProgressConfig, group="Attribution")
    nccl: NcclConfig = section(NcclConfig, group="Attribution")
    faults: FaultsConfig = section(FaultsConfig, "", group="Faults")
    kubernetes: NodeHealthConfig = section(NodeHealthConfig, group="Faults")
    input: InputConfig = section(InputConfig, "", group="Input")
    log: LogConfig = section(LogConfig, group="Logging")
    collectors: CollectorsConfig = section(CollectorsConfig, group="Collectors")
    ledger: LedgerConfig = section(LedgerConfig, group="Ledger")


IGNORED_OPTIONS = (
    "path.*",
    "process.command-line",
    "attribution.kubernetes",
    "attribution.kubernetes.api",
    "attribution.containers*",
    "attribution.nomad",
    "attribution.slurm",
    "attribution.slurm.*",
    "progress.*",
    "nccl.*",
    "kubernetes.*",
    "maintenance.file",
)
"""Options about the machine around the GPUs: where those are simulated or recorded, they do nothing."""


def warn_ignored_options(config: DaemonConfig) -> None:
    """Name those that are set. They are not refused: a unit or a chart that serves a node sets them in any case."""
    values = values_of(config)
    made_up = next((name for name in ("simulate", "driver.capture") if values[name]), "")
    changed = [option.name for option in options_of(DaemonConfig) if values[option.name] != option.default_value]
    idle = [name for name in changed if any(matching(pattern, (name,)) for pattern in IGNORED_OPTIONS)]
    if made_up and idle:
        log.warning("--%s: without effect beside it: %s", made_up, ", ".join(f"--{name}" for name in idle))


def matching(pattern: str, names: Iterable[str]) -> Sequence[str]:
    return [name for name in names if fnmatch.fnmatchcase(name, pattern)]
