"""What the rules look at: one GPU's signals of one pass, and what they show beside the host's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.core.record import record
from exporter.host.model import HostSignals, ProcessSignals

NO_HOST = HostSignals()
NOTHING_REPORTED: Mapping[str, float] = MappingProxyType({})
NO_PROCESS = ProcessSignals()


@record
class Signals:
    """One GPU, or one MIG instance, in one pass. Shares of the pass from 0 to 1; None: this device cannot tell."""

    busy: float | None = None
    """Time in which a kernel ran."""
    engine_active: float | None = None
    """Of its engines for video, images and optical flow, the one that was in use most: they work without a kernel."""
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    """GPM, Hopper and newer."""
    vector_active: float | None = None
    """The FP64, FP32 and FP16 pipes together (GPM): arithmetic outside the tensor cores."""
    memory_activity: float | None = None
    """Time in which memory was read or written (NVML), and not how much."""
    link_activity: float | None = None
    """Traffic over what NVLink or PCIe can carry, the larger of the two."""
    power_of_limit: float | None = None
    throttled_thermal: float | None = None
    throttled_power_brake: float | None = None
    """By the driver's counters."""
    sm_clock: float | None = None
    """Hertz, as is `sm_clock_max`."""
    sm_clock_max: float | None = None


@record
class Past:
    """What one owner did on one target in the passes so far."""

    straggling_seconds: float = 0.0
    """In which the owner's other targets waited for this one."""
    quiet_seconds: float = 0.0
    """Observed time since its last kernel here; since it was first seen where it ran none yet."""
    ran: bool = False
    busy_power: float | None = None
    """Power over the limit while it computed: the highest lately. None: never seen computing."""
    unblocked_passes: int = 0
    """Since a process of it was last seen in D state."""
    uncomputed_seconds: float = 0.0
    """Since it last ran a kernel that did not only spin; since it was first seen where it ran none yet."""


NO_PAST = Past()


class Evidence(NamedTuple):
    """What one rule judges: the GPU, and its holder's side."""

    signals: Signals
    busy: float
    wait: float = 0.0
    """Part of the holder's own time on this GPU in which it ran nothing."""
    unused_by_others: float = 1.0
    """Part of that in which nobody else ran either: a neighbour on a shared GPU may run beyond its own share."""
    host: HostSignals = NO_HOST
    own: ProcessSignals = NO_PROCESS
    """Of this GPU's processes where they were measured, else of the owner's."""
    reported: Mapping[str, float] = NOTHING_REPORTED
    """Parts of the pass that this GPU's programs say they spent in each of their phases."""
    peer_lead: float = 0.0
    """How much busier the owner's busiest other GPU was, as a share of the pass; 0 where there is none."""
    peers_spin: float = 0.0
    """The most any other GPU of the owner spun in a collective."""
    peers_uncomputed: float = 0.0
    """Seconds since any other GPU of the owner last computed."""
    peer_late: float = 0.0
    """The most that something on this node kept another GPU of the owner, as a share of the pass; 0 where this one does
    not sit in a receive, or that one does too."""
    peers: bool = False
    """The owner has more than one GPU, here or on other nodes."""
    slow_port: bool = False
    """The network port nearest to the GPU is in trouble, and the owner has GPUs on other nodes."""
    stalled_elsewhere: bool = False
    """Processes on other GPUs of the owner were in D state lately, and those on this one were not."""
    past: Past = NO_PAST
    work: str = ""
    """Class of the owner's work (`workclass.py`); empty: not known."""
    clock_lost: float | None = None
    """Part of the clock the GPU runs unthrottled that it lacks now."""

    def of_busy(self, activity: float | None) -> float | None:
        """An activity over the pass as a share of the busy time alone."""
        if activity is None or self.busy <= 0:
            return None
        return min(1.0, activity / self.busy)


def at_least(number: float | None, limit: float) -> bool:
    """Compare; what was not measured explains nothing."""
    return number is not None and number >= limit


def below(number: float | None, limit: float) -> bool:
    """Compare; what was not measured explains nothing."""
    return number is not None and number < limit


def at_most(number: float | None, limit: float) -> bool:
    """Compare; true also for what was not measured."""
    return number is None or number <= limit
