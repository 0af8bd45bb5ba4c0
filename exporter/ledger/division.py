"""How one pass of one target divides into states, for the target and for each of its holders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.host.model import HostSignals
from exporter.ledger.account import ZERO, Holding, Reading, Seconds
from exporter.ledger.evidence import NO_HOST, Evidence
from exporter.ledger.states import BUSY, INDEX, WAITING, Claim
from exporter.ledger.thresholds import Thresholds

UNOBSERVED, FREE, HELD_IDLE = INDEX["unobserved"], INDEX["free"], INDEX["held_idle"]
WORKING, WAIT_OTHER = INDEX["busy"], INDEX["wait_other"]

StateShares = Sequence[tuple[int, float]]
"""(state, part) pairs."""


class OwnerShare(NamedTuple):
    """One holder's part of one target, as shares of the pass; `state_shares` sum to its share."""

    owner: Owner
    state_shares: StateShares
    demand: float
    """Busy time it caused; more than its share where it ran in the time of others."""
    energy: float
    """Its part of the target's energy."""


class Division(NamedTuple):
    """One target in one pass; `states` sums to 1."""

    states: Seconds
    owner_shares: tuple[OwnerShare, ...] = ()
    busy: float | None = None
    """None: not known."""


def demands(busy: float, holdings: Sequence[Holding]) -> tuple[float, ...]:
    """The busy time each holder caused: by its processes' SM utilization, else by share among those with processes."""
    weights = [holding.utilization or 0.0 for holding in holdings]
    if not sum(weights):
        weights = [holding.share if holding.pids else 0.0 for holding in holdings]
    if not sum(weights):  # it ran and is gone, or its pid is not known
        weights = [holding.share for holding in holdings]
    total = sum(weights)
    return tuple(busy * weight / total if total else 0.0 for weight in weights)


def divide(
    reading: Reading,
    wants: Sequence[float],
    hosts: Mapping[Owner, HostSignals],
    peers: Mapping[Owner, float],
    limits: Thresholds,
) -> Division:
    """The division of one target. `wants`: its holders' demands; `peers`: how busy each one's busiest other target is.

    The target's own row follows the driver exactly. An owner's row is bounded by its share: what it runs in the time
    of others shows on the GPU as busy, and leaves them as waiting as they were.
    """
    signals = reading.signals
    if signals is None:
        return unobserved(reading)
    if signals.busy is None:
        return _blind(reading)
    busy = min(1.0, max(0.0, signals.busy))
    seen = Evidence(signals, busy)
    working = _claims(BUSY, seen, limits) if busy else ()
    parts: list[OwnerShare] = []
    waits: list[tuple[int, float]] = []
    free = 1.0
    for holding, demand in zip(reading.holdings, wants, strict=True):
        own = min(demand, holding.share)
        waiting = _waiting(holding, own, seen, hosts, peers, limits)
        waits.extend(waiting)
        state_shares = [*[(state, part * own) for state, part in working], *waiting] if own else waiting
        parts.append(OwnerShare(holding.owner, state_shares, demand, (1.0 - busy) * holding.share + demand))
        free -= holding.share
    waits.append((FREE, max(0.0, free)))
    return Division(_whole(working, busy, waits), tuple(parts), busy)


def unobserved(reading: Reading) -> Division:
    """Nothing is known of this pass."""
    parts = tuple(OwnerShare(each.owner, ((UNOBSERVED, each.share),), 0.0, each.share) for each in reading.holdings)
    return Division((*ZERO[:UNOBSERVED], 1.0, *ZERO[UNOBSERVED + 1 :]), parts)


def gather(parts: Sequence[tuple[float, Division]]) -> Seconds:
    """A GPU's row from those of its instances, each with its share of the GPU; what no instance has is free."""
    total = max(1.0, sum(share for share, _ in parts))
    states = list(ZERO)
    for share, division in parts:
        for index, part in enumerate(division.states):
            states[index] += part * share / total
    states[FREE] += max(0.0, 1.0 - sum(states))
    return tuple(states)


def _blind(reading: Reading) -> Division:
    """It answers, but not whether it is busy (MIG before Hopper): who holds it is still known."""
    states = list(ZERO)
    parts: list[OwnerShare] = []
    for holding in reading.holdings:
        state = UNOBSERVED if holding.pids else HELD_IDLE
        states[state] += holding.share
        parts.append(OwnerShare(holding.owner, ((state, holding.share),), 0.0, holding.share))
    states[FREE] += max(0.0, 1.0 - sum(states))
    return Division(tuple(states), tuple(parts))


def _waiting(
    holding: Holding,
    own: float,
    seen: Evidence,
    hosts: Mapping[Owner, HostSignals],
    peers: Mapping[Owner, float],
    limits: Thresholds,
) -> StateShares:
    idle = holding.share - own
    if idle <= 0:
        return ()
    if not holding.pids:
        return ((HELD_IDLE, idle),)
    host = hosts.get(holding.owner, NO_HOST)
    hottest, blocked = _own_processes(holding, host)
    evidence = Evidence(
        seen.signals,
        seen.busy,
        wait=idle / holding.share,
        host=host,
        hottest_thread=hottest,
        blocked=blocked,
        peer_lead=max(0.0, peers.get(holding.owner, 0.0) - own / holding.share),
    )
    return [(state, part * idle) for state, part in _claims(WAITING, evidence, limits)]


def _own_processes(holding: Holding, host: HostSignals) -> tuple[float | None, float | None]:
    """Hottest thread and share of blocked processes, of this target's processes where they were looked at."""
    looked_at = [host.processes[pid] for pid in holding.pids if pid in host.processes] if host.processes else ()
    if not looked_at:
        return host.hottest_thread, host.blocked_threads
    threads = [each.hottest_thread for each in looked_at if each.hottest_thread is not None]
    blocked = [float(each.blocked) for each in looked_at if each.blocked is not None]
    return max(threads, default=None), sum(blocked) / len(blocked) if blocked else None


def _claims(rules: Sequence[tuple[int, Claim]], evidence: Evidence, limits: Thresholds) -> StateShares:
    """Each rule in order takes its part of what is left; the last takes all of it, so the parts sum to 1."""
    state_shares: list[tuple[int, float]] = []
    left = 1.0
    for state, claim in rules:
        part = min(left, claim(evidence, limits))
        if part > 0:
            state_shares.append((state, part))
            left -= part
        if left <= 0:
            break
    return state_shares


def _whole(working: StateShares, busy: float, waits: StateShares) -> Seconds:
    """The target's row: what ran, and the rest in proportion to its holders' waiting and its free part."""
    states = list(ZERO)
    for state, part in working:
        states[state] += part * busy
    idle = sum(part for _, part in waits)
    scale = (1.0 - busy) / idle if idle > 0 else 0.0
    for state, part in waits:
        states[state] += part * scale
    return tuple(states)
