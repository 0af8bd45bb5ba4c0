"""Facts of a node's GPUs beyond one cycle: which there are, and their faults."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from exporter.collectors.xid import XidReport
from exporter.collectors.xid_catalogue import RECOVERY_CHANGED
from exporter.core.clock import EPOCH, UnixTime

XID_EVIDENCE = "XID "
"""Start of the evidence of faults that an XID reports."""
ADVICE_EVIDENCE = f"{XID_EVIDENCE}{RECOVERY_CHANGED}"
"""Evidence of a fault by which the driver advises what to do about another one."""
_YEAR_10000 = 253_402_300_800.0


def parse_date(value: str | float) -> UnixTime:
    """Unix seconds out of a file. Raises ValueError for what is no date: nothing ever comes after infinity."""
    seconds = float(value)
    if not 0 <= seconds < _YEAR_10000:
        raise ValueError("a time is none")
    return UnixTime(seconds)


class FaultKind(str, enum.Enum):
    """Kind of a fault; the value is the label `fault`."""

    XID = "xid"
    ECC = "ecc_uncorrectable"
    SRAM = "ecc_sram_threshold"
    REMAP = "row_remap_failed"
    NVLINK = "nvlink_down"
    PCIE_WIDTH = "pcie_width"
    PCIE_GENERATION = "pcie_generation"
    PATTERN = "xid_pattern"
    """Many programs failed on this GPU, and on no other."""
    SLOW = "gpu_slow"
    """Its calls are late: it may still compute."""
    LOST = "lost"
    NVSWITCH = "nvswitch"
    """Fault of the node, not of a GPU."""


class RepairAction(str, enum.Enum):
    """Repair of a fault; the value is the label `action`."""

    RESET = "reset"
    RESET_WHEN_IDLE = "reset_when_idle"
    """The damage is contained: what runs may end first."""
    RESTART = "restart"
    """Restart of the node."""
    REPLACE = "replace"
    PROCEDURE = "procedure"
    """NVIDIA has one for this XID."""
    VENDOR = "vendor"
    INSPECT = "inspect"
    PAGE = "page"
    """The site's own list asks for a page."""


REPAIRS_BY_STRENGTH = (RepairAction.RESET_WHEN_IDLE, RepairAction.RESET, RepairAction.RESTART, RepairAction.REPLACE)
"""Repairs, the weakest first: each does what those before it do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one GPU. `uuid` is empty for a GPU that never gave one, and `index` negative for one without either.

    `since` is Unix seconds.
    """

    uuid: str
    index: int
    kind: FaultKind
    evidence: str
    action: RepairAction
    since: UnixTime

    @property
    def by_xid(self) -> bool:
        return self.evidence.startswith(XID_EVIDENCE)


@dataclass(frozen=True, slots=True)
class SwitchFault:
    """A fatal SXID of an NVSwitch: the work of all GPUs behind it hangs or ends. `since` is Unix seconds."""

    switch: str
    sxid: str
    since: UnixTime

    @property
    def evidence(self) -> str:
        return f"NVSwitch {self.switch}: SXID {self.sxid}"


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """A GPU this node has had. Its last recorded values show which counters began anew."""

    index: int
    serial: str = ""
    bus: str = ""
    links: int = 0
    """The most NVLink links that were up; 0 before the first reading, negative after an acknowledgement."""
    width: int = 0
    """The most PCIe lanes, in the same way."""
    generation: int = 0
    """The highest PCIe generation, in the same way."""
    low_generation: int = 0
    """Observations in a row of a lower generation under load."""
    joules: float | None = None
    uncorrected: float = 0.0
    baseline_time: UnixTime = EPOCH
    """Unix seconds of the last recorded values."""
    reset_observations: int = 0
    """Observations in a row with the counters below their last recorded values."""
    last_reset: UnixTime = EPOCH
    """Unix seconds of the last proven cure: what happened before it does not count any more."""
    last_boot: UnixTime = EPOCH
    """Unix seconds of the last start of the node that was noticed."""
    missing_since: UnixTime | None = None
    """Time since which it is unreachable."""
    returned_at: UnixTime | None = None
    """Time since which it answers again, while a fault stands by which it does not."""
    expected: bool = True
    """False when somebody reported that it is gone for good, until the driver shows it again."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody reports that a fault is fixed, or that a GPU is not expected any more. `kind` empty: every fault."""

    gpu: str
    """Index or UUID; empty for the switches of the node."""
    kind: str
    by: str
    why: str
    time: UnixTime

    def covers(self, fault: Fault) -> bool:
        kinds = ("", fault.kind.value, *((FaultKind.XID.value,) if fault.by_xid else ()))
        names = (str(fault.index), fault.uuid, *fault.evidence.split(" at ")[1:])
        return self.gpu in names and self.kind in kinds and (self.gpu != "" or fault.index >= 0)

    def covers_switch(self, fault: SwitchFault) -> bool:
        return not self.gpu and self.kind == FaultKind.NVSWITCH.value and fault.since <= self.time


@dataclass(frozen=True, slots=True)
class FaultState:
    """All that survives a restart, and `refused`. `accepted` are level faults somebody acknowledged while they stand.

    They go by UUID, GPUs that are lost for want of a handle by index.
    """

    boot: str = ""
    devices: Mapping[str, GpuRecord] = field(default_factory=dict[str, GpuRecord])
    faults: tuple[Fault, ...] = ()
    accepted: frozenset[tuple[str, str]] = frozenset()
    acknowledged_until: UnixTime = EPOCH
    """Unix seconds of the last acknowledgement that was taken."""
    switches: tuple[SwitchFault, ...] = ()
    switches_last_reset: UnixTime = EPOCH
    """Unix seconds of their last proven cure: SXIDs before it do not count any more."""
    unnamed_last_reset: UnixTime = EPOCH
    """Unix seconds until which XIDs of GPUs that the driver never showed do not count."""
    booted: UnixTime = EPOCH
    """Time of this boot, by the wall clock of all these times."""
    refused: Mapping[int, UnixTime] = field(default_factory=dict[int, UnixTime])
    """Unix seconds since when an index gives no handle, and no GPU is known there. Not saved."""
    unconfirmed: Mapping[str, UnixTime] = field(default_factory=dict[str, UnixTime])
    """Unix seconds of the first sight of UUIDs that may be garbage: their absence is no fault. Not saved."""

    @property
    def confirmed_devices(self) -> Mapping[str, GpuRecord]:
        return {uuid: known for uuid, known in self.devices.items() if uuid not in self.unconfirmed}


@dataclass(frozen=True, slots=True)
class ObservedGpu:
    """One GPU as a cycle saw it. None is what the GPU does not report."""

    uuid: str
    index: int
    serial: str
    bus: str
    up: bool | None
    """None where nobody could read it: its state is then unknown."""
    failure: str = ""
    joules: float | None = None
    uncorrected: float | None = None
    uncorrected_at: UnixTime | None = None
    """Unix seconds of the read that counted them; None for that of the observation."""
    model: str = ""
    links: int | None = None
    width: int | None = None
    generation: int | None = None
    loaded: bool = False
    """True if it computes: idle GPUs lower their PCIe generation."""
    remap_failed: bool | None = None
    sram_exceeded: bool | None = None
    xids: Mapping[int, UnixTime] = field(default_factory=dict[int, UnixTime])
    """Unix seconds of the last one, by XID."""
    xid_classes: Mapping[int, str] = field(default_factory=dict[int, str])
    """Class that the report stated, keyed by XID; else the catalogue has it."""
    programs: Mapping[int, Sequence[UnixTime]] = field(default_factory=dict[int, "Sequence[UnixTime]"])
    """Unix seconds at which an XID last hit each of the programs that it has hit lately, by XID."""
    reset: UnixTime = EPOCH
    """Unix seconds of the last reset or load of the driver that the kernel log shows."""
    present: bool = True
    """True if the driver's last enumeration has it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of the node. `driver` is whether the driver is open; without it nothing is known of any GPU."""

    time: UnixTime
    boot: str
    driver: bool
    gpus: tuple[ObservedGpu, ...]
    refused: tuple[tuple[int, str], ...] = ()
    """Index and error code of GPUs the driver counts and gives no handle for."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    sxids: Mapping[tuple[str, str], UnixTime] = field(default_factory=dict[tuple[str, str], UnixTime])
    """Unix seconds of the last fatal one, by switch and SXID."""
    unclaimed: Mapping[str, Mapping[int, XidReport]] = field(default_factory=dict[str, Mapping[int, XidReport]])
    """The XIDs of GPUs that the driver does not show, by PCI bus id and XID."""
    stated: int = 0
    """GPUs by the operator's word (option, gres.conf); 0 without one."""
    booted: UnixTime = EPOCH
    """Time of this boot, by the wall clock of now."""
    levels: Mapping[str, int] = field(default_factory=dict[str, int])
    """Links and lanes by the operator's word, by field of GpuRecord."""
