"""Which workloads seem to hang in a collective: they spun in one for most of the time, without a pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from exporter.attribution.owner import Owner
from exporter.core.clock import MonotonicTime
from exporter.ledger.account import Ledger, Reading
from exporter.ledger.division import SPINNING

_AFTER = 30.0
"""Seconds of spinning: longer than a collective of any working job waits."""
_SHARE = 0.5
"""Share of its GPU time."""


@dataclass(slots=True)
class Suspects:
    """Kept from pass to pass."""

    _since: dict[Owner, MonotonicTime] = field(default_factory=dict[Owner, MonotonicTime])

    def of(
        self, before: Ledger, after: Ledger, readings: Sequence[Reading], now: MonotonicTime
    ) -> dict[Owner, tuple[int, ...]]:
        """The suspects, each with its processes on this node's GPUs."""
        spinning = {owner for owner, entry in after.owners.items() if _spins(before, owner, entry.seconds)}
        self._since = {owner: self._since.get(owner, now) for owner in spinning}
        long = {owner for owner, since in self._since.items() if now - since >= _AFTER}
        return {owner: _pids(owner, readings) for owner in long} if long else {}


def _spins(before: Ledger, owner: Owner, seconds: Sequence[float]) -> bool:
    known = before.owners.get(owner)
    if known is None or seconds[SPINNING] <= known.seconds[SPINNING]:
        return False
    return seconds[SPINNING] - known.seconds[SPINNING] >= _SHARE * (sum(seconds) - sum(known.seconds))


def _pids(owner: Owner, readings: Sequence[Reading]) -> tuple[int, ...]:
    found = (pid for each in readings for held in each.holdings if held.owner == owner for pid in held.pids)
    return tuple(dict.fromkeys(found))
