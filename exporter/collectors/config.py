"""The options of the collectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector
from exporter.config.kinds import Subset
from exporter.config.option import option

XID = "xid"
HELP: Mapping[str, str] = {
    **{collector.name: collector.help for collector in COLLECTORS},
    XID: "XIDs from the driver's events and the kernel log.",
}
"""What can be disabled, and what it reads. No collector reads XIDs; they are disabled as one is."""


@dataclass(frozen=True, kw_only=True)
class CollectorsConfig:
    """`--collectors.*`."""

    disable: tuple[str, ...] = option(
        "",
        Subset(tuple(HELP)),
        f"Collectors to switch off, with commas between, of {', '.join(HELP)}.",
        metavar="NAMES",
    )

    @property
    def enabled(self) -> Sequence[AnyCollector]:
        return tuple(collector for collector in COLLECTORS if collector.name not in self.disable)

    @property
    def xids(self) -> bool:
        return XID not in self.disable
