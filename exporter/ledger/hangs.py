"""Ranks whose kernels do nothing: by several witnesses, which may disagree.

A kernel that only spins leaves tensor cores, vector pipes and memory at rest, and draws little: far less than the same
work draws when it computes, or than the board may. Very small kernels come near that. So what was active before counts,
and how long it lasts. Without GPM only memory shows the work: there it must have been seen computing before.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.ledger.account import Ledger, Reading
from exporter.ledger.history import highest_lately
from exporter.ledger.states.activity import LINK_HIGH, POWER_LOW, SPIN_BUSY, SPIN_REST
from exporter.ledger.states.peers import SPIN_MEMORY, SPIN_POWER, SPIN_SM
from exporter.ledger.states.state import NO_HISTORY, Limits, RankActivity, at_least

STUCK_SECONDS = 5.0
"""Seconds without a pause from which a rank without any work beside it waits in a collective."""
_SUSPECT_AFTER_SECONDS = 30.0
"""Longer than a collective of any working job waits."""
_FELL_TO = 0.2
"""Activity over what the same work showed when it computed, at most, in a spin."""
_REST = {"tensor_active": SPIN_REST, "vector_active": SPIN_REST, "dram_active": SPIN_MEMORY}
"""Units that rest in a spin, with their limits. Where one is not measured, memory activity (NVML) must show it too."""
_AT_REST = {"vector_active": 0.3}
"""Times the limits: up to there a unit surely rests. Vector pipes stop in a spin; very small kernels use them."""
_DOUBTFUL = {"tensor_active": 2.0, "vector_active": 1.0, "dram_active": 2.0, "memory_activity": 3.0}
"""Times the limits: up to there small kernels and a spin are indistinguishable."""
_STILL = 0.02
"""Memory activity that no work without a pause stays below for long."""
_UNITS = ("tensor_active", "vector_active", "dram_active", "memory_activity", "power_of_limit", "sm_active")
_FADES_FASTER = {"sm_active": 60.0}
"""Times. SM activity of full cycles is compared with that of the last minute."""


class Spin(enum.IntEnum):
    """Certainty that a kernel only spins."""

    NO = 0
    POSSIBLE = 1
    YES = 2


def spin_of(now: Mapping[str, float], before: RankActivity, limits: Limits) -> Spin:
    """Compare one cycle with the limits, and with what this rank showed when it computed."""
    busy = now["busy"]
    if not busy or busy < limits[SPIN_BUSY] or at_least(now.get("link_activity"), limits[LINK_HIGH] * busy):
        return Spin.NO
    of_busy = {name: part / busy for name, part in now.items()}
    units = [name for name in _REST if name in of_busy]
    with_gpm = len(units) == len(_REST)
    units = units if with_gpm else [*units, "memory_activity"]
    rest = {name: limits[_REST.get(name, SPIN_MEMORY)] for name in units}
    power, draws = now.get("power_of_limit"), before.computing.get("power_of_limit", 0.0)
    if power is None or not of_busy.keys() >= rest.keys() or of_busy.get("sm_active", 0.0) > limits[SPIN_SM]:
        return Spin.NO
    most, low = max([before.computing.get(name, 0.0) for name in units]), power <= limits[SPIN_POWER] * draws
    fell = most > 0.0 and all(of_busy[name] <= _FELL_TO * most for name in units)
    near = all(of_busy[name] <= _DOUBTFUL[name] * limit for name, limit in rest.items())
    if not (fell or near) or not (low or power < limits[POWER_LOW]):
        return Spin.NO
    at_rest = all(of_busy[name] <= _AT_REST.get(name, 1.0) * limit for name, limit in rest.items())
    if with_gpm:
        return Spin.YES if at_rest or (fell and low) else Spin.POSSIBLE
    still = before.stuck >= _SUSPECT_AFTER_SECONDS and of_busy["memory_activity"] <= _STILL
    seen = (fell and power < draws) or (at_rest and low and draws >= limits[POWER_LOW])
    return Spin.YES if still or seen else Spin.POSSIBLE


def computing_levels(before: RankActivity, now: Mapping[str, float], spin: Spin, seconds: float) -> Mapping[str, float]:
    """Return the highest activity per busy second lately, of cycles in which it was mostly busy and did not spin."""
    busy = now["busy"]
    if spin is not Spin.NO or busy < 0.5:  # noqa: PLR2004 - of less the power is that of an idle GPU
        return before.computing
    return {
        name: highest_lately(before.computing.get(name), now[name] / busy, seconds * _FADES_FASTER.get(name, 1.0))
        for name in _UNITS
        if name in now
    }


def find_suspects(ledger: Ledger, readings: Sequence[Reading]) -> dict[Owner, tuple[int, ...]]:
    """Return the workloads that seem to hang, each with its processes on this node's GPUs.

    Most of their GPUs ran kernels that seem to do nothing, without a pause.
    """
    pids: dict[Owner, dict[int, None]] = {}
    stuck: dict[Owner, list[bool]] = {}
    for reading in readings:
        for each in reading.allocations:
            entry = ledger.owners.get(each.owner)
            past = entry.past.get(reading.target.uuid, NO_HISTORY) if entry else NO_HISTORY
            pids.setdefault(each.owner, {}).update(dict.fromkeys(each.pids))
            stuck.setdefault(each.owner, []).append(past.activity.stuck >= _SUSPECT_AFTER_SECONDS)
    return {owner: tuple(pids[owner]) for owner, each in stuck.items() if 2 * sum(each) >= len(each)}
