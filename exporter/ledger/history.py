"""The history of one owner on one target, and of one target alone, from cycle to cycle; the seconds it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import NamedTuple

from exporter.attribution.owner import NOBODY, Owner
from exporter.ledger.account import OwnerEntry, Reading
from exporter.ledger.division import SPINNING, Division, OwnerUsage, split_busy
from exporter.ledger.peers import kept_part
from exporter.ledger.states import BUSY, INDEX
from exporter.ledger.states.idle import ACTIVE
from exporter.ledger.states.state import ClockHistory, Limits, Signals, UsageHistory

_COMPUTING_STATES = frozenset(INDEX[state] for state in BUSY)
_BUSY_STATES = _COMPUTING_STATES | {SPINNING}
_SPIN_ERROR = 0.1
LATE_CYCLES = 1.5
"""Times a cycle: from here on the time since the last answer has cycles without one in it."""
_MIN_COMPUTING_RATIO = 0.5
"""Busy part of a cycle from which its power shows what computing draws."""
_RECENT_CYCLES = 10
"""Cycles within which a process that does wait for storage is caught at it: one read a cycle sees a third of it."""
_BARRIER_SECONDS = 60.0
_NEWEST = 0.2
"""Weight of the newest reading of a throttled clock."""
_DECAY_SECONDS = 3600.0
"""Seconds over which the highest power and the highest clock are forgotten: work changes, and so do limits."""


class OwnerBusySeconds(NamedTuple):
    """Seconds on one target by allocation, in their order, and those of nobody known, which are in no allocation."""

    owned: Sequence[float]
    rest: float


def divide_busy_seconds(
    reading: Reading, division: Division, seconds: float, owners: Mapping[Owner, OwnerEntry]
) -> OwnerBusySeconds:
    """Return the GPU seconds that owners ran in one cycle; with the rest they sum to the time the GPU was busy.

    A GPU that answers after cycles without an answer, or after a cycle of many seconds, reports how long it was busy
    meanwhile. Who ran then is known only of owners that were there before: the others get nothing of it. `owners` are
    as they were before this cycle.
    """
    seen = [part.demand * seconds for part in division.owner_usages]
    counted = reading.counted
    if counted is None or (division.busy is not None and counted.seconds <= LATE_CYCLES * seconds):
        return _split_unowned(reading, seen, 0.0 if seen else (division.busy or 0.0) * seconds)
    uuid, whole = reading.target.uuid, split_busy(counted.busy, reading.allocations)
    owned = [
        most if allocation.owner in owners and uuid in owners[allocation.owner].past else min(least, most)
        for allocation, least, most in zip(reading.allocations, seen, whole, strict=True)
    ]
    return _split_unowned(reading, owned, max(0.0, counted.busy - sum(owned)))


def _split_unowned(reading: Reading, owned: Sequence[float], rest: float) -> OwnerBusySeconds:
    """Return the seconds, those of unknown owners in the rest, which is kept for as long as the GPU is there."""
    each = [
        (allocation.owner == NOBODY, seconds) for allocation, seconds in zip(reading.allocations, owned, strict=True)
    ]
    of_nobody = sum([seconds for nobody, seconds in each if nobody])
    return OwnerBusySeconds([0.0 if nobody else seconds for nobody, seconds in each], rest + of_nobody)


def next_history(
    before: UsageHistory, division: Division, part: OwnerUsage, seconds: float, limits: Limits
) -> UsageHistory:
    """Return the past of one owner on one target after one more cycle."""
    ran = part.demand > limits[ACTIVE]
    fade = exp(-seconds / _BARRIER_SECONDS)
    waits = [fraction for state, fraction in part.state_fractions if state not in _BUSY_STATES]
    received = sum(waits) if part.receiving else 0
    quiet = before.quiet_seconds + (seconds if division.busy is not None else 0.0)
    return UsageHistory(
        straggling_seconds=before.straggling_seconds,
        quiet_seconds=0.0 if ran else quiet,
        ran=before.ran or ran,
        unblocked_cycles=0 if part.blocked else before.unblocked_cycles + 1,
        uncomputed_seconds=0.0 if ran and _has_computed(part) else before.uncomputed_seconds + seconds,
        activity=before.activity,
        kept_seconds=before.kept_seconds * fade + kept_part(part) * seconds,
        received_seconds=before.received_seconds * fade + received * seconds,
    )


def _has_computed(part: OwnerUsage) -> bool:
    """Return whether it ran kernels that did not only spin: longer than an estimate of the spin errs."""
    busy = [(state in _COMPUTING_STATES, ratio) for state, ratio in part.state_fractions if state in _BUSY_STATES]
    return sum([ratio for computing, ratio in busy if computing]) > _SPIN_ERROR * sum([ratio for _, ratio in busy])


def was_blocked(past: UsageHistory) -> bool:
    """Return whether a process was in D state lately."""
    return past.unblocked_cycles < _RECENT_CYCLES


def next_clocks(before: ClockHistory, signals: Signals | None, seconds: float) -> ClockHistory:
    """Return the clocks of one target after one more cycle."""
    if signals is None:
        return before
    free, uncapped = before.free, before.uncapped
    slowed = signals.throttled_thermal is None or signals.throttled_thermal or signals.throttled_power_brake
    if signals.sm_clock and (signals.busy or 0.0) >= _MIN_COMPUTING_RATIO and not slowed:
        free = highest_lately(free, signals.sm_clock, seconds)
        uncapped = uncapped if signals.throttled_power_cap else highest_lately(uncapped, signals.sm_clock, seconds)
    throttled = mean_lately(before.throttled, signals.sm_clock_throttled)
    return ClockHistory(free, uncapped, throttled, mean_lately(before.capped, signals.sm_clock_capped))


def clock_lost(lowered: float | None, free: float | None) -> float | None:
    """Return the part of the free clock that a lowered one lacks; None where either is not known."""
    return max(0.0, 1.0 - lowered / free) if lowered and free else None


def power_cap_seconds(
    before: float | None, clocks: ClockHistory, signals: Signals | None, seconds: float
) -> float | None:
    """Return the seconds that the power limit took: what the clock lacks, times how long that alone lowered it."""
    if signals is None or signals.throttled_power_cap is None or signals.busy is None:
        return before
    slowed = (signals.throttled_thermal or 0.0) + (signals.throttled_power_brake or 0.0)
    part = min(signals.throttled_power_cap, max(0.0, signals.busy - slowed))
    lost = clock_lost(clocks.capped or signals.sm_clock, clocks.uncapped or signals.sm_clock_max) if part else 0.0
    return (before or 0.0) + (lost or 0.0) * part * seconds


def mean_lately(before: float | None, now: float | None) -> float | None:
    return before if now is None else now if before is None else before + _NEWEST * (now - before)


def highest_lately(before: float | None, now: float, seconds: float) -> float:
    if before is None or now >= before:
        return now
    return before - (before - now) * min(1.0, seconds / _DECAY_SECONDS)
