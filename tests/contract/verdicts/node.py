"""A scripted node whose exporter can be started again, and looked at beside by a check of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exporter.core.clock import UnixTime
from exporter.faults.rule import Limits
from exporter.faults.watch import FaultWatchConfig
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.rig import BEGIN, UPTIME, Rig, gpu

BOOTED = UnixTime(BEGIN - UPTIME)
EVERY = 5.0
"""Seconds between cycles."""


@dataclass
class Node(Rig):
    """`records` are those of its kernel log: an exporter that starts later reads them too.

    GPUs whose index is in `late` do not answer in time, and hang nobody else.
    """

    records: list[str] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    expected: dict[str, int | None] = field(default_factory=dict)
    """The GPUs that there should be, by source."""

    def __post_init__(self) -> None:
        super().__post_init__()
        threads = self.sampler._gpus.threads
        read = threads.read

        def read_in_time(tasks: Mapping[str, Callable[[], Any]], *rest: Any) -> Mapping[str, Any]:
            late = {self.gpus[index].uuid for index in self.late}
            return read({uuid: task for uuid, task in tasks.items() if uuid not in late}, *rest)

        threads.read = read_in_time  # type: ignore[method-assign]

    def log(self, record: str) -> None:
        self.records.append(record)
        self.sampler.xids.read(record, BOOTED, {}, past=True)

    @property
    def now(self) -> UnixTime:
        return UnixTime(BEGIN + self.seconds)

    def run(self, seconds: float) -> None:
        self.cycles(int(seconds / EVERY), EVERY)

    def restarted(self, *, read_only: bool = False) -> Node:
        """Return another exporter of the same node and state file."""
        anew = Node(
            self.gpus, self.node, site=replace(self.site, read_only=read_only), late=self.late, expected=self.expected
        )
        anew.seconds, anew.driver.failure = self.seconds, self.driver.failure
        anew.enumerate()
        for record in self.records:
            anew.log(record)
        return anew


def started(folder: Path) -> Node:
    """Return a healthy node of two GPUs that have been on for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    expected: dict[str, int | None] = {}
    limits = Limits(reference={"ecc": "on"})
    site = FaultWatchConfig(folder, "boot-1", expected=lambda: expected, limits=limits)
    node = Node([gpu(0), gpu(1)], ScriptedNode(pci=2), site=site, expected=expected)
    for device in node.gpus:
        device.answers["nvmlDeviceGetTotalEnergyConsumption"] = 9e9
    return node
