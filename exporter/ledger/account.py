"""Inputs and contents of the ledger: frozen records, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.attribution.owner import Owner, Target
from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.core.units import Fraction, Joules
from exporter.host.model import HostSignals, Rank
from exporter.ledger.states import STATES
from exporter.ledger.states.state import NO_CLOCKS, ClockHistory, Comparison, Signals, UsageHistory

Seconds = tuple[float, ...]
"""One number per state, in the order of STATES."""

ZERO: Seconds = (0.0,) * len(STATES)


@record
class Allocation:
    """The allocation of one target to one owner. The fractions of a target sum to 1 at most; the rest is free."""

    owner: Owner
    share: Fraction = Fraction(1.0)
    pids: tuple[int, ...] = ()
    """Its processes on the target; without any it is `allocated_idle`, where they are listed."""
    utilization: float | None = None
    """SM utilization of its processes together, where the driver reports it apart."""
    listed: bool = True
    """True if the target's processes are known: a driver may not report them, or is not asked."""


class Counted(NamedTuple):
    """Seconds a GPU was busy by the driver's own count, the seconds since it was read before, and those not covered."""

    busy: float
    seconds: float
    lost: float = 0.0


@record
class Reading:
    """One target in one cycle. `signals` is None where it could not be read.

    A GPU whose instances are among the readings of the cycle counts as their sum: its own signals and allocations
    are not used. `joules` is the energy since the last cycle, known for whole GPUs only.
    """

    target: Target
    signals: Signals | None = None
    allocations: tuple[Allocation, ...] = ()
    joules: Joules = Joules(0.0)
    profile: str = ""
    """Profile of a MIG instance, for its label."""
    counted: Counted | None = None
    """None where it was not read in this cycle, or never before, or has no such count (MIG)."""
    metered: float = 0.0
    """Seconds that `joules` cover: many after cycles without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInput:
    """One cycle of the sampler. `seconds` is by a monotonic clock, since the cycle before; 0 in the first."""

    time: UnixTime
    """Unix seconds at its end; only compared with start times."""
    seconds: float
    interval: float = 1.0
    """Seconds from one cycle to the next, as planned."""
    readings: tuple[Reading, ...] = ()
    hosts: Mapping[Owner, HostSignals] = field(default_factory=dict[Owner, HostSignals])
    work: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """Class of each owner's work, where known."""
    spread: frozenset[Owner] = frozenset()
    """Owners known to have GPUs on other nodes too."""
    slow_ports: frozenset[str] = frozenset()
    """Uuids of the GPUs whose nearest network port is down, slow, or counts errors."""
    starts: Mapping[Owner, UnixTime] = field(default_factory=dict[Owner, UnixTime])
    """Unix seconds each workload started, where known."""
    ranks: Mapping[Owner, Sequence[Rank]] = field(default_factory=dict[Owner, Sequence[Rank]])
    """Reports of the owners' processes."""
    nccl: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """The verdict of NCCL's RAS on the owners that seem to hang."""
    host_signals_known: frozenset[str] = frozenset()
    """Names of the `HostSignals` this host can report, and `reported_phases` where programs can report."""
    compared: Mapping[tuple[Owner, str], Comparison] = field(default_factory=dict[tuple[Owner, str], Comparison])
    """Set by the ledger itself: ranks of one job beside each other, by owner and target."""


@record
class TargetEntry:
    """Totals of one GPU or MIG instance since it was first seen; they sum to the time it was in the cycles."""

    target: Target
    profile: str = ""
    seconds: Seconds = ZERO
    signals: Signals | None = None
    """The last that could be read: what this device can report."""
    clocks: ClockHistory = NO_CLOCKS
    power_cap_seconds: float | None = None
    """Seconds that its power limit took. No state: the limit is as it should be. None: the driver does not count it."""
    unowned_seconds: float = 0.0
    """GPU seconds run by nobody known, those on the instances of a GPU included; 0 for an instance."""
    seen: float = 0.0
    """The ledger's clock at its last cycle."""


@record
class OwnerEntry:
    """Totals of one owner: they sum to its fraction of each target times the time of the allocation."""

    seconds: Seconds = ZERO
    past: Mapping[str, UsageHistory] = field(default_factory=dict[str, UsageHistory])
    """Histories of targets that were allocated to it or that it ran on, keyed by uuid."""
    used: Mapping[str, float] = field(default_factory=dict[str, float])
    """GPU seconds that it ran on a GPU and its instances, keyed by GPU uuid, whatever its allocated fraction."""
    joules: Joules = Joules(0.0)
    idle_seconds: float | None = None
    """Seconds since any of its targets last did something for it. None: none of them ever reported its use."""
    start_time: UnixTime | None = None
    first_kernel_seconds: float | None = None
    """Absent also where the exporter began after the workload did, and may have missed it."""
    seen: float = 0.0


@record
class TargetUsage:
    """Seconds that one owner added on one target in one cycle. NOBODY has what no owner was allocated."""

    owner: Owner
    gpu: str
    """Uuid of the GPU, also for one of its instances."""
    profile: str
    """Profile of the MIG instance; empty for a GPU."""
    states: tuple[tuple[int, float], ...]
    """State and the fraction of the GPU's cycle in it; the fractions sum to the allocated fraction of the GPU."""
    used: float
    """GPU seconds it ran."""
    joules: Joules


@record
class Ledger:
    """All totals at the end of one cycle. The empty ledger is where an exporter starts."""

    clock: float = 0.0
    """Seconds of all cycles together: a clock that no wall clock correction moves."""
    began: UnixTime | None = None
    """Time of the first cycle."""
    targets: Mapping[str, TargetEntry] = field(default_factory=dict[str, TargetEntry])
    owners: Mapping[Owner, OwnerEntry] = field(default_factory=dict[Owner, OwnerEntry])
    host_signals_known: frozenset[str] = frozenset()
    usage: tuple[TargetUsage, ...] = ()
    """Rows of the last cycle alone."""
