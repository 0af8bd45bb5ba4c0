"""The numbers of a report and of a program's progress, unrounded. Hours are GPU hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from exporter.tools.report.definitions import LOST, Hours, allocated, cost_of_waste

JOULES_PER_KWH = 3.6e6
WORK = ("samples", "tokens", "images", "requests", "steps")
"""Units that programs count; the first that all runs tell is what they are compared by."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress that the program itself reports; None where it does not."""

    steps: float | None = None
    samples: float | None = None
    images: float | None = None
    tokens: float | None = None
    requests: float | None = None
    ratio: float | None = None
    remaining_seconds: float | None = None
    time_to_target_seconds: float | None = None
    """Seconds from the program's start until it reached its target quality."""
    first_kernel_seconds: float | None = None
    model_flops_utilization: float | None = None
    model_flops_utilization_bound: float | None = None
    """Upper bound by tensor activity and clock, of a program that does not report its operations."""

    @property
    def counted(self) -> Mapping[str, float]:
        found = ((name, getattr(self, name)) for name in WORK)
        return {name: value for name, value in found if value is not None}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of one counter; None where the time, the GPUs or their energy are not known."""

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
class RemainingWork:
    """Work that is still to come, energy and cost at their mean pace so far."""

    seconds: float
    joules: float | None
    cost: float | None


def to_end(progress: Progress, seconds: float, joules: float | None, cost: float | None) -> RemainingWork | None:
    """Return the remaining work as the program reports it, else at the pace of the `seconds` so far; None without."""
    left = progress.remaining_seconds
    if left is None and progress.ratio:
        left = max(0.0, seconds / progress.ratio - seconds)
    if not left or seconds <= 0:
        return None
    part = left / seconds
    return RemainingWork(left, None if joules is None else joules * part, None if cost is None else cost * part)


@dataclass(frozen=True, slots=True)
class Run:
    """One workload of a name. Of several it is their median, which has no workload and no start."""

    workload: str
    start: float | None
    gpus: float
    gpu_hours: float
    per_gpu_hour: float
    """Units of the compared work per GPU hour."""
    per_kwh: float | None = None
    joules: float | None = None
    time_to_target_seconds: float | None = None

    @property
    def seconds(self) -> float | None:
        """Time its GPUs were allocated."""
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
        """Return the runs before the change; where none is named, before this run."""
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
        per_kwh=_median_known(run.per_kwh for run in runs),
        joules=_median_known(run.joules for run in runs),
        time_to_target_seconds=_median_known(run.time_to_target_seconds for run in runs),
    )


def _median_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def worst(hours: Hours) -> str:
    """The state most was wasted to; empty where nothing was."""
    state = max(LOST, key=lambda name: hours.get(name, 0.0))
    return state if hours.get(state, 0.0) > 0 else ""


@dataclass(frozen=True, slots=True)
class Name:
    """Subject of a report, and its owner; texts are empty where not known."""

    title: str
    workload: str = ""
    job_name: str = ""
    user: str = ""
    account: str = ""
    namespace: str = ""
    partition: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Begin and end of the allocation, Unix seconds. `end` is None while it lasts."""

    start: float
    end: float | None
    until: float
    """End of what the report covers."""
    truncated: bool
    """True if it began before the range of the report."""
    time_limit: float | None = None
    """Seconds."""

    @property
    def seconds(self) -> float:
        return self.until - self.start


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The workload on one node. None: not reported there."""

    node: str
    gpus: float
    hours: Hours
    energy_joules: float | None = None
    cpu_seconds: float | None = None
    cpu_limit_cores: float | None = None
    resident_bytes: float | None = None
    memory_limit_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One GPU or MIG instance while it was allocated to the workload. On a shared one the others' use is in it."""

    node: str
    gpu: str
    uuid: str
    model: str
    share: float
    hours: Hours
    memory_peak_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    sm_active: float | None = None
    """None: it has no GPM, and cannot tell what its units do."""
    copied_bytes: float | None = None
    """Bytes from the host, over PCIe."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change, and the GPU hours it could give back at most."""

    state: str
    hours: float
    text: str


@dataclass(frozen=True, slots=True)
class JobReport:
    name: Name
    span: Span
    hours: Hours
    nodes: tuple[NodeUse, ...]
    devices: tuple[DeviceUse, ...]
    progress: Progress
    cost: float | None
    """Cost at the prices given; None where no model is known."""
    advice: tuple[Advice, ...] = ()
    used_hours: float | None = None
    """GPU hours its kernels ran, whatever its share of each GPU; None from exporters that do not count them."""
    runs: Runs | None = None
    """Runs of the same name and user, where they report what they get done."""
    gpus_at_once: float | None = None
    """The most GPUs allocated on all its nodes together, where it had several."""
    moved: bool = False
    """True if it had some of its GPUs after others: a requeued job, pods that followed one another."""

    @property
    def throughput(self) -> Mapping[str, Throughput]:
        """Return the throughput by what the program counts."""
        seconds, hours, joules = self.span.seconds, allocated(self.hours), self.energy_joules
        return {name: throughput(total, seconds, hours, joules) for name, total in self.progress.counted.items()}

    @property
    def to_end(self) -> RemainingWork | None:
        """Return what a running job still needs; not by the pace of a part of it."""
        if self.span.end is not None or (self.span.truncated and self.progress.remaining_seconds is None):
            return None
        return to_end(self.progress, self.span.seconds, self.energy_joules, self.cost)

    @property
    def energy_joules(self) -> float | None:
        known = [node.energy_joules for node in self.nodes if node.energy_joules is not None]
        return sum(known) if known else None

    @property
    def gpus(self) -> float | None:
        """One after the other counts once: a requeued job may have run on other nodes.

        None where it was gone before a scrape saw it hold any: only its counters tell of it.
        """
        on_nodes = sum(node.gpus for node in self.nodes)
        return (min(on_nodes, self.gpus_at_once) if self.gpus_at_once else on_nodes) or None

    @property
    def cost_wasted(self) -> float | None:
        """Price of the wasted GPU hours."""
        hours = allocated(self.hours)
        return cost_of_waste(self.hours, self.cost / hours) if self.cost is not None and hours else None


@dataclass(frozen=True, slots=True)
class Row:
    """One account, namespace, user or workload in the digest."""

    labels: Mapping[str, str]
    allocated: float
    wasted: float | None
    utilization: float | None
    price_wasted: float | None
    """None of these three where nothing was observed."""
    state: str
    """Most was wasted to it; empty where nothing was."""
    used: float | None = None
    """Hours its kernels ran, whatever its shares."""
    model_flops_utilization: float | None = None
    """Utilization of its workloads that report their operations."""
    model_flops_utilization_bound: float | None = None
    """Upper bound for the workloads that do not."""


@dataclass(frozen=True, slots=True)
class Digest:
    title: str
    since: float
    """Unix seconds."""
    until: float
    allocated: float
    wasted: float | None
    """None where nothing was observed."""
    tables: Mapping[str, tuple[Row, ...]]
    """Rows by level, most wasted first."""
    causes: Hours
    advice: tuple[Advice, ...] = field(default=())
    accounting_difference: float | None = None
    """GPU time that nodes, Slurm and recorded totals count differently, of all, from 1 % on."""
    covered: float | None = None
    """Seconds of the period for which there are recordings; None if that is unknown."""
