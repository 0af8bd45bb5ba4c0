"""The library of shapes: kinds of work with known truth, each a maker that takes a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tests.truth.work import JOB, NEIGHBOUR, Segment, Slice, Work

STEPS = (0.35, 0.7, 1.3, 2.6, 5.3, 10.0, 37.0)
_MOVE, _GAP = 0.03, 0.01
"""Parts of a step: the all-reduce itself, and Python between two steps."""
_SAVED_SECONDS, _EVALUATED_SECONDS, _EVERY = 8.0, 9.0, 30
"""Of a checkpoint, of an evaluation, and steps from one to the next."""

Maker = Callable[[random.Random], Work]
CAUSES = ("storage", "cpu", "work", "clock", "gaps", "network")


def data_parallel(  # noqa: PLR0913 - each is one fact of the job
    rng: random.Random,
    *,
    work: Work,
    step: float,
    part: float,
    cause: str = "storage",
    in_turn: bool = False,
    pieces: int = 1,
    barrier: bool = False,
    ragged: float = 0.006,
    beside: Callable[[int], tuple[float, str, str, str] | None] = lambda _: None,
) -> Work:
    """Each step ends in a collective that waits for the last rank; the late ones need `part` of the step longer.

    `beside` returns what the first rank does before step `number` alone: seconds, GPU, state and program.
    """
    work = replace(work, seconds=max(work.seconds, work.warm_up + 6 * step), timelines=[], waited_for={})
    clock, number = 0.0, 0
    while clock < work.seconds + 2.0:
        whole = step * rng.gauss(1.0, 0.02)
        slow = {rng.randrange(work.ranks)} if in_turn else work.late
        lengths: list[float] = []
        for rank in range(work.ranks):
            before = work.length(rank) if number == 0 else clock
            begin = len(work.timelines[rank])
            own = whole * (1.0 - part - _MOVE - _GAP) * rng.lognormvariate(0.0, ragged)
            extra = beside(number)
            if extra and rank == 0:
                work.add(rank, *extra)
            work.add(rank, whole * _GAP, "idle")
            _compute(work, rank, own, whole * part if rank in slow and not extra else 0.0, cause, pieces)
            lengths.append(before - clock + sum([each.seconds for each in work.timelines[rank][begin:]]))
        last = max(lengths)
        _count_waits(work, lengths, clock)
        for rank, length in enumerate(lengths):
            if barrier:
                work.add(rank, last - length + whole * _MOVE, "idle", "wait_peer", "barrier")
            else:
                work.add(rank, last - length, "spin")
                work.add(rank, whole * _MOVE, "move")
        clock += last + whole * _MOVE
        number += 1
    return work


def _count_waits(work: Work, lengths: Sequence[float], begin: float) -> None:
    """Count for each rank what the others waited until it came, on the average, after the warm-up."""
    for rank, own in enumerate(lengths):
        end = min(work.seconds, begin + own)
        waits = [max(0.0, end - max(work.warm_up, begin + length)) for length in lengths]
        work.waited_for[rank] = work.waited_for.get(rank, 0.0) + sum(waits) / max(1, len(lengths) - 1)


def _compute(work: Work, rank: int, own: float, lag: float, cause: str, pieces: int) -> None:
    waits = {"storage": ("wait_storage", "disk"), "cpu": ("wait_cpu", "cpu"), "network": ("wait_network", "download")}
    if lag and cause == "clock":
        work.add(rank, own + lag, "work", clock=own / (own + lag))
    elif lag and cause == "work":
        work.add(rank, own + lag, "work")
    elif lag and cause == "gaps":
        for _ in range(40):
            work.add(rank, lag / 40, "idle", "wait_cpu", "cpu")
            work.add(rank, own / 40, "work", program="cpu")
    else:
        for _ in range(pieces):
            work.add(rank, lag / pieces, "idle", *waits.get(cause, ("", "")))
            work.add(rank, own / pieces, "work")


def pipeline(rng: random.Random, *, work: Work, step: float, heavy: int | None = None, blocking: bool = False) -> Work:
    """Forward passes of eight micro-batches, then backward; a stage without input waits in its receive."""
    work = replace(work, timelines=[])
    unit = step / (3 * (7 + work.ranks))
    clocks, clock = [0.0] * work.ranks, 0.0
    wait = ("idle", "wait_peer", "barrier") if blocking else ("spin", "", "")
    while clock < work.seconds + 2.0:
        for length, stages in ((unit, range(work.ranks)), (2 * unit, range(work.ranks - 1, -1, -1))):
            ready = [0.0] * 8
            for stage in stages:
                for batch in range(8):
                    work.add(stage, ready[batch] - clocks[stage], *wait)
                    clocks[stage] = max(clocks[stage], ready[batch])
                    took = length * (1.4 if stage == heavy else 1.0) * rng.gauss(1.0, 0.01)
                    work.add(stage, took, "work")
                    clocks[stage] = ready[batch] = clocks[stage] + took
        clock = max(clocks)
        for stage in range(work.ranks):
            work.add(stage, clock - clocks[stage], *wait)
            clocks[stage] = clock
    return work


def independent(rng: random.Random, *, work: Work, kinds: tuple[str, ...], duty: tuple[float, float]) -> Work:
    """No rank waits for another."""
    work = replace(work, timelines=[])
    for rank in range(work.ranks):
        busy = rng.uniform(*duty)
        while work.length(rank) < work.seconds + 2.0:
            period = rng.uniform(0.5, 1.5)
            work.add(rank, period * busy, kinds[rank % len(kinds)])
            work.add(rank, period * (1.0 - busy), "idle")
    return work


def server(rng: random.Random, *, work: Work, spins: bool = False, state: str = "wait_requests") -> Work:
    """Tensor parallel: all ranks run a burst together; in between they poll, or spin until the first has a request."""
    work = replace(work, timelines=[])
    while work.length(0) < work.seconds + 2.0:
        gap, burst = rng.expovariate(0.25), rng.uniform(0.3, 2.0)
        for rank in range(work.ranks):
            work.add(rank, gap, "spin" if spins and rank else "idle", state, "poll")
            work.add(rank, burst, "decode")
    return work


def sequence(_: random.Random, *, work: Work, parts: tuple[Segment, ...]) -> Work:
    """The same on all ranks, one after the other; the last goes on to the end."""
    work = replace(work, timelines=[])
    for rank in range(work.ranks):
        for each in parts:
            work.add(rank, *each[:5])
        work.add(rank, work.seconds + 2.0 - work.length(rank), *parts[-1][1:5])
    return work


def heat(_: random.Random, *, work: Work, parts: tuple[float, float]) -> Work:
    """The clock runs free, and then at half of that, because the GPU is hot."""
    work = replace(work, timelines=[])
    while work.length(0) < work.seconds + 2.0:
        work.add(0, parts[0], "work")
        work.add(0, parts[1], "work", clock=0.5)
    return work


def hang(rng: random.Random, *, work: Work, before: str, seconds: float = 60.0) -> Work:
    """The ranks work for a while, and then all spin in a collective that never ends."""
    work = replace(work, timelines=[])
    for rank in range(work.ranks):
        work.add(rank, seconds * rng.gauss(1.0, 0.001), before)
        work.add(rank, work.seconds + 5.0 - work.length(rank), "spin")
    return work


def sharing(rng: random.Random, *, work: Work) -> Work:
    """The owners of a GPU run their kernels in turns."""
    work = replace(work, timelines=[])
    for rank in range(work.ranks):
        while work.length(rank) < work.seconds + 2.0:
            for runner in range(len(work.slices)):
                work.add(rank, rng.uniform(0.002, 0.02) * 20, "work")
                work.timelines[rank][-1] = work.timelines[rank][-1]._replace(runner=runner)
    return work


def shapes() -> Iterator[tuple[str, Maker]]:
    """Yield the group and the maker of each shape."""
    yield from _lateness()
    yield from _without_lateness()
    yield from _beside()
    yield from _other_parallelism()
    yield from _phases()
    yield from _hangs()


def _late(ranks: int, *late: int, **facts: object) -> Work:
    return replace(Work("", ranks, frozenset(late)), **facts)  # type: ignore[arg-type] # fields of a work


def _lateness() -> Iterator[tuple[str, Maker]]:
    for step in STEPS:
        for part in (0.05, 0.1, 0.2, 0.4, 0.75):
            yield "2 ranks, storage", partial(data_parallel, work=_late(2, 0), step=step, part=part)
        for cause in CAUSES:
            yield f"8 ranks, {cause}", partial(data_parallel, work=_late(8, 5), step=step, part=0.2, cause=cause)
        yield "4 ranks, cpu", partial(data_parallel, work=_late(4, 2, kind="vision"), step=step, part=0.2, cause="cpu")
        yield "16 ranks, storage", partial(data_parallel, work=_late(16, 7), step=step, part=0.4)
        yield (
            "16 ranks, more work",
            partial(data_parallel, work=_late(16, 3, kind="fp32"), step=step, part=0.1, cause="work"),
        )
        yield "8 ranks, two late", partial(data_parallel, work=_late(8, 2, 6), step=step, part=0.3)
        yield "8 ranks, late in turn", partial(data_parallel, work=_late(8), step=step, part=0.3, in_turn=True)
        yield "A100, 8 ranks, storage", partial(data_parallel, work=_late(8, 4, gpm=False), step=step, part=0.2)
        yield (
            "A100, 2 ranks, more work",
            partial(data_parallel, work=_late(2, 0, gpm=False), step=step, part=0.4, cause="work"),
        )


def _without_lateness() -> Iterator[tuple[str, Maker]]:
    for step in STEPS:
        for ranks in (2, 8, 16):
            yield "none late", partial(data_parallel, work=_late(ranks), step=step, part=0.0)
        yield "A100, none late", partial(data_parallel, work=_late(8, gpm=False), step=step, part=0.0)
        yield "ragged", partial(data_parallel, work=_late(4), step=step, part=0.0, ragged=0.25)


def _beside() -> Iterator[tuple[str, Maker]]:
    evaluation = (_EVALUATED_SECONDS, "eval", "", "")
    checkpoint = (_SAVED_SECONDS, "idle", "wait_checkpoint", "save")
    for name, extra in (("evaluation on rank 0", evaluation), ("checkpoint on rank 0", checkpoint)):
        for step in (0.7, 1.3):
            yield (
                name,
                partial(
                    data_parallel,
                    work=_late(8, 0),
                    step=step,
                    part=0.0,
                    beside=lambda number, extra=extra: extra if number % _EVERY == _EVERY - 1 else None,
                ),
            )
    for step in (1.3, 5.3, 37.0):
        yield "accumulation", partial(data_parallel, work=_late(4, 1), step=step, part=0.2, pieces=8)
        yield "gloo barrier", partial(data_parallel, work=_late(4, 0), step=step, part=0.4, barrier=True)


def _other_parallelism() -> Iterator[tuple[str, Maker]]:
    for step in (1.0, 3.0, 10.0):
        yield "pipeline", partial(pipeline, work=_late(4), step=step)
        yield "pipeline, a heavy stage", partial(pipeline, work=_late(4, 2), step=step, heavy=2)
        yield "pipeline over gloo", partial(pipeline, work=_late(4), step=step, blocking=True)
    service = _late(4, work_class="service")
    yield "tensor parallel server", partial(server, work=service)
    yield "tensor parallel server that spins", partial(server, work=replace(service, ranks=2, timelines=[]), spins=True)
    yield "polling server", partial(server, work=replace(service, ranks=1, timelines=[]))
    kinds, work = ("work", "eval", "decode"), _late(8, linked=False, launcher=False)
    yield "independent runs", partial(independent, work=work, kinds=kinds, duty=(0.6, 1.0))
    yield "sweep of model sizes", partial(independent, work=work, kinds=("work", "light", "half"), duty=(0.97, 1.0))
    yield "smaller batches on some", partial(independent, work=_late(8), kinds=("work", "half"), duty=(0.98, 1.0))
    yield (
        "A100, smaller batches",
        partial(independent, work=_late(8, gpm=False), kinds=("work", "half"), duty=(0.98, 1.0)),
    )
    halves = (Slice(JOB, 0.5), Slice(NEIGHBOUR, 0.5, 1))
    yield "time slicing", partial(sharing, work=_late(2, slices=halves))
    yield "MPS, one owner", partial(sharing, work=_late(1, slices=(Slice(JOB, 0.5), Slice(JOB, 0.5, 1))))
    yield "MIG", partial(independent, work=_late(3, instances=True), kinds=("work", "half"), duty=(0.5, 0.9))


def _phases() -> Iterator[tuple[str, Maker]]:
    train = Segment(60.0, "work", "")
    session = _late(1, warm_up=0.0, work_class="interactive")
    yield (
        "compile before the first kernel",
        partial(sequence, work=_late(1, warm_up=0.0), parts=(Segment(90.0, "idle", "wait_cpu", "cpu"), train)),
    )
    yield (
        "download before the first kernel",
        partial(sequence, work=_late(1, warm_up=0.0), parts=(Segment(90.0, "idle", "wait_network", "download"), train)),
    )
    yield (
        "notebook",
        partial(
            sequence,
            work=session,
            parts=(
                Segment(20.0, "work", ""),
                Segment(80.0, "idle", "wait_user"),
                train,
                Segment(1.0, "idle", "wait_user"),
            ),
        ),
    )
    for work_seconds, hot_seconds in ((0.9, 0.1), (9.0, 1.0), (0.3, 0.7)):
        yield "one GPU, heat", partial(heat, work=_late(1), parts=(work_seconds, hot_seconds))
    for step in (1.3, 5.3):
        yield "one GPU, storage", partial(data_parallel, work=_late(1, 0), step=step, part=0.4)


def _hangs() -> Iterator[tuple[str, Maker]]:
    for ranks, gpm in ((8, True), (2, True), (8, False)):
        work = _late(ranks, warm_up=0.0, seconds=600.0, gpm=gpm)
        name = "" if gpm else "A100, "
        yield f"{name}hang at start", partial(hang, work=work, before="idle", seconds=3.0)
        yield f"{name}hang after light work", partial(hang, work=work, before="light", seconds=30.0)
        yield f"{name}hang after heavy work", partial(hang, work=work, before="work", seconds=120.0)
        yield f"{name}tiny kernels", partial(sequence, work=work, parts=(Segment(10.0, "tiny", "low_sm_activity"),))
