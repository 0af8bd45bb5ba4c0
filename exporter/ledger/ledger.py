"""One step of the ledger: totals so far and one cycle give new totals. Pure; frozen in, frozen out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import add, mul

from exporter.attribution.owner import Owner
from exporter.core.units import Joules
from exporter.ledger.account import ZERO, Allocation, Ledger, LedgerInput, OwnerEntry, Reading, Seconds, TargetEntry
from exporter.ledger.division import NO_EVIDENCE, BusyTime, Division, divide, gather, of_gap, runner, work
from exporter.ledger.history import OwnerBusySeconds, divide_busy_seconds, free_clock, next_history, was_blocked
from exporter.ledger.peers import (
    PeerActivities,
    following,
    ids,
    late_ranks,
    others,
    peer_activities,
    phases,
    reported_stragglers,
    stragglers,
    with_peers,
)
from exporter.ledger.ranks import compare_ranks
from exporter.ledger.states import DEFAULTS
from exporter.ledger.states.given import GAP_INTERVALS
from exporter.ledger.states.idle import ACTIVE
from exporter.ledger.states.state import NO_HISTORY, NO_HOST, NOTHING_REPORTED, Evidence, Limits, UsageHistory

Peers = Mapping[Owner, Collection[str]]
Divisions = Mapping[str, Division]
Instances = Mapping[str, Sequence[Reading]]
"""By the uuid of their GPU."""

_NO_ENERGY = Joules(0.0)


@dataclass(slots=True)
class _Sum:
    """The sums of one owner over all its targets, as fractions of the cycle."""

    states: list[float]
    joules: Joules = _NO_ENERGY
    active: bool = False
    observed: bool = False
    """Of at least one of its targets it is known whether it was busy."""
    past: dict[str, UsageHistory] = field(default_factory=dict[str, UsageHistory])
    used: dict[str, float] = field(default_factory=dict[str, float])


def advance(ledger: Ledger, current: LedgerInput, limits: Limits = DEFAULTS) -> Ledger:
    """The ledger after one more cycle. A target that was not read is unobserved, and most of a gap."""
    current = replace(current, seconds=max(0.0, current.seconds))
    seconds, readings = current.seconds, current.readings
    gap = seconds > limits[GAP_INTERVALS] * current.interval
    if not gap:
        current = replace(current, compared=compare_ranks(ledger.owners, current, limits))
    divisions = _divisions(ledger, current, limits, gap=gap)
    ran = {
        each.target.uuid: divide_busy_seconds(each, divisions[each.target.uuid], seconds, ledger.owners)
        for each in readings
    }
    instances: dict[str, list[Reading]] = {}
    for reading in readings:
        if reading.target.parent_uuid:
            instances.setdefault(reading.target.parent_uuid, []).append(reading)
    began = current.time if ledger.began is None else ledger.began
    ledger = replace(ledger, clock=ledger.clock + seconds, began=began)
    return replace(
        ledger,
        targets={**ledger.targets, **_targets(ledger, current, divisions, ran, instances)},
        owners={
            **ledger.owners,
            **_owners(ledger, current, divisions, _sums(ledger, current, divisions, ran, instances, limits), limits),
        },
        host_signals_known=current.host_signals_known or ledger.host_signals_known,
    )


def prune(ledger: Ledger, retention: float) -> Ledger:
    """Return the ledger without the owners and targets that no cycle of the last `retention` seconds had."""
    oldest = ledger.clock - retention
    targets = {uuid: entry for uuid, entry in ledger.targets.items() if entry.seen >= oldest}
    owners = {owner: entry for owner, entry in ledger.owners.items() if entry.seen >= oldest}
    if len(targets) < len(ledger.targets):
        owners = {
            owner: replace(
                entry,
                past={uuid: past for uuid, past in entry.past.items() if uuid in targets},
                used={uuid: seconds for uuid, seconds in entry.used.items() if uuid in targets},
            )
            for owner, entry in owners.items()
        }
    elif len(owners) == len(ledger.owners):
        return ledger
    return replace(ledger, targets=targets, owners=owners)


def _divisions(ledger: Ledger, current: LedgerInput, limits: Limits, *, gap: bool) -> Mapping[str, Division]:
    if gap:
        return {
            each.target.uuid: of_gap(
                each,
                current.seconds,
                [owner for owner, entry in ledger.owners.items() if each.target.uuid in entry.past],
            )
            for each in current.readings
        }
    held = with_peers(current.readings, current.hosts)
    done = {reading.target.uuid: _work(ledger, current, reading, held, limits) for reading in current.readings}
    among = peer_activities(current.readings, done, current.hosts)
    sides: dict[str, Sequence[Evidence]] = {}
    divisions: dict[str, Division] = {}
    for reading in current.readings:
        uuid = reading.target.uuid
        sides[uuid] = [_side(ledger, current, uuid, allocation, held, among) for allocation in reading.allocations]
        divisions[uuid] = divide(reading, done[uuid], sides[uuid], limits)
    late = late_ranks(current.readings, divisions, current.hosts, among, limits)
    for reading in current.readings if late else ():
        uuid = reading.target.uuid
        beside = [late.get((uuid, allocation.owner), 0.0) for allocation in reading.allocations]
        if any(beside):
            knowing = [side._replace(peer_late=each) for side, each in zip(sides[uuid], beside, strict=True)]
            divisions[uuid] = divide(reading, done[uuid], knowing, limits)
    return following(current.readings, divisions, current.hosts, current.work)


def _work(ledger: Ledger, current: LedgerInput, reading: Reading, held: Peers, limits: Limits) -> BusyTime:
    target = ledger.targets.get(reading.target.uuid)
    allocation = runner(reading, limits)
    side = _side(ledger, current, reading.target.uuid, allocation, held, {}) if allocation else NO_EVIDENCE
    return work(reading, side, _clock_lost(reading, target), limits)


def _side(
    ledger: Ledger, current: LedgerInput, uuid: str, allocation: Allocation, held: Peers, among: PeerActivities
) -> Evidence:
    owner = allocation.owner
    known = ledger.owners.get(owner)
    ranks = current.ranks.get(owner)
    side = NO_EVIDENCE._replace(
        reported=phases(ranks, allocation.pids, current.readings) if ranks else NOTHING_REPORTED,
        host=current.hosts.get(owner, NO_HOST),
        work=current.work.get(owner, ""),
        past=known.past.get(uuid, NO_HISTORY) if known else NO_HISTORY,
        peers=uuid in held.get(owner, ()) or owner in current.spread,
        slow_port=uuid in current.slow_ports and owner in current.spread,
        rank=current.compared.get((owner, uuid)),
    )
    rest = others(owner, uuid, ids(allocation, current.hosts), among) if owner in among else ()
    if not rest:
        return side
    pasts = [known.past[each.uuid] for each in rest if each.uuid in known.past] if known else []
    return side._replace(
        peer_lead=max(each.computed for each in rest),
        peers_spin=max(each.spun for each in rest),
        peers_uncomputed=min([each.uncomputed_seconds for each in pasts], default=0.0),
        stalled_elsewhere=not was_blocked(side.past) and any(was_blocked(each) for each in pasts),
    )


def _clock_lost(reading: Reading, known: TargetEntry | None) -> float | None:
    """Part of the clock it runs unthrottled that it lacks; by the highest there is where it never was unthrottled."""
    signals = reading.signals
    if signals is None or not signals.sm_clock:
        return None
    free = (known.free_clock if known else None) or signals.sm_clock_max
    return max(0.0, 1.0 - signals.sm_clock / free) if free else None


def _targets(
    ledger: Ledger,
    current: LedgerInput,
    divisions: Divisions,
    ran: Mapping[str, OwnerBusySeconds],
    instances: Instances,
) -> Mapping[str, TargetEntry]:
    seconds = current.seconds
    entries: dict[str, TargetEntry] = {}
    for reading in current.readings:
        uuid = reading.target.uuid
        inside = [each.target for each in instances.get(uuid, ())]
        within = [(each.share, divisions[each.uuid]) for each in inside]
        rest = sum([ran[each.uuid].rest * each.share for each in inside]) if inside else ran[uuid].rest
        states = gather(within) if within else divisions[uuid].states
        known = ledger.targets.get(uuid)
        entries[uuid] = TargetEntry(
            target=reading.target,
            profile=reading.profile,
            seconds=_added(known.seconds if known else ZERO, states, seconds),
            signals=reading.signals or (known.signals if known else None),
            free_clock=free_clock(known.free_clock if known else None, reading.signals, seconds),
            unowned_seconds=0.0 if reading.target.parent_uuid else (known.unowned_seconds if known else 0.0) + rest,
            seen=ledger.clock,
        )
    return entries


def _owners(
    ledger: Ledger, current: LedgerInput, divisions: Divisions, sums: Mapping[Owner, _Sum], limits: Limits
) -> Mapping[Owner, OwnerEntry]:
    reported = reported_stragglers(current.ranks, current.readings, current.hosts)
    pasts = {owner: total.past for owner, total in sums.items()}
    waited_for = stragglers(current.readings, divisions, current.hosts, pasts, limits, current.slow_ports)
    ranks = current.compared
    by_cycle = [each for each in waited_for if (rank := ranks.get(each[:2])) is None or rank.collective is None]
    by_window = [(*key, rank.straggling) for key, rank in ranks.items() if rank.straggling]
    seen = [each for each in (*by_cycle, *by_window) if each[0] not in reported]
    for owner, uuid, share in (*seen, *(each for found in reported.values() for each in found)):
        before = pasts[owner][uuid]
        waited = before.straggling_seconds + share * current.seconds
        pasts[owner][uuid] = replace(before, straggling_seconds=waited)
    return {owner: _owner(ledger, current, owner, total) for owner, total in sums.items()}


def _sums(
    ledger: Ledger,
    current: LedgerInput,
    divisions: Divisions,
    ran: Mapping[str, OwnerBusySeconds],
    instances: Instances,
    limits: Limits,
) -> Mapping[Owner, _Sum]:
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
            joules = Joules(energy.get(target.parent_uuid, 0.0) * _energy_part(reading, siblings, divisions))
        for part, owned in zip(division.owner_shares, ran[target.uuid].owned, strict=True):
            total = sums.get(part.owner)
            if total is None:
                known = ledger.owners.get(part.owner, OwnerEntry())
                total = sums[part.owner] = _Sum(
                    list(ZERO),
                    past=dict(known.past),
                    used=dict(known.used),
                )
            total.joules = Joules(total.joules + max(0.0, joules) * part.energy)
            total.active = total.active or part.demand > limits[ACTIVE]
            total.observed = total.observed or division.busy is not None
            before = total.past.get(target.uuid, NO_HISTORY)
            now = next_history(before, reading, division, part, current.seconds, limits)
            rank = current.compared.get((part.owner, target.uuid))
            total.past[target.uuid] = replace(now, activity=rank.activity) if rank else now
            gpu = target.parent_uuid or target.uuid
            total.used[gpu] = total.used.get(gpu, 0.0) + owned * target.share
            for state, share in part.state_shares:
                total.states[state] += share * target.share
    return sums


def _energy_part(reading: Reading, siblings: Sequence[Reading], divisions: Divisions) -> float:
    """An instance's part of its GPU's energy: by size while the GPU is idle, by what runs while it is busy."""
    sizes = max(1.0, sum(each.target.share for each in siblings))
    busy = sum(each.target.share * (divisions[each.target.uuid].busy or 0.0) for each in siblings) / sizes
    return (1.0 - busy + (divisions[reading.target.uuid].busy or 0.0)) * reading.target.share / sizes


def _owner(ledger: Ledger, current: LedgerInput, owner: Owner, total: _Sum) -> OwnerEntry:
    entry = ledger.owners.get(owner, OwnerEntry())
    seconds = current.seconds
    start = current.starts.get(owner, entry.start_time) if entry.start_time is None else entry.start_time
    watched = start is not None and ledger.began is not None and start >= ledger.began
    first = entry.first_kernel_seconds
    if first is None and total.active and watched and start is not None:
        first = max(0.0, current.time - start)
    idle = 0.0 if total.active else entry.idle_seconds + (seconds if total.observed else 0.0)
    return OwnerEntry(
        seconds=_added(entry.seconds, total.states, seconds),
        past=total.past,
        used=total.used,
        joules=Joules(entry.joules + total.joules),
        idle_seconds=idle,
        start_time=start,
        first_kernel_seconds=first,
        seen=ledger.clock,
    )


def _added(before: Seconds, states: Sequence[float], seconds: float) -> Seconds:
    return tuple(map(add, before, map(mul, states, repeat(seconds))))
