"""Snapshot of one cycle: finished samples to render, and the view the status page draws. Never changed once made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from exporter.attribution.families import ProcessRow
from exporter.attribution.owner import Owner, SourceHealth
from exporter.core.clock import EPOCH, NEVER, MonotonicTime, UnixTime
from exporter.core.families import Block
from exporter.core.record import record
from exporter.core.threads import ThreadState
from exporter.core.units import Fraction
from exporter.faults.rule import Limits


@record
class GpuStatus:
    """One GPU as the node sees it. Numbers are None where the device has none or they are stale."""

    index: int
    uuid: str
    model: str
    up: bool | None
    """True if it answers; None where no thread of the exporter could ask it."""
    age: float
    """Seconds since it last answered; infinite when it never did."""
    hung_seconds: float = 0.0
    busy_ratio: float | None = None
    busy_seconds: float | None = None
    """Seconds a kernel ran since the first read."""
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    memory_shared: bool = False
    """True if the GPU shares its memory with the machine."""
    power_watts: float | None = None
    joules: float | None = None
    """Joules since driver load."""
    temperature_celsius: float | None = None
    unattributed_bytes: float | None = None
    stuck: bool = False
    """It reports full use, which cannot be true."""
    owners: tuple[tuple[Owner, Fraction], ...] = ()
    states: Mapping[str, float] = field(default_factory=dict[str, float])
    """Ledger seconds of the GPU by state, since start."""


@record
class CollectorStatus:
    name: str
    success: bool
    seconds: float
    rejected: int = 0
    """Implausible answers left out since the start."""


@record
class ProcessHealth:
    """The state of the exporter's parts outside the sampling cycle."""

    threads: Mapping[str, ThreadState] = field(default_factory=dict[str, ThreadState])
    web_reload_success: bool | None = None
    """True if the web configuration file as it is now is in force; None without one."""
    certificate_expiry: float | None = None
    """Unix seconds; None without TLS."""


@record
class NodeStatus:
    """The node and the exporter in one cycle."""

    time: UnixTime = EPOCH
    interval: float = 1.0
    cycle_seconds: float = 0.0
    cycles: int = 0
    driver_calls: int = 0
    simulated: bool = False
    driver: str = ""
    nvml: str = ""
    cuda: str = ""
    driver_error: str = "NOT_OPENED"
    driver_gpus: int | None = None
    enumerated_gpus: int | None = None
    """GPUs the driver counts, those that give no handle too."""
    pci_gpus: int | None = None
    gpus: Sequence[GpuStatus] = ()
    collectors: Sequence[CollectorStatus] = ()
    sources: tuple[SourceHealth, ...] = ()
    unattributed_processes: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    process: ProcessHealth = field(default_factory=ProcessHealth)
    xid_sources: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """State of each source of XIDs: True while it is followed."""


@record
class Snapshot:
    """`series` makes the blocks, from what the cycle found and nothing later."""

    status: NodeStatus = field(default_factory=NodeStatus)
    series: Callable[[], Iterable[Block]] = tuple
    processes: Sequence[ProcessRow] = ()
    monotonic: MonotonicTime = NEVER
    limits: Limits = field(default_factory=Limits)
    """Levels that the GPUs are compared with."""

    @property
    def blocks(self) -> Iterable[Block]:
        return self.series()

    @property
    def not_ready(self) -> str:
        """Return why this node cannot be relied on; empty when it can."""
        status = self.status
        if status.cycles == 0:
            return "no cycle has ended yet"
        if status.driver_error:
            return f"driver not available: {status.driver_error}"
        if status.pci_gpus and not status.driver_gpus:
            return f"PCI shows {status.pci_gpus} NVIDIA GPUs, the driver shows none"
        return ""
