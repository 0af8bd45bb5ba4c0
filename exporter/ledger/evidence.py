"""What the rules look at: one GPU's signals of one pass, and what they show beside the host's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from exporter.host.model import HostSignals

NO_HOST = HostSignals()


@dataclass(frozen=True, slots=True)
class Signals:
    """One GPU, or one MIG instance, in one pass. Shares of the pass from 0 to 1; None: this device cannot tell."""

    busy: float | None = None
    """Time in which a kernel ran."""
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    """GPM, Hopper and newer."""
    memory_activity: float | None = None
    """Time in which memory was read or written (NVML); says nothing of how much."""
    link_activity: float | None = None
    """Traffic over what NVLink or PCIe can carry, the larger of the two."""
    power_of_limit: float | None = None
    throttled_thermal: float | None = None
    throttled_power_brake: float | None = None
    """By the driver's counters."""


class Evidence(NamedTuple):
    """What one rule judges: the GPU, and its holder's host side where the rule is about waiting."""

    signals: Signals
    busy: float
    wait: float = 0.0
    """Part of the holder's own time on this GPU in which it ran nothing."""
    host: HostSignals = NO_HOST
    hottest_thread: float | None = None
    blocked: float | None = None
    """Of this GPU's processes where they were measured, else of the owner's."""
    peer_lead: float = 0.0
    """How much busier the owner's busiest other GPU was, as a share of the pass; 0 where there is none."""

    def of_busy(self, activity: float | None) -> float | None:
        """An activity over the pass as a share of the busy time alone."""
        if activity is None or self.busy <= 0:
            return None
        return min(1.0, activity / self.busy)
