"""A scripted node whose exporter can be started again, and looked at beside by a check of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from exporter.core.clock import UnixTime
from exporter.faults.watch import FaultWatchConfig
from tests.contract.passes.node import ScriptedNode
from tests.contract.passes.rig import BEGIN, UPTIME, Rig, gpu

BOOTED = UnixTime(BEGIN - UPTIME)
EVERY = 5.0
"""Seconds between cycles."""


@dataclass
class Node(Rig):
    """`records` are those of its kernel log: an exporter that starts later reads them too."""

    records: list[str] = field(default_factory=list)

    def log(self, record: str) -> None:
        self.records.append(record)
        self.sampler.xids.read(record, BOOTED, {}, past=True)

    @property
    def now(self) -> UnixTime:
        return UnixTime(BEGIN + self.seconds)

    def run(self, seconds: float) -> None:
        self.passes(int(seconds / EVERY), EVERY)

    def restarted(self, *, read_only: bool = False) -> Node:
        """Return another exporter of the same node and state file."""
        anew = Node(self.gpus, self.node, site=FaultWatchConfig(self.site.folder, "boot-1", read_only=read_only))
        anew.seconds = self.seconds
        for record in self.records:
            anew.log(record)
        return anew


def started(folder: Path) -> Node:
    """Return a healthy node of two GPUs that have been on for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    node = Node([gpu(0), gpu(1)], ScriptedNode(pci=2), site=FaultWatchConfig(folder, "boot-1"))
    for device in node.gpus:
        device.answers["nvmlDeviceGetTotalEnergyConsumption"] = 9e9
    return node
