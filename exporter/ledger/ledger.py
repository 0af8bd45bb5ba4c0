"""One step of the ledger: totals so far and one cycle give new totals. Pure; frozen in, frozen out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import add, mul

from exporter.attribution.owner import Owner
from exporter.core.units import Joules
from exporter.ledger.account import (
    ZERO,
    Allocation,
    Ledger,
    LedgerInput,
    OwnerEntry,
    Reading,
    Seconds,
    TargetEntry,
    TargetUsage,
)
from exporter.ledger.division import NO_EVIDENCE, BusyTime, Division, busy_time, divide, find_runner, of_gap, sum_parts
from exporter.ledger.history import (
    OwnerBusySeconds,
    clock_lost,
    divide_busy_seconds,
    mean_lately,
    next_clocks,
    next_history,
    power_cap_seconds,
    was_blocked,
)
from exporter.ledger.peers import (
    NO_BARRIERS,
    Barriers,
    Peers,
    late_ranks,
    mean_phases,
    peers_of,
    reported_stragglers,
)
from exporter.ledger.ranks import compare_ranks
from exporter.ledger.states import DEFAULTS
from exporter.ledger.states.given import GAP_INTERVALS
from exporter.ledger.states.idle import ACTIVE
from exporter.ledger.states.state import (
    NO_CLOCKS,
    NO_HISTORY,
    NO_HOST,
    NOTHING_REPORTED,
    Evidence,
    Limits,
    UsageHistory,
)
from exporter.ledger.usage import Divisions, Instances, target_usage, unowned_usage

_NO_ENERGY, _NO_OWNER = Joules(0.0), OwnerEntry()


_ALONE: Mapping[str, Collection[str]] = {}


@dataclass(slots=True)
class _Sum:
    """The sums of one owner over all its targets, as fractions of the cycle."""

    states: list[float]
    joules: Joules = _NO_ENERGY
    active: bool = False
    observed: bool = False
    """True if it is known of one of its targets whether it was busy."""
    past: dict[str, UsageHistory] = field(default_factory=dict[str, UsageHistory])
    used: dict[str, float] = field(default_factory=dict[str, float])


def advance_ledger(ledger: Ledger, current: LedgerInput, limits: Limits = DEFAULTS) -> Ledger:
    """The ledger after one more cycle. A target that was not read is unobserved, and most of a gap."""
    current = replace(current, seconds=max(0.0, current.seconds))
    seconds, readings = current.seconds, current.readings
    gap = seconds > limits[GAP_INTERVALS] * current.interval
    peers = peers_of(readings, current.hosts)
    if not gap:
        current = replace(current, compared=compare_ranks(ledger.owners, current, peers, limits))
    divisions, barriers = _divide_targets(ledger, current, peers, limits, gap=gap)
    ran = {
        each.target.uuid: divide_busy_seconds(each, divisions[each.target.uuid], seconds, ledger.owners)
        for each in readings
    }
    instances: dict[str, list[Reading]] = {}
    for reading in readings:
        if reading.target.parent_uuid:
            instances.setdefault(reading.target.parent_uuid, []).append(reading)
    usage = target_usage(ledger, current, divisions, ran, instances)
    began = current.time if ledger.began is None else ledger.began
    ledger = replace(ledger, clock=ledger.clock + seconds, began=began)
    sums = _sum_by_owner(ledger, current, divisions, usage, instances, limits)
    return replace(
        ledger,
        targets={**ledger.targets, **_target_entries(ledger, current, divisions, ran, instances)},
        owners={**ledger.owners, **_owner_entries(ledger, current, peers, barriers, sums)},
        usage=(*usage, *unowned_usage(readings, divisions, ran, instances, usage)),
        host_signals_known=current.host_signals_known or ledger.host_signals_known,
    )


def drop_stale(ledger: Ledger, retention: float) -> Ledger:
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


def _divide_targets(
    ledger: Ledger, current: LedgerInput, peers: Peers, limits: Limits, *, gap: bool
) -> tuple[Mapping[str, Division], Barriers]:
    if gap:
        return {
            each.target.uuid: of_gap(
                each,
                current.seconds,
                [owner for owner, entry in ledger.owners.items() if each.target.uuid in entry.past],
            )
            for each in current.readings
        }, NO_BARRIERS
    done: dict[str, BusyTime] = {}
    sides: dict[str, Sequence[Evidence]] = {}
    divisions: dict[str, Division] = {}
    for reading in current.readings:
        uuid = reading.target.uuid
        done[uuid] = _busy_of_target(ledger, current, reading, peers, limits)
        sides[uuid] = [_gather_evidence(ledger, current, uuid, allocation, peers) for allocation in reading.allocations]
        divisions[uuid] = divide(reading, done[uuid], sides[uuid], limits)
    barriers = late_ranks(divisions, peers, ledger.owners)
    for reading in current.readings if barriers.late else ():
        uuid = reading.target.uuid
        beside = [barriers.late.get((uuid, allocation.owner), 0.0) for allocation in reading.allocations]
        if any(beside):
            knowing = [side._replace(peer_late=each) for side, each in zip(sides[uuid], beside, strict=True)]
            divisions[uuid] = divide(reading, done[uuid], knowing, limits)
    return divisions, barriers


def _busy_of_target(ledger: Ledger, current: LedgerInput, reading: Reading, peers: Peers, limits: Limits) -> BusyTime:
    target = ledger.targets.get(reading.target.uuid)
    allocation = find_runner(reading, limits)
    side = _gather_evidence(ledger, current, reading.target.uuid, allocation, peers) if allocation else NO_EVIDENCE
    return busy_time(reading, side, _clock_lost(reading, target), limits)


def _gather_evidence(ledger: Ledger, current: LedgerInput, uuid: str, allocation: Allocation, peers: Peers) -> Evidence:
    owner = allocation.owner
    past = ledger.owners.get(owner, _NO_OWNER).past
    mine = past.get(uuid, NO_HISTORY)
    rest = [past[other] for other in peers.get(owner, _ALONE).get(uuid, ()) if other != uuid and other in past]
    ranks = current.ranks.get(owner)
    return NO_EVIDENCE._replace(
        reported=mean_phases(ranks, allocation.pids, current.readings) if ranks else NOTHING_REPORTED,
        host=current.hosts.get(owner, NO_HOST),
        work=current.work.get(owner, ""),
        past=mine,
        peers=len(peers.get(owner, _ALONE).get(uuid, ())) > 1 or owner in current.spread,
        slow_port=uuid in current.slow_ports and owner in current.spread,
        rank=current.compared.get((owner, uuid)),
        stalled_elsewhere=not was_blocked(mine) and any(was_blocked(each) for each in rest),
    )


def _clock_lost(reading: Reading, known: TargetEntry | None) -> float | None:
    """Part of the clock that it lacks while throttled; of the highest there is where it never was unthrottled."""
    signals, clocks = reading.signals, known.clocks if known else NO_CLOCKS
    if signals is None:
        return None
    lowered = mean_lately(clocks.throttled, signals.sm_clock_throttled) or signals.sm_clock
    return clock_lost(lowered, clocks.free or signals.sm_clock_max)


def _target_entries(
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
        states = sum_parts(within) if within else divisions[uuid].states
        known = ledger.targets.get(uuid)
        clocks = next_clocks(known.clocks if known else NO_CLOCKS, reading.signals, seconds)
        capped = known.power_cap_seconds if known else None
        entries[uuid] = TargetEntry(
            target=reading.target,
            profile=reading.profile,
            seconds=_add_states(known.seconds if known else ZERO, states, seconds),
            signals=reading.signals or (known.signals if known else None),
            clocks=clocks,
            power_cap_seconds=power_cap_seconds(capped, clocks, reading.signals, seconds),
            unowned_seconds=0.0 if reading.target.parent_uuid else (known.unowned_seconds if known else 0.0) + rest,
            seen=ledger.clock,
        )
    return entries


def _owner_entries(
    ledger: Ledger, current: LedgerInput, peers: Peers, barriers: Barriers, sums: Mapping[Owner, _Sum]
) -> Mapping[Owner, OwnerEntry]:
    reported = reported_stragglers(current.ranks, current.readings, peers)
    parts = {key: rank.straggling for key, rank in current.compared.items() if rank.straggling}
    for owner, uuid, part in barriers.waited_for:
        parts[owner, uuid] = max(part, parts.get((owner, uuid), 0.0))
    seen = [(*key, part) for key, part in parts.items() if key[0] not in reported]
    for owner, uuid, part in (*seen, *(each for found in reported.values() for each in found)):
        before = sums[owner].past[uuid]
        waited = before.straggling_seconds + part * current.seconds
        sums[owner].past[uuid] = replace(before, straggling_seconds=waited)
    return {owner: _owner_entry(ledger, current, owner, total) for owner, total in sums.items()}


def _sum_by_owner(
    ledger: Ledger,
    current: LedgerInput,
    divisions: Divisions,
    usage: Sequence[TargetUsage],
    instances: Instances,
    limits: Limits,
) -> Mapping[Owner, _Sum]:
    sums: dict[Owner, _Sum] = {}
    rows = iter(usage)
    for reading in current.readings:
        target = reading.target
        if target.uuid in instances:  # counts as its instances
            continue
        division = divisions[target.uuid]
        for part, row in zip(division.owner_usages, rows):  # noqa: B905 - the rows of the next targets follow
            total = sums.get(part.owner)
            if total is None:
                known = ledger.owners.get(part.owner, OwnerEntry())
                total = sums[part.owner] = _Sum(
                    list(ZERO),
                    past=dict(known.past),
                    used=dict(known.used),
                )
            total.joules = Joules(total.joules + row.joules)
            total.active = total.active or part.demand > limits[ACTIVE]
            total.observed = total.observed or division.busy is not None
            before = total.past.get(target.uuid, NO_HISTORY)
            now = next_history(before, division, part, current.seconds, limits)
            rank = current.compared.get((part.owner, target.uuid))
            total.past[target.uuid] = replace(now, activity=rank.activity) if rank else now
            total.used[row.gpu] = total.used.get(row.gpu, 0.0) + row.used
            for state, ratio in row.states:
                total.states[state] += ratio
    return sums


def _owner_entry(ledger: Ledger, current: LedgerInput, owner: Owner, total: _Sum) -> OwnerEntry:
    entry = ledger.owners.get(owner, OwnerEntry())
    seconds = current.seconds
    start = current.starts.get(owner, entry.start_time) if entry.start_time is None else entry.start_time
    watched = start is not None and ledger.began is not None and start >= ledger.began
    first = entry.first_kernel_seconds
    if first is None and total.active and watched and start is not None:
        first = max(0.0, current.time - start)
    idle = 0.0 if total.active else (entry.idle_seconds or 0.0) + seconds if total.observed else entry.idle_seconds
    return OwnerEntry(
        seconds=_add_states(entry.seconds, total.states, seconds),
        past=total.past,
        used=total.used,
        joules=Joules(entry.joules + total.joules),
        idle_seconds=idle,
        start_time=start,
        first_kernel_seconds=first,
        seen=ledger.clock,
    )


def _add_states(before: Seconds, states: Sequence[float], seconds: float) -> Seconds:
    return tuple(map(add, before, map(mul, states, repeat(seconds))))
