"""What the rules of several waiting states share. A false accusation costs more than an unknown cause."""

from __future__ import annotations

from exporter.ledger.evidence import Evidence, at_least
from exporter.ledger.states.state import Limits, Threshold

WAIT_COVER = Threshold(
    "wait_cover", 0.5, "Part of the waiting time that pressure, or a busier peer, must cover to be its cause."
)
PRESSURE_FLOOR = Threshold("pressure_floor", 0.05, "Pressure below this share of the pass explains nothing.")
BLOCKED = Threshold(
    "blocked",
    0.5,
    "Share of an owner's GPU processes in D state, or in a receive, that makes waiting a wait for that.",
)
SPIN_BUSY = Threshold("spin_busy", 0.95, "Busy share of a pass from which a GPU can spin in a collective.")

ON_DEMAND = frozenset({"service", "interactive"})
"""Classes of work that wait for somebody: without a kernel for a while they are neither unused nor short of CPU."""


def covers_wait(share: float | None, evidence: Evidence, limits: Limits) -> bool:
    """Return whether it lasted long enough to explain the waiting."""
    return at_least(share, max(limits[PRESSURE_FLOOR], limits[WAIT_COVER] * evidence.wait))


def reported_part(evidence: Evidence, *phases: str) -> float:
    """Return the part of the wait that the GPU's own program reports to have spent in these phases."""
    inside = sum([evidence.reported.get(name, 0.0) for name in phases]) if evidence.reported else 0.0
    return min(1.0, inside / evidence.wait) if evidence.wait > 0 else 0.0
