"""One current of the ledger: totals so far, one pass, new totals. Pure; frozen in, frozen out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.attribution.owner import Owner
from exporter.ledger.account import ZERO, Ledger, LedgerInput, OwnerEntry, Reading, Seconds, TargetEntry
from exporter.ledger.division import Division, demands, divide, gather, unobserved
from exporter.ledger.thresholds import Thresholds

DEFAULTS = Thresholds()


@dataclass(slots=True)
class _Sum:
    """What one owner got in one pass over all its targets, as shares of the pass."""

    states: list[float]
    joules: float = 0.0
    active: bool = False
    observed: bool = False
    """Of at least one of its targets it is known whether it was busy."""


def advance(ledger: Ledger, current: LedgerInput, limits: Thresholds = DEFAULTS) -> Ledger:
    """The ledger after one more pass. A pass that is a gap, and a target that was not read, are unobserved."""
    seconds = max(0.0, current.seconds)
    gap = seconds > limits.gap_intervals * current.interval
    divisions = _divisions(current, limits, gap=gap)
    clock = ledger.clock + seconds
    began = current.time if ledger.began is None else ledger.began
    return Ledger(
        clock=clock,
        began=began,
        targets={**ledger.targets, **_targets(ledger, current, divisions, clock, seconds)},
        owners={**ledger.owners, **_owners(replace(ledger, clock=clock, began=began), current, divisions, limits)},
        host_tells=current.host_tells or ledger.host_tells,
    )


def prune(ledger: Ledger, retention: float) -> Ledger:
    """The ledger without the owners and targets that no pass of the last `retention` seconds had."""
    oldest = ledger.clock - retention
    return replace(
        ledger,
        targets={uuid: entry for uuid, entry in ledger.targets.items() if entry.seen >= oldest},
        owners={owner: entry for owner, entry in ledger.owners.items() if entry.seen >= oldest},
    )


def _divisions(current: LedgerInput, limits: Thresholds, *, gap: bool) -> Mapping[str, Division]:
    if gap:
        return {reading.target.uuid: unobserved(reading) for reading in current.readings}
    wants = {reading.target.uuid: _demands(reading) for reading in current.readings}
    levels = _levels(current.readings, wants)
    divisions: dict[str, Division] = {}
    for reading in current.readings:
        uuid = reading.target.uuid
        peers = {
            each.owner: _busiest_other(levels[each.owner], uuid) for each in reading.holdings if each.owner in levels
        }
        divisions[uuid] = divide(reading, wants[uuid], current.hosts, peers, limits)
    return divisions


def _demands(reading: Reading) -> Sequence[float]:
    busy = reading.signals.busy if reading.signals else None
    return demands(min(1.0, max(0.0, busy or 0.0)), reading.holdings)


def _levels(
    readings: Sequence[Reading], wants: Mapping[str, Sequence[float]]
) -> Mapping[Owner, Sequence[tuple[str, float]]]:
    """How busy each owner of several targets kept each of them, as a share of its own part."""
    levels: dict[Owner, list[tuple[str, float]]] = {}
    for reading in readings:
        for holding, demand in zip(reading.holdings, wants[reading.target.uuid], strict=True):
            level = min(1.0, demand / holding.share) if holding.share > 0 else 0.0
            levels.setdefault(holding.owner, []).append((reading.target.uuid, level))
    return {owner: found for owner, found in levels.items() if len(found) > 1}


def _busiest_other(levels: Sequence[tuple[str, float]], uuid: str) -> float:
    return max((level for other, level in levels if other != uuid), default=0.0)


def _parents(readings: Sequence[Reading]) -> Mapping[str, Sequence[Reading]]:
    instances: dict[str, list[Reading]] = {}
    for reading in readings:
        if reading.target.parent_uuid:
            instances.setdefault(reading.target.parent_uuid, []).append(reading)
    return instances


def _targets(
    ledger: Ledger, current: LedgerInput, divisions: Mapping[str, Division], clock: float, seconds: float
) -> Mapping[str, TargetEntry]:
    instances = _parents(current.readings)
    entries: dict[str, TargetEntry] = {}
    for reading in current.readings:
        uuid = reading.target.uuid
        within = [(each.target.share, divisions[each.target.uuid]) for each in instances.get(uuid, ())]
        states = gather(within) if within else divisions[uuid].states
        known = ledger.targets.get(uuid)
        entries[uuid] = TargetEntry(
            target=reading.target,
            profile=reading.profile,
            seconds=_added(known.seconds if known else ZERO, states, seconds),
            signals=reading.signals or (known.signals if known else None),
            seen=clock,
        )
    return entries


def _owners(
    ledger: Ledger, current: LedgerInput, divisions: Mapping[str, Division], limits: Thresholds
) -> Mapping[Owner, OwnerEntry]:
    sums = _sums(current, divisions, limits)
    return {owner: _owner(ledger, current, owner, total) for owner, total in sums.items()}


def _sums(current: LedgerInput, divisions: Mapping[str, Division], limits: Thresholds) -> Mapping[Owner, _Sum]:
    instances = _parents(current.readings)
    energy = {reading.target.uuid: reading.joules for reading in current.readings}
    sums: dict[Owner, _Sum] = {}
    for reading in current.readings:
        target = reading.target
        if target.uuid in instances:  # booked as its instances
            continue
        division = divisions[target.uuid]
        joules = reading.joules
        if target.parent_uuid:
            siblings = instances[target.parent_uuid]
            joules = energy.get(target.parent_uuid, 0.0) * _energy_part(reading, siblings, divisions)
        for part in division.owner_shares:
            total = sums.get(part.owner)
            if total is None:
                total = sums[part.owner] = _Sum(list(ZERO))
            total.joules += max(0.0, joules) * part.energy
            total.active = total.active or part.demand > limits.active
            total.observed = total.observed or division.busy is not None
            for state, share in part.state_shares:
                total.states[state] += share * target.share
    return sums


def _energy_part(reading: Reading, siblings: Sequence[Reading], divisions: Mapping[str, Division]) -> float:
    """An instance's part of its GPU's energy: by size while the GPU is idle, by what runs while it is busy."""
    sizes = max(1.0, sum(each.target.share for each in siblings))
    busy = sum(each.target.share * (divisions[each.target.uuid].busy or 0.0) for each in siblings) / sizes
    return (1.0 - busy + (divisions[reading.target.uuid].busy or 0.0)) * reading.target.share / sizes


def _owner(ledger: Ledger, current: LedgerInput, owner: Owner, total: _Sum) -> OwnerEntry:
    known = ledger.owners.get(owner)
    entry = known or OwnerEntry()
    seconds = max(0.0, current.seconds)
    start = current.starts.get(owner, entry.start_time) if entry.start_time is None else entry.start_time
    watched = start is not None and ledger.began is not None and start >= ledger.began
    first = entry.first_kernel_seconds
    if first is None and total.active and watched and start is not None:
        first = max(0.0, current.time - start)
    idle = 0.0 if total.active else entry.idle_seconds + (seconds if total.observed else 0.0)
    return OwnerEntry(
        seconds=_added(entry.seconds, total.states, seconds),
        joules=entry.joules + total.joules,
        idle_seconds=idle,
        start_time=start,
        first_kernel_seconds=first,
        seen=ledger.clock,
    )


def _added(before: Seconds, states: Sequence[float], seconds: float) -> Seconds:
    return tuple([total + share * seconds if share else total for total, share in zip(before, states, strict=True)])
