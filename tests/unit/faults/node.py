"""A node of two GPUs whose faults are latched, and each fault it can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from exporter.collectors.xid import XidReport
from exporter.faults.latch import advance_faults
from exporter.faults.model import Acknowledgement, FaultState, Observation, ObservedGpu

WEEK = 7 * 86400.0
WATTS = 400.0


@dataclass(slots=True)
class Node:
    """A node that is looked at every five seconds, or after a jump."""

    book: FaultState = field(default_factory=FaultState)
    now: float = 1_000_000.0
    boot: str = "boot-1"
    driver: bool = True
    gpus: dict[str, ObservedGpu] = field(default_factory=dict[str, ObservedGpu])
    refused: tuple[tuple[int, str], ...] = ()
    said: tuple[Acknowledgement, ...] = ()
    sxids: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    unclaimed: dict[str, dict[int, XidReport]] = field(default_factory=dict[str, dict[int, XidReport]])
    stated: int = 0
    levels: dict[str, int] = field(default_factory=dict[str, int])
    epoch: float = 1_000_000.0 - 86400.0
    """When the driver's counters began."""
    booted: float = 0.0
    """When the node started, by its wall clock; 0 for unknown."""

    def __post_init__(self) -> None:
        for index in range(2):
            uuid = f"GPU-{index}"
            self.gpus[uuid] = ObservedGpu(
                uuid, index, f"S{index}", f"0000:0{index}:00.0", up=True, uncorrected=0.0, links=18
            )
        self.observe(15)

    def change(self, uuid: str = "GPU-0", **fields: object) -> None:
        self.gpus[uuid] = replace(self.gpus[uuid], **fields)  # type: ignore[arg-type]

    def observe(self, seconds: float = 60.0, *, step: float = 5.0) -> None:
        """Observation again and again for so long."""
        for _ in range(max(1, int(seconds / step))):
            self.now += step
            joules = WATTS * (self.now - self.epoch)
            gpus = tuple(
                replace(seen, joules=joules if seen.joules is None else seen.joules) for seen in self.gpus.values()
            )
            observed = Observation(self.now, self.boot, self.driver, gpus, self.refused, self.said, self.sxids)
            observed = replace(
                observed, unclaimed=self.unclaimed, stated=self.stated, levels=self.levels, booted=self.booted
            )
            self.book = advance_faults(self.book, observed)

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock on by so much. The kernel log's times move with it."""
        self.now, self.epoch, self.booted = self.now + seconds, self.epoch + seconds, self.booted + seconds
        for uuid, seen in self.gpus.items():
            self.change(uuid, xids={number: time + seconds for number, time in seen.xids.items()})
        self.sxids = {name: time + seconds for name, time in self.sxids.items()}

    def reset(self, uuid: str = "GPU-0") -> None:
        self.epoch = self.now
        self.change(uuid, uncorrected=0.0)

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(fault.kind.value, fault.evidence) for fault in self.book.faults]

    def say(self, gpu: str, kind: str = "") -> None:
        self.said = (*self.said, Acknowledgement(gpu, kind, "ada", "mended", self.now))


def xid(node: Node, number: int) -> None:
    node.change(xids={number: node.now})


def gone(node: Node) -> None:
    del node.gpus["GPU-0"]


FAULTS: dict[str, tuple[Callable[[Node], None], tuple[str, str]]] = {
    "XID 119 once": (lambda n: xid(n, 119), ("xid", "XID 119")),
    "XID 79": (lambda n: xid(n, 79), ("lost", "XID 79")),
    "an uncorrectable error": (lambda n: n.change(uncorrected=1.0), ("ecc_uncorrectable", "1 uncorrectable error")),
    "all links": (lambda n: n.change(links=0), ("nvlink_down", "18 of 18 links down")),
    "two links": (lambda n: n.change(links=16), ("nvlink_down", "2 of 18 links down")),
    "gone from the driver": (gone, ("lost", "not shown by the driver")),
    "does not answer": (lambda n: n.change(up=False, failure="GPU_IS_LOST"), ("lost", "GPU_IS_LOST")),
    "no spare rows": (lambda n: n.change(remap_failed=True), ("row_remap_failed", "no spare rows")),
    "too many SRAM errors": (lambda n: n.change(sram_exceeded=True), ("ecc_sram_threshold", "over NVIDIA's threshold")),
}
