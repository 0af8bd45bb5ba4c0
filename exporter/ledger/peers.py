"""What the targets of one owner show of each other: which compute, which only spin, which one the others wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.core.clock import MonotonicTime
from exporter.host.model import HostSignals
from exporter.ledger.account import Allocation, Ledger, OwnerEntry, Reading
from exporter.ledger.division import ALLOCATED_IDLE, SPINNING, BusyTime, Division, OwnerUsage, own_processes
from exporter.ledger.states import INDEX
from exporter.ledger.states.host_waits import BLOCKED
from exporter.ledger.states.idle import takes_part
from exporter.ledger.states.state import NO_HISTORY, NO_HOST, Limits, UsageHistory, at_least
from exporter.progress.progress import Rank

_UNUSED = INDEX["allocated_unused"]
_NO_PASTS: Mapping[str, UsageHistory] = {}
_WAITS_FOR_OTHERS = frozenset({INDEX["wait_collective"], INDEX["wait_peer"]})
_WAITS = 0.5
"""Fraction of a cycle spent waiting from which a target waits, and below half of which it does not."""

_KEPT_HERE = frozenset(
    INDEX[state] for state in ("wait_data", "wait_evaluation", "wait_checkpoint", "wait_storage", "wait_cpu")
)
_NETWORK = INDEX["wait_network"]
_SUSPECT_AFTER_SECONDS = 30.0
"""Seconds of spinning: longer than a collective of any working job waits."""
_SUSPECT_SHARE = 0.5
"""Share of its GPU time."""


class PeerActivity(NamedTuple):
    """One target of one owner in one cycle."""

    uuid: str
    ids: frozenset[int]
    computed: float
    """Share of the owner's part in which it computed."""
    spun: float


PeerActivities = Mapping[Owner, Sequence[PeerActivity]]


Hosts = Mapping[Owner, HostSignals]
_NO_IDS = frozenset[int]()


def ids(allocation: Allocation, hosts: Hosts) -> frozenset[int]:
    """Return the pids of its processes and of their launchers; empty if the owner is one work."""
    return _NO_IDS if allocation.owner.one_work else process_ids(allocation, hosts)


def process_ids(allocation: Allocation, hosts: Hosts) -> frozenset[int]:
    """Return the pids of its processes and of their launchers."""
    launchers = hosts.get(allocation.owner, NO_HOST).launchers
    return frozenset(allocation.pids).union(launchers[pid] for pid in allocation.pids if pid in launchers)


def together(owner: Owner, mine: frozenset[int], theirs: frozenset[int]) -> bool:
    """Return whether two targets of an owner belong to one work, if need be by a process or launcher of both."""
    return owner.one_work or not mine.isdisjoint(theirs)


def works(owner: Owner, held: Mapping[str, frozenset[int]]) -> Sequence[Collection[str]]:
    """The targets of an owner, given with their ids, by the work they belong to."""
    return [held.keys()] if owner.one_work else linked_works(held)


def linked_works(held: Mapping[str, frozenset[int]]) -> Sequence[Collection[str]]:
    """Group targets, given with their ids, that have a process or a launcher in common."""
    found: list[set[str]] = []
    for uuid, mine in held.items():
        same = [work for work in found if any(not mine.isdisjoint(held[other]) for other in work)]
        found = [work for work in found if work not in same] + [{uuid}.union(*same)]
    return found


def _with_several(readings: Sequence[Reading]) -> Collection[Owner]:
    """Owners that hold several targets; those of one have no peers."""
    held = Counter([allocation.owner for reading in readings for allocation in reading.allocations])
    return {owner for owner, number in held.items() if number > 1}


def with_peers(readings: Sequence[Reading], hosts: Hosts) -> Mapping[Owner, Collection[str]]:
    """Return the targets of each owner that have another one of the same work beside them."""
    several = _with_several(readings)
    held: dict[Owner, dict[str, frozenset[int]]] = {owner: {} for owner in several}
    for reading in readings if several else ():
        for allocation in reading.allocations:
            if allocation.owner in several:
                held[allocation.owner][reading.target.uuid] = ids(allocation, hosts)
    return {
        owner: {uuid for work in works(owner, each) if len(work) > 1 for uuid in work} for owner, each in held.items()
    }


def peer_activities(readings: Sequence[Reading], done: Mapping[str, BusyTime], hosts: Hosts) -> PeerActivities:
    """Return the activity of the owners that were allocated several targets."""
    several = _with_several(readings)
    found: dict[Owner, list[PeerActivity]] = {owner: [] for owner in several}
    for reading in readings if several else ():
        uuid = reading.target.uuid
        work = done[uuid]
        for allocation, demand in zip(reading.allocations, work.demands, strict=False):
            if allocation.owner not in several:
                continue
            level = min(1.0, demand / allocation.share) if allocation.share > 0 else 0.0
            found[allocation.owner].append(
                PeerActivity(uuid, ids(allocation, hosts), level * (1.0 - work.spinning), level * work.spinning)
            )
    return {owner: each for owner, each in found.items() if len(each) > 1}


def others(owner: Owner, uuid: str, mine: frozenset[int], among: PeerActivities) -> Sequence[PeerActivity]:
    """The owner's other targets that belong to the same work."""
    return [each for each in among.get(owner, ()) if each.uuid != uuid and together(owner, mine, each.ids)]


def stragglers(
    readings: Sequence[Reading],
    divisions: Mapping[str, Division],
    hosts: Hosts,
    pasts: Mapping[Owner, Mapping[str, UsageHistory]],
    limits: Limits,
    slow_ports: Collection[str] = (),
) -> Sequence[tuple[Owner, str, float]]:
    """(owner, target, share of the cycle) of each target that does not wait while most others of its owner wait.

    Where all wait and the network port of a few is in trouble, the others wait for these.
    """
    several = _with_several(readings)
    waits: dict[Owner, dict[str, float]] = {}
    held: dict[Owner, dict[str, frozenset[int]]] = {}
    for reading in readings if several else ():
        for allocation, part in zip(reading.allocations, divisions[reading.target.uuid].owner_shares, strict=True):
            if part.owner not in several:
                continue
            waiting = sum([share for state, share in part.state_shares if state in _WAITS_FOR_OTHERS])
            whole = sum([share for _, share in part.state_shares])
            if _takes_no_part(part, reading.target.uuid, whole, pasts.get(part.owner, _NO_PASTS), limits):
                continue
            waits.setdefault(part.owner, {})[reading.target.uuid] = waiting / whole if whole > 0 else 0.0
            held.setdefault(part.owner, {})[reading.target.uuid] = ids(allocation, hosts)
    found: list[tuple[Owner, str, float]] = []
    for owner, shares in waits.items():
        for work in works(owner, held[owner]):
            each = [(uuid, shares[uuid]) for uuid in work]
            if len(each) > 1 and any(waiting >= _WAITS for _, waiting in each):
                found += [(owner, uuid, held_up) for uuid, held_up in _stragglers(_less_slow_links(each, slow_ports))]
    return found


def _takes_no_part(
    part: OwnerUsage, uuid: str, whole: float, pasts: Mapping[str, UsageHistory], limits: Limits
) -> bool:
    """Return whether it is unused, or never had a process while the others computed for long."""
    mostly = [state for state, share in part.state_shares if share > _WAITS * whole]
    if ALLOCATED_IDLE not in mostly:
        return _UNUSED in mostly
    others_last = min([each.uncomputed_seconds for other, each in pasts.items() if other != uuid], default=0.0)
    return not takes_part(pasts.get(uuid, NO_HISTORY), others_last, limits)


def _less_slow_links(waits: Sequence[tuple[str, float]], slow_ports: Collection[str]) -> Sequence[tuple[str, float]]:
    """Return those behind a bad link count as not waiting, where all wait and they are the fewer."""
    slow = {uuid for uuid, _ in waits if uuid in slow_ports}
    if not slow or 2 * len(slow) >= len(waits) or any(waiting < _WAITS for _, waiting in waits):
        return waits
    return [(uuid, 0.0 if uuid in slow else waiting) for uuid, waiting in waits]


def _stragglers(waits: Sequence[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    """Targets that hardly wait, with what the others waited on the average, where at least half of them wait."""
    found: list[tuple[str, float]] = []
    for uuid, waiting in waits:
        rest = [share for other, share in waits if other != uuid]
        majority = sum(share >= _WAITS for share in rest) * 2 >= len(rest)
        if waiting < _WAITS / 2 and majority:
            found.append((uuid, sum(rest) / len(rest)))
    return found


def late_ranks(
    readings: Sequence[Reading],
    divisions: Mapping[str, Division],
    hosts: Mapping[Owner, HostSignals],
    among: PeerActivities,
    limits: Limits,
) -> Mapping[tuple[str, Owner], float]:
    """Return, by target and owner that receive, the most that something on this node kept another one of the work.

    As in a barrier over TCP, ranks sit in a receive until one beside them comes. The value is a share of that one's
    part of the cycle. A rank that sits in a receive itself may be kept by the same network.
    """
    receiving: dict[tuple[str, Owner], frozenset[int]] = {}
    kept: dict[tuple[str, Owner], float] = {}
    for reading in readings if among else ():
        uuid = reading.target.uuid
        for allocation, part in zip(reading.allocations, divisions[uuid].owner_shares, strict=True):
            host = hosts.get(allocation.owner, NO_HOST)
            if allocation.owner not in among:
                continue
            own = own_processes(allocation, host)
            if not at_least(own.receiving, limits[BLOCKED]):
                kept[uuid, allocation.owner] = 1.0 if own.stopped else _kept_here(part)
            elif any(state == _NETWORK for state, _ in part.state_shares):
                receiving[uuid, allocation.owner] = ids(allocation, hosts)
    found = {
        (uuid, owner): max(
            [kept.get((each.uuid, owner), 0.0) for each in others(owner, uuid, mine, among)], default=0.0
        )
        for (uuid, owner), mine in receiving.items()
    }
    return {each: late for each, late in found.items() if late}


def _kept_here(part: OwnerUsage) -> float:
    whole = sum([share for _, share in part.state_shares])
    return sum([share for state, share in part.state_shares if state in _KEPT_HERE]) / whole if whole else 0.0


@dataclass(slots=True)
class HangDetector:
    """Workloads that seem to hang in a collective: they spun in one for most of the time, without a pause."""

    _since: dict[Owner, MonotonicTime] = field(default_factory=dict[Owner, MonotonicTime])

    def of(
        self, before: Ledger, after: Ledger, readings: Sequence[Reading], now: MonotonicTime
    ) -> dict[Owner, tuple[int, ...]]:
        """The suspects, each with its processes on this node's GPUs."""
        spinning = {owner for owner in after.owners if _spins(before, after, owner)}
        self._since = {owner: self._since.get(owner, now) for owner in spinning}
        long = {owner for owner, since in self._since.items() if now - since >= _SUSPECT_AFTER_SECONDS}
        found: dict[Owner, dict[int, None]] = {owner: {} for owner in long}
        for each in readings if long else ():
            for allocation in each.allocations:
                if allocation.owner in long:
                    found[allocation.owner].update(dict.fromkeys(allocation.pids))
        return {owner: tuple(pids) for owner, pids in found.items()}


def _spins(before: Ledger, after: Ledger, owner: Owner) -> bool:
    seconds = after.owners[owner].seconds
    known = before.owners.get(owner)
    spun = seconds[SPINNING] - known.seconds[SPINNING] if known else 0.0
    whole = sum(seconds) - sum(known.seconds) if known else 0.0
    return known is not None and 0.0 < spun >= _SUSPECT_SHARE * whole and not _computes(after.owners[owner])


def _computes(entry: OwnerEntry) -> bool:
    """Return whether most of its GPUs compute: ranks that wait in each step do so in between."""
    return 2 * sum(not past.uncomputed_seconds for past in entry.past.values()) > len(entry.past)


_WAITS_FOR: Mapping[str, int] = {"service": INDEX["wait_requests"], "interactive": INDEX["wait_user"]}
"""By class of work."""
_NOT_KNOWN = INDEX["wait_other"]
"""Of work on demand: its program runs, and may only poll."""


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
        for allocation, part in zip(reading.allocations, divisions[reading.target.uuid].owner_shares, strict=True):
            owner = allocation.owner
            if owner not in on_demand:
                continue
            if _share(part, SPINNING) > 0:
                spins.setdefault(owner, {})[reading.target.uuid] = ids(allocation, hosts)
            waits = [
                state for state in (_NOT_KNOWN, on_demand[owner]) if _share(part, state) >= _WAITS * allocation.share
            ]
            if waits and allocation.share > 0:
                leads.setdefault(owner, []).append((ids(allocation, hosts), waits[-1]))
    follows = {
        uuid: state
        for owner, each in spins.items()
        for uuid, mine in each.items()
        for theirs, state in leads.get(owner, ())
        if together(owner, mine, theirs)
    }
    return {uuid: _booked(each, follows[uuid]) if uuid in follows else each for uuid, each in divisions.items()}


def _share(part: OwnerUsage, state: int) -> float:
    return sum(share for each, share in part.state_shares if each == state)


def _booked(division: Division, state: int) -> Division:
    states = list(division.states)
    states[state] += states[SPINNING]
    states[SPINNING] = 0.0
    parts = tuple(
        part._replace(state_shares=[(state if each == SPINNING else each, share) for each, share in part.state_shares])
        for part in division.owner_shares
    )
    return division._replace(states=tuple(states), owner_shares=parts)


_SLOWER = 1.1
"""Over what the other ranks need for a step, from which a rank is one that they wait for."""


def phases(ranks: Sequence[Rank], pids: Sequence[int], readings: Sequence[Reading]) -> Mapping[str, float]:
    """The phases of the processes on a target together; of the owner's that are on none where no other reports."""
    own = [rank for rank in ranks if rank.pid in pids]
    if not own:
        on_gpus = {pid for reading in readings for allocation in reading.allocations for pid in allocation.pids}
        own = [rank for rank in ranks if rank.pid not in on_gpus]
    names = {name for rank in own for name in rank.phases}
    return {name: sum(rank.phases.get(name, 0.0) for rank in own) / len(own) for name in names}


def reported_stragglers(
    ranks: Mapping[Owner, Sequence[Rank]], readings: Sequence[Reading], hosts: Hosts
) -> Mapping[Owner, Sequence[tuple[Owner, str, float]]]:
    """(owner, target, share of the cycle) of each target the others wait for, of the owners whose ranks tell."""
    paces = {owner: known for owner, each in ranks.items() if len(known := _paces(owner, each, readings)) > 1}
    found: dict[Owner, Sequence[tuple[Owner, str, float]]] = {}
    for owner, each in paces.items():
        held = {
            reading.target.uuid: ids(allocation, hosts)
            for reading in readings
            for allocation in reading.allocations
            if allocation.owner == owner and reading.target.uuid in each
        }
        groups = [{uuid: each[uuid] for uuid in work} for work in works(owner, held) if len(work) > 1]
        found[owner] = [(owner, uuid, waited) for group in groups for uuid, waited in _slow(group)]
    return found


def _paces(owner: Owner, ranks: Sequence[Rank], readings: Sequence[Reading]) -> Mapping[str, float]:
    """Seconds of a step by target: of its slowest rank."""
    seconds = {rank.pid: rank.step_seconds for rank in ranks if rank.step_seconds is not None}
    if len(seconds) < 2:  # noqa: PLR2004 - one alone waits for nobody
        return {}
    found: dict[str, float] = {}
    for reading in readings:
        pids = [pid for each in reading.allocations if each.owner == owner for pid in each.pids if pid in seconds]
        if pids:
            found[reading.target.uuid] = max(seconds[pid] for pid in pids)
    return found


def _slow(paces: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    """Targets that need clearly longer than the mean of the others, with the part of their step the others wait."""
    found: list[tuple[str, float]] = []
    for uuid, seconds in paces.items():
        rest = [other for each, other in paces.items() if each != uuid]
        mean = sum(rest) / len(rest)
        if seconds > _SLOWER * mean and seconds > max(rest) / _SLOWER:
            found.append((uuid, 1.0 - mean / seconds))
    return found
