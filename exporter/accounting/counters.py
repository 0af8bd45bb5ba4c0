"""Counters of owners, not of workloads: few series, which outlive the work by a day and never reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.accounting.model import Amount, CounterKey, CounterRow, Kind, Place
from exporter.attribution.owner import NOBODY, Owner

MAX_SERIES = 500
"""Series of the owners' counters on one node."""
OTHER = "other"
RETENTION_SECONDS = 86400.0
"""Seconds that counters outlive the last allocation of their owner. Rules may miss them for so long."""
_FIXED_SERIES = 4
"""Series of one row besides the states."""
_RESERVED_SERIES = 60
"""Series kept for `other`."""


@dataclass(slots=True)
class Sums:
    """Sums that grow."""

    states: dict[str, float] = field(default_factory=dict[str, float])
    used: float = 0.0
    joules: float = 0.0

    def add_part(self, amount: Amount, part: float = 1.0) -> None:
        """Add a part of the amount."""
        for state, seconds in amount.states.items():
            self.states[state] = self.states.get(state, 0.0) + seconds * part
        self.used += amount.used * part
        self.joules += amount.joules * part

    @property
    def amount(self) -> Amount:
        return Amount(dict(self.states), self.used, self.joules)


@dataclass(slots=True)
class _Life:
    since: int
    last: float
    allocations: int
    sums: Sums


class OwnerCounters:
    """Belongs to the thread of the cycles."""

    def __init__(self, rows: tuple[CounterRow, ...] = (), limit: int = MAX_SERIES) -> None:
        self._lives = {
            row.key: _Life(
                row.since, row.last, row.allocations, Sums(dict(row.amount.states), row.amount.used, row.amount.joules)
            )
            for row in rows
        }
        self._limit = limit
        self.merged = set[CounterKey]()
        """Owners that are counted as `other`, by the labels that they would have."""

    def add_amount(self, owner: Owner, kind: Kind, place: Place, amount: Amount, now: float) -> None:
        life = self._life_of(owner, kind, place, amount.states, now)
        life.last = max(life.last, now)
        life.sums.add_part(amount)

    def count_allocation(self, owner: Owner, kind: Kind, place: Place, now: float) -> None:
        """Count one allocation."""
        self._life_of(owner, kind, place, {}, now).allocations += 1

    def counter_rows(self) -> tuple[CounterRow, ...]:
        return tuple(
            [
                CounterRow(key, life.since, life.last, life.allocations, life.sums.amount)
                for key, life in self._lives.items()
            ]
        )

    def forget_owners(self, now: float) -> None:
        """Forget owners without an allocation for a day: they come back as another life."""
        kept = {key: life for key, life in self._lives.items() if now - life.last <= RETENTION_SECONDS}
        if len(kept) < len(self._lives):
            self._lives = kept
            self.merged.clear()

    def _life_of(self, owner: Owner, kind: Kind, place: Place, states: Mapping[str, float], now: float) -> _Life:
        named = CounterKey(owner.kind, owner.namespace, owner.account, owner.user, kind.priority)
        key = named._replace(work_class=kind.work_class, model=place.model, profile=place.profile, pool=kind.pool)
        life = self._lives.get(key)
        new = states.keys() if life is None else states.keys() - life.sums.states.keys()
        added = len(new) + (_FIXED_SERIES if life is None else 0)
        if added and self._count_series() + added > self._limit - _RESERVED_SERIES and owner != NOBODY:
            self.merged.add(key)
            key = CounterKey(owner=OTHER, model=place.model)
            life = self._lives.get(key)
        if life is None:
            life = self._lives[key] = _Life(int(now), now, 0, Sums())
        return life

    def _count_series(self) -> int:
        return sum([_FIXED_SERIES + len(life.sums.states) for life in self._lives.values()])
