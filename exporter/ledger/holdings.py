"""From what attribution says to what the ledger books: who holds how much of a target, and since when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership
from exporter.host.model import HostProcess
from exporter.ledger.account import Holding


def shares(uuid: str, ownership: Ownership) -> Sequence[tuple[Owner, float]]:
    """Each holder of a target with its part of it, 0 to 1: as its source states, the others even parts of the rest.

    This is what `gpu_owner_share` shows. The parts sum to 1, or to less where the stated ones leave some free.
    """
    holders = ownership.holders.get(uuid, ())
    stated = {each: ownership.weights[uuid, each] for each in holders if (uuid, each) in ownership.weights}
    stated = {owner: max(0.0, part) for owner, part in stated.items()}
    taken = sum(stated.values())
    others = len(holders) - len(stated)
    even = max(0.0, 1.0 - taken) / others if others else 0.0
    over = max(1.0, taken)
    return [(owner, stated.get(owner, even * over) / over) for owner in holders]


def holdings(
    uuid: str, ownership: Ownership, pids: Collection[int], utilization: Mapping[int, float]
) -> tuple[Holding, ...]:
    """The holdings of one target. `pids` are the processes the driver shows on it, `utilization` their SM shares.

    A process nobody claims is taken to be the holder's where there is just one.
    """
    parts = shares(uuid, ownership)
    by_owner: dict[Owner, list[int]] = {owner: [] for owner, _ in parts}
    for pid in pids:
        owner = ownership.processes.get(pid, NOBODY)
        if owner not in by_owner and len(parts) == 1:
            owner = parts[0][0]
        if owner in by_owner:
            by_owner[owner].append(pid)
    told = any(pid in utilization for pid in pids)
    return tuple(
        Holding(owner, part, tuple(by_owner[owner]), _sum(by_owner[owner], utilization) if told else None)
        for owner, part in parts
    )


def starts(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, float]:
    """Unix seconds each workload started: as its source says, else its oldest GPU process."""
    found: dict[Owner, float] = {}
    for pid, owner in ownership.processes.items():
        process = hosts.get(pid)
        if process is not None:
            found[owner] = min(process.start_time, found.get(owner, process.start_time))
    for owner, info in ownership.info.items():
        if info.start_time is not None:
            found[owner] = info.start_time
    return found


def _sum(pids: Iterable[int], utilization: Mapping[int, float]) -> float:
    return sum(utilization.get(pid, 0.0) for pid in pids)
