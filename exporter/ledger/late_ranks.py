"""Ranks that sit in a receive from the network until one beside them on this node comes, as in a barrier over TCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.host.model import HostSignals
from exporter.ledger.account import Reading
from exporter.ledger.division import Division, OwnerShare, own_processes
from exporter.ledger.evidence import NO_HOST, at_least
from exporter.ledger.peers import Levels, ids, others
from exporter.ledger.states import INDEX
from exporter.ledger.states.state import Limits
from exporter.ledger.states.waits import BLOCKED

_KEPT_HERE = frozenset(
    INDEX[state] for state in ("wait_data", "wait_evaluation", "wait_checkpoint", "wait_storage", "wait_cpu")
)
_NETWORK = INDEX["wait_network"]


def late_ranks(
    readings: Sequence[Reading],
    divisions: Mapping[str, Division],
    hosts: Mapping[Owner, HostSignals],
    among: Levels,
    limits: Limits,
) -> Mapping[tuple[str, Owner], float]:
    """By target and owner, of those that receive: the most that something on this node kept another one of the work.

    As a share of that one's part of the pass. One that sits in a receive itself may be kept by the same network.
    """
    receiving: dict[tuple[str, Owner], frozenset[int]] = {}
    kept: dict[tuple[str, Owner], float] = {}
    for reading in readings if among else ():
        uuid = reading.target.uuid
        for holding, part in zip(reading.holdings, divisions[uuid].owner_shares, strict=True):
            host = hosts.get(holding.owner, NO_HOST)
            if holding.owner not in among:
                continue
            own = own_processes(holding, host)
            if not at_least(own.receiving, limits[BLOCKED]):
                kept[uuid, holding.owner] = 1.0 if own.stopped else _kept_here(part)
            elif any(state == _NETWORK for state, _ in part.state_shares):
                receiving[uuid, holding.owner] = ids(holding, hosts)
    found = {
        (uuid, owner): max(
            [kept.get((each.uuid, owner), 0.0) for each in others(owner, uuid, mine, among)], default=0.0
        )
        for (uuid, owner), mine in receiving.items()
    }
    return {each: late for each, late in found.items() if late}


def _kept_here(part: OwnerShare) -> float:
    whole = sum([share for _, share in part.state_shares])
    return sum([share for state, share in part.state_shares if state in _KEPT_HERE]) / whole if whole else 0.0
