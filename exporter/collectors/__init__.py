"""Every device collector, in exposition order: adding one here is what plugs it in.

XIDs come as events (`xid`) and processes are joined with their owners (`process_families`); both are published by
the sampler beside these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporter.collectors.base import AnyCollector
from exporter.collectors.clocks import CLOCKS
from exporter.collectors.ecc import ECC, REMAPPED_ROWS, RETIRED_PAGES
from exporter.collectors.fabric import FABRIC
from exporter.collectors.gpm import GPM
from exporter.collectors.health import HEALTH
from exporter.collectors.info import INFO
from exporter.collectors.memory import MEMORY
from exporter.collectors.mig import MIG
from exporter.collectors.nvlink import NVLINK
from exporter.collectors.pcie import PCIE
from exporter.collectors.power import POWER
from exporter.collectors.processes import PROCESSES
from exporter.collectors.temperature import TEMPERATURE
from exporter.collectors.throttle import THROTTLE
from exporter.collectors.utilization import ENGINES, UTILIZATION
from exporter.config.kinds import Subset
from exporter.config.option import option

COLLECTORS: tuple[AnyCollector, ...] = (
    INFO,
    MEMORY,
    UTILIZATION,
    ENGINES,
    GPM,
    POWER,
    CLOCKS,
    TEMPERATURE,
    THROTTLE,
    PCIE,
    NVLINK,
    ECC,
    RETIRED_PAGES,
    REMAPPED_ROWS,
    HEALTH,
    FABRIC,
    PROCESSES,
    MIG,
)


XID = "xid"
NAMES = (*(collector.name for collector in COLLECTORS), XID)
"""Collectors that can be disabled. No collector reads XIDs; they are disabled as one is."""


@dataclass(frozen=True, kw_only=True)
class CollectorsConfig:
    """`--collectors.*`."""

    disable: tuple[str, ...] = option(
        "",
        Subset(NAMES),
        f"Collectors to switch off, with commas between, of {', '.join(NAMES)}.",
        metavar="NAMES",
    )

    @property
    def enabled(self) -> Sequence[AnyCollector]:
        return tuple(collector for collector in COLLECTORS if collector.name not in self.disable)

    @property
    def xids(self) -> bool:
        return XID not in self.disable
