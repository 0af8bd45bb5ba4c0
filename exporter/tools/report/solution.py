"""What a program got done, how long to its end, and how its runs compare. Nothing here is rounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

JOULES_PER_KWH = 3.6e6
WORK = ("samples", "tokens", "images", "requests", "steps")
"""What programs count; the first that all runs tell is what they are compared by."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the program itself reports; None where it does not."""

    steps: float | None = None
    samples: float | None = None
    images: float | None = None
    tokens: float | None = None
    requests: float | None = None
    ratio: float | None = None
    remaining_seconds: float | None = None
    time_to_target_seconds: float | None = None
    """From the program's start until it reached its target quality."""
    first_kernel_seconds: float | None = None
    model_flops_utilization: float | None = None
    model_flops_utilization_bound: float | None = None
    """At most so much, by tensor activity and clock: of a program that does not report its operations."""

    @property
    def counted(self) -> Mapping[str, float]:
        found = ((name, getattr(self, name)) for name in WORK)
        return {name: value for name, value in found if value is not None}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of one counter; None where the time, the GPUs or their energy are not known."""

    total: float
    per_second: float | None
    per_gpu_hour: float | None
    per_kwh: float | None


def throughput(total: float, seconds: float, gpu_hours: float, joules: float | None) -> Throughput:
    return Throughput(
        total,
        total / seconds if seconds > 0 else None,
        total / gpu_hours if gpu_hours > 0 else None,
        total / joules * JOULES_PER_KWH if joules else None,
    )


@dataclass(frozen=True, slots=True)
class ToEnd:
    """What is still to come, energy and cost at their mean pace so far."""

    seconds: float
    joules: float | None
    cost: float | None


def to_end(progress: Progress, seconds: float, joules: float | None, cost: float | None) -> ToEnd | None:
    """By the program's own word, else at the pace of the `seconds` so far; None where it reports neither."""
    left = progress.remaining_seconds
    if left is None and progress.ratio:
        left = max(0.0, seconds / progress.ratio - seconds)
    if not left or seconds <= 0:
        return None
    part = left / seconds
    return ToEnd(left, None if joules is None else joules * part, None if cost is None else cost * part)


@dataclass(frozen=True, slots=True)
class Run:
    """One workload of a name. Of several it is their median, which has no workload and no start."""

    workload: str
    start: float | None
    gpus: float
    gpu_hours: float
    per_gpu_hour: float
    """Of the work that is compared."""
    per_kwh: float | None = None
    joules: float | None = None
    time_to_target_seconds: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it held its GPUs."""
        return self.gpu_hours * 3600 / self.gpus if self.gpus > 0 else None


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of the same name and user that report the same kind of work, oldest first; `this` is one of them."""

    name: str
    user: str
    work: str
    this: Run
    runs: tuple[Run, ...]
    changed_at: float | None = None
    """Unix time of a change; what began from then on has it."""

    @property
    def best(self) -> Run:
        """The one that reached its target first, where runs tell; else the one that got most out of a GPU hour."""
        reached = [run for run in self.runs if run.time_to_target_seconds is not None]
        if len(reached) > 1:
            return min(reached, key=lambda run: run.time_to_target_seconds or 0.0)
        return max(self.runs, key=lambda run: run.per_gpu_hour)

    @property
    def before(self) -> tuple[Run, ...]:
        """Of the change; where none is named, of this run."""
        change = self.changed_at if self.changed_at is not None else self.this.start
        return tuple(run for run in self.runs if change is not None and run.start is not None and run.start < change)

    @property
    def after(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run not in self.before) if self.changed_at is not None else ()


def middle(runs: Sequence[Run]) -> Run | None:
    """The median of each number, over the runs that tell it."""
    if not runs:
        return None
    return Run(
        workload="",
        start=None,
        gpus=median(run.gpus for run in runs),
        gpu_hours=median(run.gpu_hours for run in runs),
        per_gpu_hour=median(run.per_gpu_hour for run in runs),
        per_kwh=_median(run.per_kwh for run in runs),
        joules=_median(run.joules for run in runs),
        time_to_target_seconds=_median(run.time_to_target_seconds for run in runs),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
