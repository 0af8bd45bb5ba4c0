"""Ranks of one job that meet at the end of each step, with the time that each truly worked, waited and spun."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.attribution.owner import Owner, Target
from exporter.core.clock import UnixTime
from exporter.core.units import BytesPerSecond
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES
from exporter.ledger.states.state import Signals

JOB = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
WARM_UP = 60.0
"""Seconds before anything is counted."""

Segment = tuple[float, str]
"""Seconds, and what the rank does: `work`, `half` (smaller batches), `spin`, `move`, `idle` or `late` (D state)."""
Levels = Mapping[str, tuple[float, ...]]
"""Per activity: busy, SM, tensor, vector, DRAM, memory, link, power over the limit."""


@dataclass(frozen=True)
class Signature:
    """The activity of one kind of GPU at work and in a spin."""

    spin_sm: float = 0.11
    spin_tensor: float = 0.0
    spin_memory: float = 0.01
    apart: float = 0.01
    """Standard deviation of the activity of the same work between GPUs."""
    noise: float = 0.02

    def levels(self, rng: random.Random) -> Levels:
        work = (1.0, 0.88, 0.5, 0.06, 0.31, 0.42, 0.02, 0.88)
        own = [rng.gauss(1.0, self.apart) for _ in work]
        own[0] = 1.0
        return {
            "work": tuple(level * factor for level, factor in zip(work, own, strict=True)),
            "half": (1.0, 0.84, 0.27, 0.04, 0.2, 0.27, 0.02, 0.7),
            "spin": (1.0, self.spin_sm, self.spin_tensor, 0.0, self.spin_memory / 2, self.spin_memory, 0.0, 0.24),
            "move": (1.0, self.spin_sm, 0.0, 0.0, 0.1, 0.25, 0.4, 0.35),
            "idle": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.13),
            "late": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.13),
        }


@dataclass
class Found:
    """Seconds after the warm-up by rank: truth, and what the ledger said."""

    seconds: float
    truth: Sequence[Mapping[str, float]]
    states: Sequence[Mapping[str, float]]
    straggling: Sequence[float]
    ledger: Ledger = field(repr=False)

    def share(self, rank: int, state: str) -> float:
        return self.states[rank].get(state, 0.0) / self.seconds

    def mean(self, state: str, ranks: Sequence[int]) -> float:
        return sum(self.share(rank, state) for rank in ranks) / len(ranks)

    def true(self, rank: int, activity: str) -> float:
        return self.truth[rank].get(activity, 0.0) / self.seconds


Steps = Iterator[Sequence[Sequence[Segment]]]


def late_steps(ranks: int, step: float, part: float, rng: random.Random, *, late: int = 0, how: str = "late") -> Steps:
    """One rank waits for storage (`late`) or does more (`work`) for a part of each step; `random`: in turn."""
    while True:
        whole = step * rng.gauss(1.0, 0.02)
        slow = rng.randrange(ranks) if how == "random" else late
        works = [whole * (0.98 - part) * rng.gauss(1.0, 0.006) for _ in range(ranks)]
        lags = [whole * part if rank == slow else 0.0 for rank in range(ranks)]
        last = max(work + lag for work, lag in zip(works, lags, strict=True))
        kind = "work" if how == "work" else "late"
        yield [
            [
                (whole * 0.005, "idle"),
                (lag, kind),
                (work, "work"),
                (last - work - lag, "spin"),
                (whole * 0.015, "move"),
            ]
            for work, lag in zip(works, lags, strict=True)
        ]


def independent_steps(kinds: Sequence[str], busy: Sequence[float]) -> Steps:
    """Runs that never wait for one another."""
    while True:
        yield [[(part, kind), (1.0 - part, "idle")] for kind, part in zip(kinds, busy, strict=True)]


def _cycles(
    steps: Steps, levels: Sequence[Levels], seconds: float, rng: random.Random
) -> Iterator[tuple[float, list[tuple[list[float], dict[str, float], bool]]]]:
    """Yield each cycle of about a second: per rank its mean levels, its true seconds, and D state at its end."""
    queues: list[list[Segment]] = [[] for _ in levels]
    clock = 0.0
    while clock < seconds:
        span = rng.uniform(0.98, 1.02)
        found: list[tuple[list[float], dict[str, float], bool]] = []
        for rank, queue in enumerate(queues):
            sums, truth, left, kind = [0.0] * 8, dict[str, float](), span, "idle"
            while left > 1e-9:
                if not queue:
                    for each, more in zip(queues, next(steps), strict=True):
                        each.extend(more)
                length, kind = queue[0]
                taken = min(length, left)
                if taken >= length:
                    queue.pop(0)
                else:
                    queue[0] = (length - taken, kind)
                left -= taken
                truth[kind] = truth.get(kind, 0.0) + taken
                for unit, level in enumerate(levels[rank][kind]):
                    sums[unit] += level * taken / span
            found.append((sums, truth, kind == "late"))
        clock += span
        yield span, found


def play(  # noqa: PLR0913 - each is one fact of the job
    steps: Steps,
    ranks: int,
    rng: random.Random,
    *,
    seconds: float = 260.0,
    signature: Signature | None = None,
    gpm: bool = True,
    launcher: bool = True,
    seen: Callable[[Signals, int], Signals] = lambda signals, _: signals,
    each: Callable[[Ledger], None] = lambda _: None,
) -> Found:
    """Run the ledger over the job; `seen` changes what a rank's GPU reports, `each` gets the ledger of each cycle."""
    signature = signature or Signature()
    ledger, before, clock = Ledger(), Ledger(), 0.0
    counted, truth = 0.0, [dict[str, float]() for _ in range(ranks)]
    table = [signature.levels(rng) for _ in range(ranks)]
    launchers = {100 + rank: 50 for rank in range(ranks)} if launcher else {}
    for span, cycle in _cycles(steps, table, seconds, rng):
        readings: list[Reading] = []
        processes: dict[int, ProcessSignals] = {}
        for rank, (sums, true, blocked) in enumerate(cycle):
            signals = seen(_signals(sums, signature.noise, rng, gpm=gpm), rank)
            readings.append(Reading(Target(f"GPU-{rank}", rank, ""), signals, (Allocation(JOB, pids=(100 + rank,)),)))
            processes[100 + rank] = ProcessSignals(
                0.05, float(blocked), receiving=0.0, polling=False, read_bytes_per_second=BytesPerSecond(1e6)
            )
            if clock >= WARM_UP:
                for kind, part in true.items():
                    truth[rank][kind] = truth[rank].get(kind, 0.0) + part
        counted += span if clock >= WARM_UP else 0.0
        clock += span
        hosts = {JOB: HostSignals(processes=processes, launchers=launchers)}
        current = LedgerInput(time=UnixTime(clock), seconds=span, readings=tuple(readings), hosts=hosts)
        ledger = advance_ledger(ledger, current)
        each(ledger)
        before = ledger if clock < WARM_UP or not counted else before
    return _found(before, ledger, counted, truth)


def _signals(sums: Sequence[float], noise: float, rng: random.Random, *, gpm: bool) -> Signals:
    busy, sm, tensor, vector, dram, memory, link, power = [
        sums[0],
        *(min(1.0, max(0.0, level * rng.gauss(1.0, noise))) for level in sums[1:]),
    ]
    known = Signals(busy=min(1.0, busy), memory_activity=memory, power_of_limit=power)
    if not gpm:
        return known
    return replace(
        known, sm_active=sm, tensor_active=tensor, vector_active=vector, dram_active=dram, link_activity=link
    )


def _found(before: Ledger, after: Ledger, seconds: float, truth: Sequence[Mapping[str, float]]) -> Found:
    states: list[Mapping[str, float]] = []
    straggling: list[float] = []
    for rank in range(len(truth)):
        uuid = f"GPU-{rank}"
        rows = zip(STATES, before.targets[uuid].seconds, after.targets[uuid].seconds, strict=True)
        states.append({state: new - old for state, old, new in rows if new - old > 0})
        old, new = (each.owners[JOB].past[uuid].straggling_seconds for each in (before, after))
        straggling.append(new - old)
    return Found(seconds, truth, states, straggling, after)
