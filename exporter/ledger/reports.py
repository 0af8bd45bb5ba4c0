"""What programs report of themselves, by target: it goes before what the host and the driver only suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.ledger.account import Reading
from exporter.ledger.peers import Hosts, ids, works
from exporter.progress.progress import Rank

_SLOWER = 1.1
"""Over what the other ranks need for a step, from which a rank is one that they wait for."""


def phases(ranks: Sequence[Rank], pids: Sequence[int], readings: Sequence[Reading]) -> Mapping[str, float]:
    """The phases of the processes on a target together; of the owner's that are on none where no other reports."""
    own = [rank for rank in ranks if rank.pid in pids]
    if not own:
        on_gpus = {pid for reading in readings for holding in reading.holdings for pid in holding.pids}
        own = [rank for rank in ranks if rank.pid not in on_gpus]
    names = {name for rank in own for name in rank.phases}
    return {name: sum(rank.phases.get(name, 0.0) for rank in own) / len(own) for name in names}


def reported_stragglers(
    ranks: Mapping[Owner, Sequence[Rank]], readings: Sequence[Reading], hosts: Hosts
) -> Mapping[Owner, Sequence[tuple[Owner, str, float]]]:
    """(owner, target, share of the pass) of each target the others wait for, of the owners whose ranks tell."""
    paces = {owner: known for owner, each in ranks.items() if len(known := _paces(owner, each, readings)) > 1}
    found: dict[Owner, Sequence[tuple[Owner, str, float]]] = {}
    for owner, each in paces.items():
        held = {
            reading.target.uuid: ids(holding, hosts)
            for reading in readings
            for holding in reading.holdings
            if holding.owner == owner and reading.target.uuid in each
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
        pids = [pid for each in reading.holdings if each.owner == owner for pid in each.pids if pid in seconds]
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
