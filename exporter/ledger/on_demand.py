"""Ranks of a server, or of a session, that spin on their GPUs until the first of them has something to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.host.model import HostSignals
from exporter.ledger.account import Reading
from exporter.ledger.division import SPINNING, Division, OwnerShare, StateShares
from exporter.ledger.peers import ids, together
from exporter.ledger.states import INDEX

_WAITS_FOR: Mapping[str, int] = {"service": INDEX["wait_requests"], "interactive": INDEX["wait_user"]}
"""By class of work."""
_NOT_KNOWN = INDEX["wait_other"]
"""Of work on demand: its program runs, and may only poll."""
_WAITS = 0.5
"""Part of a pass spent so from which a target waits for somebody."""


def following(
    readings: Sequence[Reading],
    divisions: Mapping[str, Division],
    hosts: Mapping[Owner, HostSignals],
    work: Mapping[Owner, str],
) -> Mapping[str, Division]:
    """The divisions with what spins until a rank of the same work has a request booked as that wait."""
    on_demand = {owner: _WAITS_FOR[each] for owner, each in work.items() if each in _WAITS_FOR}
    spins: dict[Owner, dict[str, frozenset[int]]] = {}
    leads: dict[Owner, list[tuple[frozenset[int], int]]] = {}
    for reading in readings if on_demand else ():
        for holding, part in zip(reading.holdings, divisions[reading.target.uuid].owner_shares, strict=True):
            owner = holding.owner
            if owner not in on_demand:
                continue
            if _share(part, SPINNING) > 0:
                spins.setdefault(owner, {})[reading.target.uuid] = ids(holding, hosts)
            waits = [state for state in (_NOT_KNOWN, on_demand[owner]) if _share(part, state) >= _WAITS * holding.share]
            if waits and holding.share > 0:
                leads.setdefault(owner, []).append((ids(holding, hosts), waits[-1]))
    follows = {
        uuid: state
        for owner, each in spins.items()
        for uuid, mine in each.items()
        for theirs, state in leads.get(owner, ())
        if together(owner, mine, theirs)
    }
    return {uuid: _booked(each, follows[uuid]) if uuid in follows else each for uuid, each in divisions.items()}


def _share(part: OwnerShare, state: int) -> float:
    return sum(share for each, share in part.state_shares if each == state)


def _booked(division: Division, state: int) -> Division:
    states = list(division.states)
    states[state] += states[SPINNING]
    states[SPINNING] = 0.0
    parts = tuple(part._replace(state_shares=_moved(part.state_shares, state)) for part in division.owner_shares)
    return division._replace(states=tuple(states), owner_shares=parts)


def _moved(shares: StateShares, state: int) -> StateShares:
    return [(state if each == SPINNING else each, share) for each, share in shares]
