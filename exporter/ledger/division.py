"""Division of one cycle of one target into states, for the target and for each of its owners.

In two steps: first what the busy time was, for all targets; then, knowing which of an owner's targets computed and
which only spun, why the others waited.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, ProcessSignals, ThreadLoad, busiest
from exporter.ledger.account import ZERO, Allocation, Reading, Seconds
from exporter.ledger.states import INDEX, OF_BUSY_TIME, OF_WAITING_TIME
from exporter.ledger.states.activity import SM_LOW, SPIN_BUSY
from exporter.ledger.states.host_waits import BLOCKED
from exporter.ledger.states.state import Claim, Evidence, Limits, Signals, at_least

UNOBSERVED, FREE, ALLOCATED_IDLE = INDEX["unobserved"], INDEX["free"], INDEX["allocated_idle"]
SPINNING, COMPUTING, WAIT_OTHER = INDEX["wait_collective"], INDEX["computing"], INDEX["wait_other"]
LOW_SM_ACTIVITY = INDEX["low_sm_activity"]

_WAITS_FOR = {"service": INDEX["wait_requests"], "interactive": INDEX["wait_user"]}
"""Waiting state of each class of work."""

StateFractions = Sequence[tuple[int, float]]
"""(state, part) pairs."""


class OwnerUsage(NamedTuple):
    """One owner's part of one target, as fractions of the cycle; `state_fractions` sum to its allocated fraction."""

    owner: Owner
    state_fractions: StateFractions
    demand: float
    """Busy time it caused; more than its allocation where it ran in the time of others."""
    energy: float
    """Its part of the target's energy."""
    blocked: bool = False
    """A process of it here was in D state."""
    stopped: bool = False
    """All its processes here are stopped."""
    receiving: bool = False
    """Its processes here sat in a receive."""


class Division(NamedTuple):
    """One target in one cycle; `states` sums to 1."""

    states: Seconds
    owner_usages: tuple[OwnerUsage, ...] = ()
    busy: float | None = None
    """None: not known."""


class BusyTime(NamedTuple):
    """The busy time of one target, before anything is known of the others."""

    busy: float | None
    demands: tuple[float, ...] = ()
    """Busy time each owner caused."""
    states: StateFractions = ()
    """States of the busy time; parts that sum to 1."""


NO_EVIDENCE = Evidence(Signals(), 0.0)
"""Evidence of an owner before anything of the target is known."""


def split_busy(busy: float, allocations: Sequence[Allocation]) -> tuple[float, ...]:
    """Return the busy time each owner caused: by its processes' SM utilization, else by fraction with processes."""
    weights = [allocation.utilization or 0.0 for allocation in allocations]
    if not sum(weights):
        weights = [allocation.share if allocation.pids else 0.0 for allocation in allocations]
    if not sum(weights):  # it ran and is gone, or its pid is not known
        weights = [allocation.share for allocation in allocations]
    total = sum(weights)
    return tuple(busy * (weight / total) if total else 0.0 for weight in weights)


def find_runner(reading: Reading, limits: Limits) -> Allocation | None:
    """Return the allocation that ran, where only one did; who just sits on the GPU does not count."""
    busy = reading.signals.busy if reading.signals else None
    if not busy:
        return None
    each = zip(reading.allocations, split_busy(busy, reading.allocations), strict=True)
    return next((allocation for allocation, demand in each if demand >= limits[SPIN_BUSY] * busy), None)


def busy_time(reading: Reading, side: Evidence, clock_lost: float | None, limits: Limits) -> BusyTime:
    """Return the busy time of one target by state. `side` is its `find_runner`'s, without which spinning is unknown."""
    signals = reading.signals
    if signals is None or signals.busy is None:
        return BusyTime(None)
    busy = min(1.0, max(0.0, signals.busy))
    seen = side._replace(signals=signals, busy=busy, clock_lost=clock_lost)
    return BusyTime(busy, split_busy(busy, reading.allocations), _busy_states(seen, limits) if busy else ())


def divide(reading: Reading, done: BusyTime, sides: Sequence[Evidence], limits: Limits) -> Division:
    """The division of one target; `sides` are those of its allocations, in their order.

    The target's own row follows the driver exactly. An owner's row is bounded by its fraction: what it runs in the time
    of others shows on the GPU as busy, and leaves them as waiting as they were.
    """
    if reading.signals is None:
        return unobserved_division(reading)
    if done.busy is None:
        return _divide_unknown(reading)
    busy, seen = done.busy, Evidence(reading.signals, done.busy)
    parts: list[OwnerUsage] = []
    waits: list[tuple[int, float]] = []
    unused = 1.0 - sum(min(demand, each.share) for each, demand in zip(reading.allocations, done.demands, strict=True))
    alone = min(1.0, (1.0 - busy) / unused) if unused > 0 else 1.0
    """Fraction in which nothing ran, of the time that owners do not use or that is free."""
    free = 1.0
    for allocation, demand, side in zip(reading.allocations, done.demands, sides, strict=True):
        own = min(demand, allocation.share)
        waiting = _waiting_states(allocation, own, seen, side, alone, limits)
        waits.extend(waiting)
        state_fractions = [*[(state, part * own) for state, part in done.states], *waiting] if own else waiting
        energy = (1.0 - busy) * allocation.share + demand
        watched = [side.host.processes[pid] for pid in allocation.pids if pid in side.host.processes]
        blocked = any(each.blocked for each in watched)
        process = own_processes(allocation, side.host)
        receiving = at_least(process.receiving, limits[BLOCKED])
        parts.append(OwnerUsage(allocation.owner, state_fractions, demand, energy, blocked, process.stopped, receiving))
        free -= allocation.share
    waits.append((FREE, max(0.0, free)))
    return Division(_target_row(done.states, busy, waits), tuple(parts), busy)


def unobserved_division(reading: Reading) -> Division:
    """Nothing is known of this cycle."""
    parts = tuple(OwnerUsage(each.owner, ((UNOBSERVED, each.share),), 0.0, each.share) for each in reading.allocations)
    return Division((*ZERO[:UNOBSERVED], 1.0, *ZERO[UNOBSERVED + 1 :]), parts)


def of_gap(reading: Reading, seconds: float, before: Collection[Owner]) -> Division:
    """Divide a cycle of so many `seconds` that nobody watched: by the driver's own count, as far as that covers it.

    The rest is unobserved, as is all of it for owners that were not there `before`.
    """
    counted = reading.counted
    if reading.signals is None or counted is None or seconds <= 0:
        return unobserved_division(reading)
    known = max(0.0, counted.seconds - counted.lost)
    covered, load = min(1.0, known / seconds), min(1.0, counted.busy / known) if known else 0.0
    busy = covered * load
    parts: list[OwnerUsage] = []
    waits: list[tuple[int, float]] = []
    for allocation, demand in zip(reading.allocations, split_busy(busy, reading.allocations), strict=True):
        ratio, waiting = allocation.share, ALLOCATED_IDLE if _has_no_process(allocation) else WAIT_OTHER
        ran = min(demand, covered * ratio)
        waits.append((waiting, ratio))
        if allocation.owner in before:
            states = (UNOBSERVED, (1.0 - covered) * ratio), (COMPUTING, ran), (waiting, covered * ratio - ran)
            parts.append(OwnerUsage(allocation.owner, states, demand, ratio))
        else:
            parts.append(OwnerUsage(allocation.owner, ((UNOBSERVED, ratio),), 0.0, ratio))
    waits.append((FREE, max(0.0, 1.0 - sum([ratio for _, ratio in waits]))))
    whole = [covered * part for part in _target_row(((COMPUTING, 1.0),), load, waits)]
    whole[UNOBSERVED] = 1.0 - covered
    return Division(tuple(whole), tuple(parts))


def sum_parts(parts: Sequence[tuple[float, Division]]) -> Seconds:
    """A GPU's row from those of its instances, each with its fraction of the GPU; what no instance has is free."""
    total = max(1.0, sum([ratio for ratio, _ in parts]))
    states = list(ZERO)
    for ratio, division in parts:
        for index, part in enumerate(division.states):
            states[index] += part * ratio / total
    states[FREE] += max(0.0, 1.0 - sum(states))
    return tuple(states)


def _divide_unknown(reading: Reading) -> Division:
    """Divide by allocation alone: the target does not report whether it is busy (MIG before Hopper)."""
    states = list(ZERO)
    parts: list[OwnerUsage] = []
    for allocation in reading.allocations:
        state = ALLOCATED_IDLE if _has_no_process(allocation) else UNOBSERVED
        states[state] += allocation.share
        parts.append(OwnerUsage(allocation.owner, ((state, allocation.share),), 0.0, allocation.share))
    states[FREE] += max(0.0, 1.0 - sum(states))
    return Division(tuple(states), tuple(parts))


def _waiting_states(
    allocation: Allocation, own: float, seen: Evidence, side: Evidence, alone: float, limits: Limits
) -> StateFractions:
    idle = allocation.share - own
    if idle <= 0:
        return ()
    if _has_no_process(allocation):
        return ((ALLOCATED_IDLE, idle),)
    own_side = own_processes(allocation, side.host)
    if own_side.stopped:  # it waits for nobody else, whatever the others of its owner are short of
        side = NO_EVIDENCE._replace(work=side.work, past=side.past, reported=side.reported)
    evidence = side._replace(
        signals=seen.signals,
        busy=seen.busy,
        wait=idle / allocation.share,
        unused_by_others=alone,
        own=own_side,
    )
    return [(state, part * idle) for state, part in _apply_rules(OF_WAITING_TIME, evidence, limits)]


def _has_no_process(allocation: Allocation) -> bool:
    return allocation.listed and not allocation.pids


def own_processes(allocation: Allocation, host: HostSignals) -> ProcessSignals:
    """This target's processes together, where they were read; else what is known of the owner's.

    But not how full its fullest thread is, where others were read: these are the hottest of many.
    """
    observed = [host.processes[pid] for pid in allocation.pids if pid in host.processes] if host.processes else []
    if len(observed) == 1:
        return observed[0]
    if not observed:
        hot = ThreadLoad() if host.processes else ThreadLoad(host.hottest_thread, host.polling)
        return ProcessSignals(hot.share, host.blocked_threads, host.receiving_threads, hot.polling)
    hot = busiest([ThreadLoad(each.hottest_thread, each.polling) for each in observed])
    main = [each.main_thread for each in observed]
    return ProcessSignals(
        hottest_thread=hot.share,
        stopped=all(each.stopped for each in observed),
        blocked=_mean_of_known([each.blocked for each in observed]),
        receiving=_mean_of_known([each.receiving for each in observed]),
        computes=any(each.computes for each in observed),
        from_peer=all(each.from_peer for each in observed if each.receiving),
        polling=hot.polling,
        read_bytes_per_second=_sum_rates([each.read_bytes_per_second for each in observed]),
        written_bytes_per_second=_sum_rates([each.written_bytes_per_second for each in observed]),
        reading_bytes_per_second=_sum_rates([each.reading_bytes_per_second for each in observed]),
        writing_bytes_per_second=_sum_rates([each.writing_bytes_per_second for each in observed]),
        main_thread=None if None in main else min(each for each in main if each is not None),
        main_writing_bytes_per_second=_sum_rates([each.main_writing_bytes_per_second for each in observed]),
        cpu=max([each.cpu for each in observed if each.cpu is not None], default=None),
    )


def _mean_of_known(numbers: Sequence[float | None]) -> float | None:
    known = [float(number) for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _sum_rates(rates: Sequence[BytesPerSecond | None]) -> BytesPerSecond | None:
    known = [rate for rate in rates if rate is not None]
    return BytesPerSecond(sum(known)) if known else None


def _apply_rules(rules: Sequence[tuple[int, Claim]], evidence: Evidence, limits: Limits) -> StateFractions:
    """Each rule in order takes its part of what is left; the last takes all of it, so the parts sum to 1."""
    state_fractions: list[tuple[int, float]] = []
    left = 1.0
    for state, claim in rules:
        claimed = claim(evidence, limits)
        if claimed <= 0:
            continue
        part = min(left, claimed)
        state_fractions.append((state, part))
        left -= part
        if left <= 0:
            break
    return state_fractions


def _busy_states(evidence: Evidence, limits: Limits) -> StateFractions:
    """Divide busy time. Where ranks were compared, what was no wait is divided by its activity over the window."""
    rank, busy = evidence.rank, evidence.busy
    if rank is None:
        return _apply_rules(OF_BUSY_TIME, evidence, limits)
    (_, spin_claim), (possible, possible_claim), *others = OF_BUSY_TIME
    state = _WAITS_FOR[evidence.work] if rank.requests else SPINNING
    spun = min(1.0, rank.requests / busy + spin_claim(evidence, limits))
    doubtful = min(1.0 - spun, possible_claim(evidence, limits))
    work = {name: part * busy for name, part in (rank.work or {}).items() if name != "busy"}
    window = evidence._replace(signals=replace(evidence.signals, **work))
    full, sm = rank.activity.computing.get("sm_active", 0.0), evidence.of_busy(window.signals.sm_active)
    worked = min(1.0, (sm or 0.0) / full) if full >= limits[SM_LOW] else None
    shares = [(state, spun), (possible, doubtful)]
    for other, part in _apply_rules(others, window, limits):
        rest = part * (1.0 - spun - doubtful)
        if other == LOW_SM_ACTIVITY and worked is not None:  # of work and of waits, as full cycles show
            shares += [(COMPUTING, worked * rest), (possible, (1.0 - worked) * rest)]
        else:
            shares.append((other, rest))
    return [(state, part) for state, part in shares if part > 0]


def _target_row(working: StateFractions, busy: float, waits: StateFractions) -> Seconds:
    """The target's row: what ran, and the rest in proportion to its owners' waiting and its free part."""
    states = list(ZERO)
    for state, part in working:
        states[state] += part * busy
    idle = sum([part for _, part in waits])
    scale = (1.0 - busy) / idle if idle > 0 else 0.0
    for state, part in waits:
        states[state] += part * scale
    return tuple(states)
