"""Rows that one cycle adds to owners, GPU by GPU: the ledger's totals and the accounting are their sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.attribution.owner import NOBODY
from exporter.core.units import Joules
from exporter.ledger.account import Ledger, LedgerInput, Reading, TargetUsage
from exporter.ledger.division import Division, sum_parts
from exporter.ledger.history import LATE_CYCLES, OwnerBusySeconds

Divisions = Mapping[str, Division]
Instances = Mapping[str, Sequence[Reading]]
"""Readings of MIG instances, keyed by the uuid of their GPU."""


def target_usage(
    before: Ledger,
    current: LedgerInput,
    divisions: Divisions,
    ran: Mapping[str, OwnerBusySeconds],
    instances: Instances,
) -> tuple[TargetUsage, ...]:
    """Return one row for each owner on each target, in the order of the readings. A split GPU has its instances'."""
    meters = {reading.target.uuid: reading for reading in current.readings}
    found: list[TargetUsage] = []
    for reading in current.readings:
        target = reading.target
        if target.uuid in instances:
            continue
        gpu, division = target.parent_uuid or target.uuid, divisions[target.uuid]
        meter = meters.get(gpu)
        joules, metered = (meter.joules, meter.metered) if meter else (0.0, 0.0)
        # An owner that was not there before has the energy of one cycle at most.
        last = current.interval / metered if metered > LATE_CYCLES * current.interval else 1.0
        known = {owner for owner, entry in before.owners.items() if target.uuid in entry.past}
        if target.parent_uuid:
            siblings = instances[target.parent_uuid]
            joules = joules * _energy_part(reading, siblings, divisions)
        found += [
            TargetUsage(
                part.owner,
                gpu,
                reading.profile,
                tuple([(state, ratio * target.share) for state, ratio in part.state_fractions]),
                owned * target.share,
                Joules(max(0.0, joules) * part.energy * (1.0 if part.owner in known else last)),
            )
            for part, owned in zip(division.owner_usages, ran[target.uuid].owned, strict=True)
        ]
    return tuple(found)


def unowned_usage(
    readings: Sequence[Reading],
    divisions: Divisions,
    ran: Mapping[str, OwnerBusySeconds],
    instances: Instances,
    usage: Sequence[TargetUsage],
) -> Iterator[TargetUsage]:
    """Yield for each GPU what `usage` leaves of it: with both, each GPU's states sum to 1.

    An owner's states may differ from those of the GPU: one computes in the time of another, which is idle. What is left
    is divided by the states that no owner accounts for.
    """
    for reading in readings:
        uuid = reading.target.uuid
        if reading.target.parent_uuid:
            continue
        inside = [each.target for each in instances.get(uuid, ())]
        within = [(each.share, divisions[each.uuid]) for each in inside]
        states = list(sum_parts(within) if within else divisions[uuid].states)
        owned = [row for row in usage if row.gpu == uuid]
        whole = sum(states)
        for row in owned:
            for state, ratio in row.states:
                states[state] -= ratio
        unowned = max(0.0, whole - sum(ratio for row in owned for _, ratio in row.states))
        above = sum(max(0.0, ratio) for ratio in states)
        rest = sum([ran[each.uuid].rest * each.share for each in inside]) if inside else ran[uuid].rest
        joules = Joules(max(0.0, reading.joules - sum(row.joules for row in owned)))
        left = (
            tuple([(state, ratio * unowned / above) for state, ratio in enumerate(states) if ratio > 0.0])
            if unowned > _ROUNDING
            else ()
        )
        if left or rest or joules:
            yield TargetUsage(NOBODY, uuid, "", left, rest, joules)


_ROUNDING = 1e-9
"""Rest of a GPU that comes from rounding alone."""


def _energy_part(reading: Reading, siblings: Sequence[Reading], divisions: Divisions) -> float:
    """An instance's part of its GPU's energy: by size while the GPU is idle, by what runs while it is busy."""
    sizes = max(1.0, sum(each.target.share for each in siblings))
    busy = sum(each.target.share * (divisions[each.target.uuid].busy or 0.0) for each in siblings) / sizes
    return (1.0 - busy + (divisions[reading.target.uuid].busy or 0.0)) * reading.target.share / sizes
