"""GPU seconds that owners ran in one pass; with what nobody known ran they sum to the time the GPU was busy.

A GPU that answers after passes without an answer, or after a pass of many seconds, reports how long it was busy
meanwhile. Who ran then is known only of owners that were there before: the others get nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.ledger.account import OwnerEntry, Reading
from exporter.ledger.division import Division, demands

_LATE = 1.5
"""Times a pass: from here on the time since the last answer has passes without one in it."""


class Used(NamedTuple):
    """Seconds on one target by holding, in their order, and those of nobody known."""

    owned: Sequence[float]
    rest: float


def used(reading: Reading, division: Division, seconds: float, owners: Mapping[Owner, OwnerEntry]) -> Used:
    """`owners` are as they were before this pass."""
    seen = [part.demand * seconds for part in division.owner_shares]
    busy = _caught_up(reading, division, seconds)
    if busy is None:
        return Used(seen, 0.0 if seen else (division.busy or 0.0) * seconds)
    whole = demands(busy, reading.holdings)
    owned = [
        most if _was_there(owners.get(holding.owner), reading) else min(least, most)
        for holding, least, most in zip(reading.holdings, seen, whole, strict=True)
    ]
    return Used(owned, max(0.0, busy - sum(owned)))


def _caught_up(reading: Reading, division: Division, seconds: float) -> float | None:
    """Busy seconds since its last answer, where that is longer ago than this pass began."""
    counted = reading.counted
    if counted is None or (division.busy is not None and counted.seconds <= _LATE * seconds):
        return None
    return counted.busy


def _was_there(known: OwnerEntry | None, reading: Reading) -> bool:
    return known is not None and reading.target.uuid in known.past
