"""What the targets of one owner say of each other: which compute, which only spin, which one all wait for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.ledger.account import Reading
from exporter.ledger.division import Division, Work
from exporter.ledger.states import INDEX

_UNUSED = INDEX["held_unused"]
_WAITS_FOR_OTHERS = frozenset({INDEX["wait_collective"], INDEX["wait_peer"]})
_WAITS = 0.5
"""Part of a pass spent waiting for others from which a target waits, and
below half of which it does not."""


class Level(NamedTuple):
    """One target of one owner in one pass."""

    uuid: str
    pids: tuple[int, ...]
    computed: float
    """Share of the owner's part in which it computed."""
    spun: float


Levels = Mapping[Owner, Sequence[Level]]


def levels(readings: Sequence[Reading], done: Mapping[str, Work]) -> Levels:
    """Of the owners that hold several targets."""
    found: dict[Owner, list[Level]] = {}
    for reading in readings:
        uuid = reading.target.uuid
        work = done[uuid]
        for holding, demand in zip(reading.holdings, work.demands, strict=False):
            level = min(1.0, demand / holding.share) if holding.share > 0 else 0.0
            found.setdefault(holding.owner, []).append(
                Level(uuid, holding.pids, level * (1.0 - work.spinning), level * work.spinning)
            )
    return {owner: each for owner, each in found.items() if len(each) > 1}


def others(owner: Owner, uuid: str, pids: Sequence[int], among: Levels) -> Sequence[Level]:
    """The owner's other targets that belong to the same work.

    Bare processes share a name and a user, not a program: theirs are those with a process in common.
    """
    found = [level for level in among.get(owner, ()) if level.uuid != uuid]
    if owner.kind == "process":
        return [level for level in found if set(level.pids) & set(pids)]
    return found


def stragglers(
    readings: Sequence[Reading], divisions: Mapping[str, Division], slow_ports: Collection[str] = ()
) -> Sequence[tuple[Owner, str, float]]:
    """(owner, target, share of the pass) of each target that does not wait while most others of its owner wait.

    Where all wait and the network port of a few is in trouble, the others wait for these.
    """
    waits: dict[Owner, list[tuple[str, float]]] = {}
    for reading in readings:
        for part in divisions[reading.target.uuid].owner_shares:
            waiting = sum(share for state, share in part.state_shares if state in _WAITS_FOR_OTHERS)
            whole = sum(share for _, share in part.state_shares)
            if sum(share for state, share in part.state_shares if state == _UNUSED) > _WAITS * whole:
                continue  # nobody waits for what is no part of the work
            waits.setdefault(part.owner, []).append((reading.target.uuid, waiting / whole if whole > 0 else 0.0))
    found: list[tuple[Owner, str, float]] = []
    for owner, each in waits.items():
        if len(each) > 1 and any(waiting >= _WAITS for _, waiting in each):
            found += [(owner, uuid, held_up) for uuid, held_up in _held_up(_less_slow_links(each, slow_ports))]
    return found


def _less_slow_links(waits: Sequence[tuple[str, float]], slow_ports: Collection[str]) -> Sequence[tuple[str, float]]:
    """Those behind a bad link count as not waiting, where all wait and they are the fewer."""
    slow = {uuid for uuid, _ in waits if uuid in slow_ports}
    if not slow or 2 * len(slow) >= len(waits) or any(waiting < _WAITS for _, waiting in waits):
        return waits
    return [(uuid, 0.0 if uuid in slow else waiting) for uuid, waiting in waits]


def _held_up(waits: Sequence[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    """Targets that hardly wait, with what the others waited on the average, where at least half of them wait."""
    found: list[tuple[str, float]] = []
    for uuid, waiting in waits:
        rest = [share for other, share in waits if other != uuid]
        majority = sum(share >= _WAITS for share in rest) * 2 >= len(rest)
        if waiting < _WAITS / 2 and majority:
            found.append((uuid, sum(rest) / len(rest)))
    return found
