"""Whether passes have found the same for so long that looks may take the place of some of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import ge, sub

from exporter.core.record import record
from exporter.ledger.account import ZERO, Ledger
from exporter.ledger.states import INDEX

STEADY_AFTER = 10
"""Passes in a row that found the same."""
_ALIKE = 0.15
"""Share of a pass by which each state of a GPU may differ from one pass to the next, of a load that is the same."""
_NAMED = 0.05
"""Share of a pass from which a state counts as found: passes that name another cause are not the same, however short
the wait is; evidence over some seconds at once could name neither."""
_UNOBSERVED = INDEX["unobserved"]

States = Mapping[str, Sequence[float]]
"""Of each GPU and MIG instance: its states as shares of the pass."""
Holders = Mapping[str, object]
"""Who holds each GPU, in whatever form tells two passes apart."""


@record
class Steadiness:
    """After a pass: the first of the passes that found the same, and how many there were. Never changed once made."""

    states: States
    holders: Holders
    passes: int

    @property
    def steady(self) -> bool:
        return self.passes >= STEADY_AFTER


RESTLESS = Steadiness({}, {}, 0)
"""Where nothing has been seen yet, or something has just changed."""


def after(before: Steadiness, states: States, holders: Holders) -> Steadiness:
    """One more pass, in which the GPUs were in these states, and `holders` held them."""
    if not states or any(shares[_UNOBSERVED] > 0 for shares in states.values()):
        return RESTLESS
    if holders == before.holders and _alike(before.states, states):
        return Steadiness(before.states, holders, before.passes + 1)
    return Steadiness(states, holders, 1)


def states_of(before: Ledger, now: Ledger) -> States:
    """What the pass between two states of the ledger booked; nothing where it was the first one."""
    seconds = now.clock - before.clock
    if seconds <= 0:
        return {}
    found: dict[str, Sequence[float]] = {}
    for uuid, entry in now.targets.items():
        known = before.targets.get(uuid)
        booked = map(sub, entry.seconds, known.seconds if known else ZERO)
        found[uuid] = tuple(map(float.__truediv__, booked, repeat(seconds)))
    return found


def _alike(before: States, now: States) -> bool:
    if before.keys() != now.keys():
        return False
    return all(_alike_shares(before[uuid], shares) for uuid, shares in now.items())


def _alike_shares(before: Sequence[float], now: Sequence[float]) -> bool:
    if max(map(abs, map(sub, now, before))) > _ALIKE:
        return False
    return tuple(map(ge, before, repeat(_NAMED))) == tuple(map(ge, now, repeat(_NAMED)))
