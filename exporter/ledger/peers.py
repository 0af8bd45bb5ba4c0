"""The targets of one owner that work together: barriers over TCP, and the paces they report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.host.model import HostSignals, Rank
from exporter.ledger.account import OwnerEntry, Reading
from exporter.ledger.division import Division, OwnerUsage
from exporter.ledger.states import INDEX
from exporter.ledger.states.state import NO_HOST, UsageHistory

_WAITS = 0.5
"""Fraction of a cycle spent waiting from which a target waits."""

_KEPT_HERE = frozenset(
    INDEX[state] for state in ("wait_data", "wait_evaluation", "wait_checkpoint", "wait_storage", "wait_cpu")
)
_RECEIVES = frozenset({INDEX["wait_network"], INDEX["wait_peer"]})
Hosts = Mapping[Owner, HostSignals]
Peers = Mapping[Owner, Mapping[str, Collection[str]]]
"""Targets of each work, keyed by owner and target."""
_NO_OWNER = OwnerEntry()
_ALONE: Mapping[str, Collection[str]] = {}


def peers_of(readings: Sequence[Reading], hosts: Hosts) -> Peers:
    """Return the works of each owner: targets of one work wait for each other.

    They have a process or a launcher in common, or processes that are connected. Without launchers all that a scheduler
    gave to one owner are one work.
    """
    parents = {reading.target.parent_uuid for reading in readings}
    by_owner: dict[Owner, dict[str, frozenset[int]]] = {}
    for reading in readings:
        for each in reading.allocations if reading.target.uuid not in parents else ():
            host = hosts.get(each.owner, NO_HOST)
            pids = frozenset(each.pids).union(
                links[pid] for links in (host.launchers, host.connected) for pid in each.pids if pid in links
            )
            by_owner.setdefault(each.owner, {})[reading.target.uuid] = pids
    found: dict[Owner, dict[str, Collection[str]]] = {}
    for owner, targets in by_owner.items():
        one = owner.one_work and not hosts.get(owner, NO_HOST).launchers
        found[owner] = {uuid: work for work in ([targets.keys()] if one else _group_linked(targets)) for uuid in work}
    return found


def _group_linked(by_owner: Mapping[str, frozenset[int]]) -> Sequence[Collection[str]]:
    """Group targets, given with their ids, that have one in common."""
    found: list[set[str]] = []
    for uuid, mine in by_owner.items():
        same = [work for work in found if any(not mine.isdisjoint(by_owner[other]) for other in work)]
        found = [work for work in found if work not in same] + [{uuid}.union(*same)]
    return found


def group_by_work(owner: Owner, targets: Sequence[str], peers: Peers) -> Sequence[Sequence[str]]:
    """Return these targets of an owner by the work they belong to."""
    known = peers.get(owner, _ALONE)
    found = dict.fromkeys([frozenset(known.get(uuid, (uuid,))) for uuid in targets])
    return [[uuid for uuid in targets if uuid in work] for work in found]


class Barriers(NamedTuple):
    """Ranks in a barrier over TCP, by target and owner."""

    late: Mapping[tuple[str, Owner], float]
    """Most that another rank on this node was kept, as a fraction of the cycle, for each rank that receives."""
    waited_for: Sequence[tuple[Owner, str, float]]
    """Those that are kept while at least half of the others receive, with the fraction that these waited."""


NO_BARRIERS = Barriers({}, ())


def late_ranks(divisions: Mapping[str, Division], peers: Peers, owners: Mapping[Owner, OwnerEntry]) -> Barriers:
    """Find the ranks that sit in a receive until one beside them comes, and the ones that are late.

    A rank that sits in a receive itself may be kept by the same network. A rank comes late by what kept it before: by
    then it runs kernels again. So it is named by what kept it lately.
    """
    receiving: dict[tuple[str, Owner], float] = {}
    kept: dict[tuple[str, Owner], float] = {}
    ranks = [
        (uuid, each)
        for uuid, division in divisions.items()
        for each in division.owner_usages
        if len(peers.get(each.owner, _ALONE).get(uuid, ())) > 1
    ]
    for uuid, part in ranks:
        if not part.receiving:
            kept[uuid, part.owner] = 1.0 if part.stopped else kept_part(part)
        elif any(state in _RECEIVES for state, _ in part.state_fractions):
            receiving[uuid, part.owner] = sum([_state_fraction(part, state) for state in _RECEIVES])
    late: dict[tuple[str, Owner], float] = {}
    for uuid, owner in receiving:
        late[uuid, owner] = max([kept.get((other, owner), 0.0) for other in peers[owner][uuid] if other != uuid])
    waited_for: list[tuple[Owner, str, float]] = []
    for (uuid, owner), here in kept.items():
        others = [other for other in peers[owner][uuid] if other != uuid]
        rest = [receiving.get((other, owner), 0.0) for other in others]
        past = owners.get(owner, _NO_OWNER).past
        if 2 * sum(each > 0.0 for each in rest) >= len(rest) and (here or _comes_late(past, uuid, others)):
            waited_for.append((owner, uuid, min(here or 1.0, sum(rest) / len(rest))))
    return Barriers({each: part for each, part in late.items() if part}, waited_for)


def _comes_late(pasts: Mapping[str, UsageHistory], uuid: str, others: Sequence[str]) -> bool:
    """Return whether it was kept for about as long as the others received lately, and hardly received itself."""
    if uuid not in pasts or not all(other in pasts for other in others):
        return False
    received, mine = median([pasts[other].received_seconds for other in others]), pasts[uuid]
    return mine.kept_seconds >= _WAITS * received > 0.0 and mine.received_seconds <= _WAITS * mine.kept_seconds


def kept_part(part: OwnerUsage) -> float:
    """Return the part of its time in which something on this node kept it."""
    whole = sum([ratio for _, ratio in part.state_fractions])
    return sum([ratio for state, ratio in part.state_fractions if state in _KEPT_HERE]) / whole if whole else 0.0


def _state_fraction(part: OwnerUsage, state: int) -> float:
    return sum(ratio for each, ratio in part.state_fractions if each == state)


_SLOWER = 1.1
"""Ratio to the step time of the other ranks, from which they wait for a rank."""


def mean_phases(ranks: Sequence[Rank], pids: Sequence[int], readings: Sequence[Reading]) -> Mapping[str, float]:
    """The phases of the processes on a target together; of the owner's that are on none where no other reports.

    One that neither has a phase nor advances does not report what it does now.
    """
    ranks = [rank for rank in ranks if rank.phases or rank.advances]
    own = [rank for rank in ranks if rank.pid in pids]
    if not own:
        on_gpus = {pid for reading in readings for allocation in reading.allocations for pid in allocation.pids}
        own = [rank for rank in ranks if rank.pid not in on_gpus]
    names = {name for rank in own for name in rank.phases}
    return {name: sum(rank.phases.get(name, 0.0) for rank in own) / len(own) for name in names}


def reported_stragglers(
    ranks: Mapping[Owner, Sequence[Rank]], readings: Sequence[Reading], peers: Peers
) -> Mapping[Owner, Sequence[tuple[Owner, str, float]]]:
    """(owner, target, fraction of the cycle) of each target the others wait for, of the owners whose ranks show it."""
    paces = {owner: known for owner, each in ranks.items() if len(known := _step_seconds(owner, each, readings)) > 1}
    return {
        owner: [
            (owner, uuid, waited)
            for work in group_by_work(owner, list(each), peers)
            if len(work) > 1
            for uuid, waited in _slow_targets({uuid: each[uuid] for uuid in work})
        ]
        for owner, each in paces.items()
    }


def _step_seconds(owner: Owner, ranks: Sequence[Rank], readings: Sequence[Reading]) -> Mapping[str, float]:
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


def _slow_targets(paces: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    """Targets that need clearly longer than the mean of the others, with the part of their step the others wait."""
    found: list[tuple[str, float]] = []
    for uuid, seconds in paces.items():
        rest = [other for each, other in paces.items() if each != uuid]
        mean = sum(rest) / len(rest)
        if seconds > _SLOWER * mean and seconds > max(rest) / _SLOWER:
            found.append((uuid, 1.0 - mean / seconds))
    return found
