"""Compare the ranks of one job: which of them spin in a collective, and for which one they wait.

Tensor cores, vector pipes and memory rest in a spin, so activity per busy second is a mixture of work and spin. The
level of work is the highest of any rank. What a rank lacks of it is spin, and its spin beyond that of the least
spinning rank is a wait for that one. This is linear: sums over a window hold for steps of any length and phase.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp
from statistics import median
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.ledger.account import LedgerInput, OwnerEntry
from exporter.ledger.hangs import STUCK_SECONDS, Spin, computing_levels, spin_of
from exporter.ledger.peers import Peers, group_by_work
from exporter.ledger.states.host_waits import ON_DEMAND, PRESSURE_FLOOR, WAIT_COVER
from exporter.ledger.states.idle import takes_part
from exporter.ledger.states.state import NO_HISTORY, NO_HOST, Comparison, Limits, RankActivity, Signals

_WINDOW_SECONDS, _WARM_UP_SECONDS = 60.0, 17.0
"""Sums fade over the first. Below the second, which they reach after 20 s, no rank is accused."""
_LEAST_LEVELS = {"tensor_active": 0.05, "vector_active": 0.05, "dram_active": 0.05}
_LEAST_LEVELS_WITHOUT_GPM = {"memory_activity": 0.08}
"""Units that rest in a spin, each with the least level of work that shows it."""
_SUMMED = ("busy", *_LEAST_LEVELS, *_LEAST_LEVELS_WITHOUT_GPM, "sm_active", "power_of_limit", "link_activity")
_TOLERANCE, _SHORT_WAIT = 0.05, 0.15
"""Fractions of the time: what GPUs of one model differ by, and waits too short for SM activity and power to show."""
_LEAST_FALL, _IDLE_POWER = 0.3, 0.15
"""Fall of SM activity and power in a spin, over the spin; power over the limit of an idle GPU."""
_LIKE_TRAFFIC, _LIKE_WORK = 0.15, 1.15
"""Least over highest traffic of ranks that work together; work of the rank that others wait for over theirs."""
_DIFFERING_UNITS = 0.08
"""Difference between units from which they show other work, not a spin."""
_KEPT = 0.5
"""Part of a rank's idle time that its own node explains, from which no other rank is named for it."""
_LONG_TURNS, _COVERED = 0.1, 0.7
"""Fractions of the time, and of the time without a kernel, in which another rank ran: ranks take turns."""

_NO_OWNER = OwnerEntry()

_HANGS = frozenset({"rank_lags", "rank_missing"})
"""Verdicts of NCCL's RAS on collectives that do not go on."""

Comparisons = Mapping[tuple[Owner, str], Comparison]


class _Rank(NamedTuple):
    uuid: str
    now: Mapping[str, float]
    sums: RankActivity
    spin: Spin = Spin.NO
    """Verdict of this cycle alone."""
    takes_part: bool = True
    ran: bool = False
    kept: float = 0.0
    """Seconds over the window in which something on this node kept it."""
    pids: Sequence[int] = ()

    def mean(self, name: str) -> float:
        return self.sums.units[name] / self.sums.seconds


class _Job(NamedTuple):
    """State of a work beside its ranks."""

    seconds: float
    """Length of the cycle."""
    launched: bool
    on_demand: bool
    slow_ports: Collection[str]
    hangs: bool | None
    """True if NCCL's RAS and the reported steps show a hang; None: neither reports."""
    connected: bool | None = None
    """True if TCP connections link processes of all its ranks; None: not known."""


class _Spins(NamedTuple):
    """Spin of each rank over the window, as fractions of the time."""

    whole: Sequence[float]
    surplus: Sequence[float]
    typical: float
    """Surplus of the ranks that wait."""
    waiting: Collection[int]


def compare_ranks(
    owners: Mapping[Owner, OwnerEntry], current: LedgerInput, peers: Peers, limits: Limits
) -> Comparisons:
    """Return the comparisons of this cycle by owner and target.

    A GPU that owners share has no rank, nor has one with instances: NCCL does not connect those.
    """
    parents = {reading.target.parent_uuid for reading in current.readings}
    ranks: dict[Owner, dict[str, _Rank]] = {}
    for reading in current.readings:
        uuid, signals = reading.target.uuid, reading.signals
        allocations = [each for each in reading.allocations if each.share > 0]
        if signals is None or signals.busy is None or len(allocations) != 1:
            continue
        if uuid in parents or reading.target.parent_uuid:
            continue
        owner = allocations[0].owner
        pasts = owners.get(owner, _NO_OWNER).past
        past = pasts.get(uuid, NO_HISTORY)
        rank = _sum_activity(uuid, past.activity, signals, current.seconds, limits)
        rank = rank._replace(ran=past.ran, kept=past.kept_seconds, pids=allocations[0].pids)
        others_last = min([each.uncomputed_seconds for other, each in pasts.items() if other != uuid], default=0.0)
        ranks.setdefault(owner, {})[uuid] = rank._replace(takes_part=takes_part(past, others_last, limits))
    return {
        (owner, uuid): compared
        for owner, each in ranks.items()
        for uuid, compared in _of_owner(owner, each, current, peers, limits)
    }


def _of_owner(
    owner: Owner, ranks: Mapping[str, _Rank], current: LedgerInput, peers: Peers, limits: Limits
) -> Iterator[tuple[str, Comparison]]:
    host, spread = current.hosts.get(owner, NO_HOST), owner in current.spread
    job = _Job(
        current.seconds,
        bool(host.launchers),
        current.work.get(owner) in ON_DEMAND,
        current.slow_ports if spread else (),
        _reports_hang(current, owner),
    )
    for work in group_by_work(owner, list(ranks), peers):
        if len(work) > 1 or spread:
            pids, connected = [set(ranks[uuid].pids) for uuid in work], None
            if all(each and host.connected.keys() >= each for each in pids):
                groups = [{host.connected[pid] for pid in each} for each in pids]
                connected = bool(set[int].intersection(*groups))  # one group has processes of each rank
            yield from _compare([ranks[uuid] for uuid in work], job._replace(connected=connected), limits).items()


def _reports_hang(current: LedgerInput, owner: Owner) -> bool | None:
    """Return whether the job itself, or its NCCL, reports that it goes on, or does not."""
    verdict = current.nccl.get(owner)
    if verdict == "moving" or any(rank.advances for rank in current.ranks.get(owner, ())):
        return False
    return True if verdict in _HANGS else None


def _sum_activity(uuid: str, before: RankActivity, signals: Signals, seconds: float, limits: Limits) -> _Rank:
    """Begin anew behind a cycle in which the GPU reports other units: its first readings are of different spans."""
    now = {name: ratio for name in _SUMMED if (ratio := getattr(signals, name)) is not None}
    spin = spin_of(now, before, limits)
    stuck = before.stuck + seconds if spin else 0.0
    computing = computing_levels(before, now, spin, seconds)
    if before.units.keys() != now.keys():
        units = dict.fromkeys(now, 0.0)
        return _Rank(uuid, now, RankActivity(units=units, stuck=stuck, computing=computing), spin=spin)
    fade = exp(-seconds / _WINDOW_SECONDS)
    units = {name: before.units[name] * fade + ratio * seconds for name, ratio in now.items()}
    whole, led = before.seconds * fade + seconds, before.led * fade
    return _Rank(uuid, now, RankActivity(whole, units, led, before.debt, stuck, computing), spin=spin)


def _compare(members: Sequence[_Rank], job: _Job, limits: Limits) -> Mapping[str, Comparison]:
    """Compare the targets of one work. Those that take no part are only measured: how long others ran without them."""
    busiest = max([0.0 if each.spin else each.now["busy"] for each in members])
    added = [
        replace(each.sums, led=each.sums.led + max(0.0, busiest - each.now["busy"]) * job.seconds) for each in members
    ]
    members = [each._replace(sums=sums) for each, sums in zip(members, added, strict=True)]
    ranks = [each for each in members if each.takes_part]
    all_stuck = all(each.sums.stuck >= STUCK_SECONDS for each in ranks)  # then none waits for the one that spins least
    compare = len(ranks) > 1 and not all_stuck
    mixed = _compare_mixtures(ranks, job, limits) if compare else [Comparison(each.sums) for each in ranks]
    found = mixed if any(each.collective is not None for each in mixed) else _find_stuck(ranks, mixed, job, limits)
    compared = {rank.uuid: each for rank, each in zip(ranks, found, strict=True)}
    return {
        each.uuid: compared.get(each.uuid, Comparison(each.sums))._replace(
            led=each.sums.led / max(each.sums.seconds, 1e-9)
        )
        for each in members
    }


def _find_stuck(ranks: Sequence[_Rank], mixed: Sequence[Comparison], job: _Job, limits: Limits) -> Sequence[Comparison]:
    """Return the verdict on ranks that spin without a pause: they wait for those that do not, or hang together.

    Where most of those that may spin look a little busier than a spin, all of them may run very small kernels.
    """
    least = 0.0 if job.on_demand else STUCK_SECONDS
    sure = Spin.POSSIBLE if job.hangs else Spin.YES
    seen = [rank.spin for rank in ranks if rank.spin]
    may_hang = job.hangs is not False and 2 * sum(each >= sure for each in seen) > len(seen)
    stuck = [rank.spin >= sure and rank.sums.stuck >= least and may_hang for rank in ranks]
    asked = job.on_demand and any(rank.now["busy"] < 1.0 - limits[WAIT_COVER] for rank in ranks)
    slow = [rank.uuid in job.slow_ports for rank in ranks]
    culprits = [not rank.spin for rank in ranks]
    if all(stuck) and 2 * sum(slow) < len(ranks):  # all are in the same collective: the bad link holds it up
        culprits = slow
    found: list[Comparison] = []
    for at, (rank, each) in enumerate(zip(ranks, mixed, strict=True)):
        rest = sum(stuck) - stuck[at]
        held_up = rest / (len(ranks) - 1) if culprits[at] and rest and 2 * rest >= len(ranks) - 1 else each.straggling
        busy = rank.now["busy"]
        found.append(
            each._replace(
                collective=busy if stuck[at] and not asked else None,
                requests=busy if stuck[at] and asked else 0.0,
                doubtful=busy if rank.spin and not stuck[at] and job.hangs is not False else each.doubtful,
                straggling=0.0 if job.on_demand else held_up,
                follows=each.follows and not (culprits[at] and rest),
            )
        )
    return found


def _compare_mixtures(ranks: Sequence[_Rank], job: _Job, limits: Limits) -> Sequence[Comparison]:
    seconds = job.seconds
    if min(rank.sums.seconds for rank in ranks) < _WARM_UP_SECONDS:
        return [Comparison(rank.sums) for rank in ranks]
    levels = _work_levels(ranks) if all(_is_plausible(rank) for rank in ranks) else dict[str, float]()
    if job.on_demand:
        return _between_requests(ranks, levels)
    spins, together = _spins_of(ranks, levels), _work_together(ranks, job)
    late = bool(levels) and _is_late(ranks, spins, levels)
    sure = late and bool(together) and _witnesses_agree(ranks, spins, levels)
    parts = [_waiting_part(spins, index) if late else 0.0 for index in range(len(ranks))]
    spun = [_cycle_wait(rank, part, levels) if part else 0.0 for rank, part in zip(ranks, parts, strict=True)]
    held_up = max(0.0, median([spun[index] for index in spins.waiting])) if sure else 0.0
    most = max(_TOLERANCE, _LEAST_FALL * held_up)
    """Spin of a rank in a cycle in which the others wait for it."""
    follow = [not late and together is not False and _trails(ranks, spins, at, limits) for at in range(len(ranks))]
    idle = _idled_fraction(ranks, follow) if together else 0.0
    found: list[Comparison] = []
    for index, (rank, part) in enumerate(zip(ranks, parts, strict=True)):
        due = spun[index] * seconds + rank.sums.debt  # noise makes it negative at times
        waits = min(rank.now["busy"] * seconds, max(0.0, due))
        bounds = late and index not in spins.waiting and _estimate_spin(rank.now, levels) <= most
        found.append(
            Comparison(
                replace(rank.sums, debt=max(-_WINDOW_SECONDS / 2, min(0.0, due - waits))),
                collective=waits / max(seconds, 1e-9) if sure else None,
                doubtful=waits / max(seconds, 1e-9) if late and not sure and together is not False else 0.0,
                straggling=held_up if bounds else 0.0 if late or follow[index] else idle,
                follows=follow[index],
                work=_work_of(rank, part * spins.whole[index]) if levels else None,
            )
        )
    return found


def _between_requests(ranks: Sequence[_Rank], levels: Mapping[str, float]) -> Sequence[Comparison]:
    """Return what ranks of a service may spin while the least busy one has no request.

    A replica that has small batches beside one without requests looks the same. The unit that works most shows it:
    others hardly work in a decoder.
    """
    levels = dict(sorted(levels.items(), key=lambda item: item[1])[-1:])
    least, spins = min(rank.now["busy"] for rank in ranks), _spins_of(ranks, levels).whole
    found: list[Comparison] = []
    for rank, whole in zip(ranks, spins, strict=True):
        spun = max(0.0, min(rank.now["busy"] - least, _estimate_spin(rank.now, levels))) if levels else 0.0
        found.append(Comparison(rank.sums, doubtful=spun, work=_work_of(rank, max(0.0, whole)) if levels else None))
    return found


def _work_of(rank: _Rank, spun: float) -> Mapping[str, float] | None:
    """Return its activity over the window outside of what it `spun`; None where nothing is left."""
    rest = rank.sums.units["busy"] - spun * rank.sums.seconds
    return {name: min(1.0, amount / rest) for name, amount in rank.sums.units.items()} if rest > 0 else None


def _idled_fraction(ranks: Sequence[_Rank], follow: Sequence[bool]) -> float:
    """Return how much most ranks idled in this cycle while another worked. Not where their own host kept them."""
    idle = [rank for rank, follows in zip(ranks, follow, strict=True) if follows]
    kept = any(rank.kept > _KEPT * (rank.sums.seconds - rank.sums.units["busy"]) for rank in idle)
    if kept or not all(rank.ran for rank in ranks) or not len(ranks) <= 2 * len(idle) < 2 * len(ranks):
        return 0.0
    busy = max([rank.now["busy"] for rank, follows in zip(ranks, follow, strict=True) if not follows])
    return min(busy, sum([1.0 - rank.now["busy"] for rank in idle]) / len(idle))


def _is_plausible(rank: _Rank) -> bool:
    """Return whether no unit was active for longer than kernels ran: else the driver's two sources contradict."""
    units = _LEAST_LEVELS.keys() & rank.sums.units.keys()
    return all(rank.mean(name) <= rank.mean("busy") + _TOLERANCE for name in units)


def _work_levels(ranks: Sequence[_Rank]) -> Mapping[str, float]:
    """Return the level of work of the units that rest in a spin."""
    known = set[str].intersection(*[set(rank.sums.units) for rank in ranks])
    least = _LEAST_LEVELS if "tensor_active" in known else _LEAST_LEVELS_WITHOUT_GPM
    levels = {name: _work_level(ranks, name) for name in least if name in known}
    return {name: level for name, level in levels.items() if level >= least[name]}


def _work_level(ranks: Sequence[_Rank], name: str, floor: float = 0.0) -> float:
    """Return the highest activity per busy second of the ranks that ran kernels."""
    means = [(rank.mean(name) - floor, rank.mean("busy")) for rank in ranks if rank.sums.seconds]
    return max([mean / busy for mean, busy in means if busy > _TOLERANCE], default=0.0)


def _estimate_spin(units: Mapping[str, float], levels: Mapping[str, float]) -> float:
    """Return what activity lacks of the level of work, signed. Where units differ, the one that works most counts."""
    worked = [units[name] / level for name, level in levels.items()]
    mean, most = sum(worked) / len(worked), max(worked)
    differ = (most - mean) / (_DIFFERING_UNITS * max(units["busy"], most, 1e-9))
    return units["busy"] - mean - (most - mean) * min(1.0, max(0.0, differ - 1.0))


def _spins_of(ranks: Sequence[_Rank], levels: Mapping[str, float]) -> _Spins:
    whole = [_estimate_spin(rank.sums.units, levels) / rank.sums.seconds if levels else 0.0 for rank in ranks]
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
        median([unit[index] for index in spins.waiting]) - max(_without_waiting(unit, spins)) >= 0.5 * spins.typical
        for unit in (*each, spins.surplus)
    )


def _without_waiting(numbers: Sequence[float], spins: _Spins) -> Sequence[float]:
    """Return those of the ranks that do not wait."""
    return [number for index, number in enumerate(numbers) if index not in spins.waiting]


def _work_together(ranks: Sequence[_Rank], job: _Job) -> bool | None:
    """Return whether they do, by traffic per busy second, and by connections where no launcher started all.

    Unlike traffic is other work, whatever the processes exchange. None: not known, or alike and not connected.
    """
    connected = True if job.launched else job.connected
    if not all("link_activity" in rank.sums.units for rank in ranks):
        return connected
    links = [rank.sums.units["link_activity"] / rank.sums.units["busy"] for rank in ranks if rank.sums.units["busy"]]
    alike = min(links, default=0.0) > _LIKE_TRAFFIC * max(links, default=0.0)
    return alike and (connected is not False or None)


def _witnesses_agree(ranks: Sequence[_Rank], spins: _Spins, levels: Mapping[str, float]) -> bool:
    """Return whether SM activity and power fall as far as in a spin, for most ranks that wait.

    Without GPM waits must be long and all must do like work: more work looks like a larger batch.
    """
    power, sm = (
        _shows_fall(ranks, spins, name, floor) for name, floor in (("power_of_limit", _IDLE_POWER), ("sm_active", 0))
    )
    if "tensor_active" in levels or "sm_active" in ranks[0].sums.units:
        return power and sm
    work = [sum([rank.mean(name) for name in levels]) for rank in ranks]
    like = max(_without_waiting(work, spins)) <= _LIKE_WORK * median([work[index] for index in spins.waiting])
    return like and power and spins.typical >= _SHORT_WAIT and "power_of_limit" in ranks[0].sums.units


def _shows_fall(ranks: Sequence[_Rank], spins: _Spins, name: str, floor: float) -> bool:
    """Return whether a unit shows the spin of most; not asked of short waits, nor where it is not measured."""
    if not all(name in rank.sums.units for rank in ranks) or spins.typical < _SHORT_WAIT:
        return True
    seen = max(rank.sums.computing.get(name, 0.0) for rank in ranks) - floor if name == "power_of_limit" else 0.0
    level = max(_work_level(ranks, name, floor), seen, 1e-9)
    lacks = [(rank.mean("busy") - (rank.mean(name) - floor) / level) for rank in ranks]
    return 2 * sum(lacks[at] >= _LEAST_FALL * spins.surplus[at] for at in spins.waiting) >= len(spins.waiting)


def _waiting_part(spins: _Spins, index: int) -> float:
    """Return the part of a rank's spin that is a wait for the rank that spins least."""
    wait = min(spins.surplus[index], spins.typical) - 0.25 * _TOLERANCE
    return min(1.0, wait / max(spins.whole[index], 1e-9)) if index in spins.waiting else 0.0


def _cycle_wait(rank: _Rank, part: float, levels: Mapping[str, float]) -> float:
    """Return the wait of one cycle, signed: its part of the spin, or all busy time of a cycle without any work."""
    spin, busy = _estimate_spin(rank.now, levels), rank.now["busy"]
    return busy if part and spin >= (1.0 - _TOLERANCE) * busy > 1.0 - 2 * _TOLERANCE else part * spin


def _trails(ranks: Sequence[_Rank], spins: _Spins, index: int, limits: Limits) -> bool:
    """Return whether another rank worked longer, or ranks that hardly spin take turns as stages of a pipeline do."""
    work = [rank.mean("busy") - max(0.0, spin) for rank, spin in zip(ranks, spins.whole, strict=True)]
    idle, led = 1.0 - ranks[index].mean("busy"), ranks[index].sums.led / ranks[index].sums.seconds
    turns = led >= max(_LONG_TURNS, _COVERED * idle) and max(spins.whole) < _SHORT_WAIT
    return turns or max(work) - work[index] >= max(limits[PRESSURE_FLOOR], limits[WAIT_COVER] * idle)
