"""Compare the ranks of one job: which of them spin in a collective, and for which one they wait.

Tensor cores, vector pipes and memory rest in a spin, so activity per busy second is a mixture of work and spin. The
level of work is the highest of any rank. What a rank lacks of it is spin, and its spin beyond that of the least
spinning rank is a wait for that one. This is linear: sums over a window hold for steps of any length and phase.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import exp
from statistics import median
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.ledger.account import LedgerInput, OwnerEntry
from exporter.ledger.peers import linked_works, process_ids, works
from exporter.ledger.states.host_waits import ON_DEMAND, PRESSURE_FLOOR, WAIT_COVER
from exporter.ledger.states.idle import takes_part
from exporter.ledger.states.state import NO_HISTORY, Comparison, Limits, RankActivity, Signals, UsageHistory

_WINDOW_SECONDS, _WARM_UP_SECONDS = 60.0, 17.0
"""Sums fade over the first. Below the second, which they reach after 20 s, no rank is accused."""
_LEAST_LEVELS = {"tensor_active": 0.05, "vector_active": 0.05, "dram_active": 0.05}
_LEAST_LEVELS_WITHOUT_GPM = {"memory_activity": 0.08}
"""Units that rest in a spin, each with the least level of work that shows it."""
_SUMMED = ("busy", *_LEAST_LEVELS, *_LEAST_LEVELS_WITHOUT_GPM, "sm_active", "power_of_limit", "link_activity")
_TOLERANCE, _SHORT_WAIT = 0.05, 0.15
"""Fractions of the time: what GPUs of one model differ by, and waits too short for SM activity and power to show."""
_LEAST_FALL, _IDLE_POWER = 0.3, 0.15
"""How far SM activity and power fall in a spin, over the spin; power over the limit of an idle GPU."""
_LIKE_TRAFFIC, _LIKE_WORK = 0.15, 1.15
"""Least over highest traffic of ranks that work together; work of the rank that others wait for over theirs."""
_DIFFERING_UNITS = 0.08
"""Difference between units from which they show other work, not a spin."""
_LONG_TURNS, _COVERED = 0.1, 0.7
"""Fractions of the time, and of the time without a kernel, in which another rank ran: ranks take turns."""

_NO_OWNER = OwnerEntry()

Comparisons = Mapping[tuple[Owner, str], Comparison]


class _Rank(NamedTuple):
    now: Mapping[str, float]
    sums: RankActivity
    busy_power: float = 0.0

    def mean(self, name: str) -> float:
        return self.sums.units[name] / self.sums.seconds


class _Spins(NamedTuple):
    """Spin of each rank over the window, as fractions of the time."""

    whole: Sequence[float]
    surplus: Sequence[float]
    typical: float
    """Surplus of the ranks that wait."""
    waiting: Collection[int]


def compare_ranks(owners: Mapping[Owner, OwnerEntry], current: LedgerInput, limits: Limits) -> Comparisons:
    """Return the comparisons of this cycle by owner and target.

    A GPU that owners share has no rank, nor has one whose instances are read.
    """
    parents = {reading.target.parent_uuid for reading in current.readings}
    ranks: dict[Owner, dict[str, _Rank]] = {}
    ids: dict[Owner, dict[str, frozenset[int]]] = {}
    for reading in current.readings:
        uuid, signals = reading.target.uuid, reading.signals
        if signals is None or signals.busy is None or len(reading.allocations) != 1 or uuid in parents:
            continue
        owner = reading.allocations[0].owner
        pasts = owners.get(owner, _NO_OWNER).past
        if current.work.get(owner) not in ON_DEMAND and _takes_part(uuid, pasts, limits):
            past = pasts.get(uuid, NO_HISTORY)
            rank = _sum_activity(past.activity, signals, current.seconds)
            ranks.setdefault(owner, {})[uuid] = rank._replace(busy_power=past.busy_power or 0.0)
            ids.setdefault(owner, {})[uuid] = process_ids(reading.allocations[0], current.hosts)
    found: dict[tuple[Owner, str], Comparison] = {}
    for owner, each in ranks.items():
        launched = bool(owner in current.hosts and current.hosts[owner].launchers)
        for work in linked_works(ids[owner]) if launched else works(owner, ids[owner]):
            if len(work) > 1:
                compared = _compare([each[uuid] for uuid in work], current.seconds, limits, launched=launched)
                found.update({(owner, uuid): one for uuid, one in zip(work, compared, strict=True)})
    return found


def _takes_part(uuid: str, pasts: Mapping[str, UsageHistory], limits: Limits) -> bool:
    others_last = min([past.uncomputed_seconds for other, past in pasts.items() if other != uuid], default=0.0)
    return takes_part(pasts.get(uuid, NO_HISTORY), others_last, limits)


def _sum_activity(before: RankActivity, signals: Signals, seconds: float) -> _Rank:
    """Begin anew behind a cycle in which the GPU reports other units: its first readings are of different spans."""
    now = {name: share for name in _SUMMED if (share := getattr(signals, name)) is not None}
    if before.units.keys() != now.keys():
        return _Rank(now, RankActivity(units=dict.fromkeys(now, 0.0)))
    fade = exp(-seconds / _WINDOW_SECONDS)
    units = {name: before.units[name] * fade + share * seconds for name, share in now.items()}
    return _Rank(now, RankActivity(before.seconds * fade + seconds, units, before.led * fade, before.debt))


def _compare(ranks: Sequence[_Rank], seconds: float, limits: Limits, *, launched: bool) -> Sequence[Comparison]:
    busiest = max(rank.now["busy"] for rank in ranks)
    added = [replace(rank.sums, led=rank.sums.led + (busiest - rank.now["busy"]) * seconds) for rank in ranks]
    ranks = [rank._replace(sums=sums) for rank, sums in zip(ranks, added, strict=True)]
    levels = _levels(ranks)
    if not levels or not all(rank.sums.seconds and _is_plausible(rank) for rank in ranks):
        return [Comparison(rank.sums) for rank in ranks]
    spins, together = _spins_of(ranks, levels), _work_together(ranks, launched=launched)
    late = _is_late(ranks, spins, levels)
    sure = late and bool(together) and _witnesses_agree(ranks, spins, levels)
    if min(rank.sums.seconds for rank in ranks) < _WARM_UP_SECONDS:
        return [Comparison(rank.sums, follows=False if sure or together is False else None) for rank in ranks]
    parts = [_waiting_part(spins, index) if late else 0.0 for index in range(len(ranks))]
    spun = [_spun(rank, part, levels) for rank, part in zip(ranks, parts, strict=True)]
    held_up = max(0.0, median([spun[index] for index in spins.waiting])) if sure else 0.0
    most = max(_TOLERANCE, _LEAST_FALL * held_up)
    """Spin of a rank in a cycle in which the others wait for it."""
    found: list[Comparison] = []
    for index, (rank, part) in enumerate(zip(ranks, parts, strict=True)):
        due = spun[index] * seconds + rank.sums.debt  # noise makes it negative at times
        waits = min(rank.now["busy"] * seconds, max(0.0, due))
        rest = rank.sums.units["busy"] - part * spins.whole[index] * rank.sums.seconds
        found.append(
            Comparison(
                replace(rank.sums, debt=max(-_WINDOW_SECONDS / 2, min(0.0, due - waits))),
                collective=waits / max(seconds, 1e-9) if sure else None,
                doubtful=waits / max(seconds, 1e-9) if late and not sure else 0.0,
                straggling=held_up if index not in spins.waiting and _spin(rank.now, levels) <= most else 0.0,
                follows=not late and together is not False and _trails(ranks, spins, index, limits),
                work={name: min(1.0, amount / rest) for name, amount in rank.sums.units.items()} if rest > 0 else None,
            )
        )
    return found


def _is_plausible(rank: _Rank) -> bool:
    """Return whether no unit was active for longer than kernels ran: else the driver's two sources contradict."""
    units = _LEAST_LEVELS.keys() & rank.sums.units.keys()
    return all(rank.mean(name) <= rank.mean("busy") + _TOLERANCE for name in units)


def _levels(ranks: Sequence[_Rank]) -> Mapping[str, float]:
    """Return the level of work of the units that rest in a spin."""
    known = set[str].intersection(*[set(rank.sums.units) for rank in ranks])
    least = _LEAST_LEVELS if "tensor_active" in known else _LEAST_LEVELS_WITHOUT_GPM
    levels = {name: _level(ranks, name) for name in least if name in known}
    return {name: level for name, level in levels.items() if level >= least[name]}


def _level(ranks: Sequence[_Rank], name: str, floor: float = 0.0) -> float:
    """Return the highest activity per busy second of the ranks that ran kernels."""
    means = [(rank.mean(name) - floor, rank.mean("busy")) for rank in ranks if rank.sums.seconds]
    return max([mean / busy for mean, busy in means if busy > _TOLERANCE], default=0.0)


def _spin(units: Mapping[str, float], levels: Mapping[str, float]) -> float:
    """Return what activity lacks of the level of work, signed. Where units differ, the one that works most counts."""
    worked = [units[name] / level for name, level in levels.items()]
    mean, most = sum(worked) / len(worked), max(worked)
    differ = (most - mean) / (_DIFFERING_UNITS * max(units["busy"], most, 1e-9))
    return units["busy"] - mean - (most - mean) * min(1.0, max(0.0, differ - 1.0))


def _spins_of(ranks: Sequence[_Rank], levels: Mapping[str, float]) -> _Spins:
    whole = [_spin(rank.sums.units, levels) / rank.sums.seconds for rank in ranks]
    surplus = [each - min(whole) for each in whole]
    typical = sorted(surplus)[(len(ranks) + 1) // 2]
    waiting = [index for index, each in enumerate(surplus) if each > max(0.5 * _TOLERANCE, 0.25 * typical)]
    return _Spins(whole, surplus, typical, waiting)


def _is_late(ranks: Sequence[_Rank], spins: _Spins, levels: Mapping[str, float]) -> bool:
    """Return whether most ranks spin clearly more than the rest; each unit by itself must show a short wait."""
    if spins.typical < _TOLERANCE or 2 * len(spins.waiting) < len(ranks):
        return False
    each = [[rank.mean("busy") - rank.mean(name) / level for rank in ranks] for name, level in levels.items()]
    return spins.typical >= _SHORT_WAIT or all(
        median([unit[index] for index in spins.waiting]) - max(_others(unit, spins)) >= 0.5 * spins.typical
        for unit in (*each, spins.surplus)
    )


def _others(numbers: Sequence[float], spins: _Spins) -> Sequence[float]:
    """Return those of the ranks that do not wait."""
    return [number for index, number in enumerate(numbers) if index not in spins.waiting]


def _work_together(ranks: Sequence[_Rank], *, launched: bool) -> bool | None:
    """Return whether traffic per busy second is alike; None without such counters, unless one launcher started all."""
    if not all("link_activity" in rank.sums.units for rank in ranks):
        return launched or None
    links = [rank.sums.units["link_activity"] / rank.sums.units["busy"] for rank in ranks if rank.sums.units["busy"]]
    return min(links, default=0.0) > _LIKE_TRAFFIC * max(links, default=0.0)


def _witnesses_agree(ranks: Sequence[_Rank], spins: _Spins, levels: Mapping[str, float]) -> bool:
    """Return whether SM activity and power fall as far as in a spin, for most ranks that wait.

    Without GPM waits must be long and all must do like work: more work looks like a larger batch.
    """
    power, sm = (
        _falls(ranks, spins, name, floor) for name, floor in (("power_of_limit", _IDLE_POWER), ("sm_active", 0))
    )
    if "tensor_active" in levels or "sm_active" in ranks[0].sums.units:
        return power and sm
    work = [sum([rank.mean(name) for name in levels]) for rank in ranks]
    like = max(_others(work, spins)) <= _LIKE_WORK * median([work[index] for index in spins.waiting])
    return like and power and spins.typical >= _SHORT_WAIT and "power_of_limit" in ranks[0].sums.units


def _falls(ranks: Sequence[_Rank], spins: _Spins, name: str, floor: float) -> bool:
    """Return whether a unit shows the spin of most; not asked of short waits, nor where it is not measured."""
    if not all(name in rank.sums.units for rank in ranks) or spins.typical < _SHORT_WAIT:
        return True
    seen = max(rank.busy_power for rank in ranks) - floor if name == "power_of_limit" else 0.0
    level = max(_level(ranks, name, floor), seen, 1e-9)
    lacks = [(rank.mean("busy") - (rank.mean(name) - floor) / level) for rank in ranks]
    return 2 * sum(lacks[at] >= _LEAST_FALL * spins.surplus[at] for at in spins.waiting) >= len(spins.waiting)


def _waiting_part(spins: _Spins, index: int) -> float:
    """Return the part of a rank's spin that is a wait for the rank that spins least."""
    wait = min(spins.surplus[index], spins.typical) - 0.25 * _TOLERANCE
    return min(1.0, wait / max(spins.whole[index], 1e-9)) if index in spins.waiting else 0.0


def _spun(rank: _Rank, part: float, levels: Mapping[str, float]) -> float:
    """Return the wait of one cycle, signed: its part of the spin, or all busy time of a cycle without any work."""
    spin, busy = _spin(rank.now, levels), rank.now["busy"]
    return busy if part and spin >= (1.0 - _TOLERANCE) * busy > 1.0 - 2 * _TOLERANCE else part * spin


def _trails(ranks: Sequence[_Rank], spins: _Spins, index: int, limits: Limits) -> bool:
    """Return whether another rank worked longer, or ranks that hardly spin take turns as stages of a pipeline do."""
    work = [rank.mean("busy") - max(0.0, spin) for rank, spin in zip(ranks, spins.whole, strict=True)]
    idle, led = 1.0 - ranks[index].mean("busy"), ranks[index].sums.led / ranks[index].sums.seconds
    turns = led >= max(_LONG_TURNS, _COVERED * idle) and max(spins.whole) < _SHORT_WAIT
    return turns or max(work) - work[index] >= max(limits[PRESSURE_FLOOR], limits[WAIT_COVER] * idle)
