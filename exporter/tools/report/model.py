"""What a report holds, before it is put into words. Hours are GPU hours; nothing here is rounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.tools.report.definitions import LOST, Hours, cost_of_waste, held
from exporter.tools.report.solution import Progress, Runs, Throughput, ToEnd, throughput, to_end


def worst(hours: Hours) -> str:
    """The state most was wasted to; empty where nothing was."""
    state = max(LOST, key=lambda name: hours.get(name, 0.0))
    return state if hours.get(state, 0.0) > 0 else ""


@dataclass(frozen=True, slots=True)
class Name:
    """What was asked for, and who it belongs to; texts are empty where not known."""

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
    """When GPUs were held, Unix seconds. `end` is None while they still are."""

    start: float
    end: float | None
    until: float
    """End of what the report covers."""
    truncated: bool
    """Whether it began before the range that was looked at."""
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
    """One GPU or MIG instance in the time in which the workload held it. On a shared one the others' use is in it."""

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
    """At the prices given; None where no model is known."""
    advice: tuple[Advice, ...] = ()
    used_hours: float | None = None
    """GPU hours its kernels ran, whatever its share of each GPU; None from exporters that do not count them."""
    priced_by: str = "held"
    runs: Runs | None = None
    """Of the same name and user, where they report what they get done."""
    gpus_at_once: float | None = None
    """The most GPUs it held on all its nodes together, where it had several."""
    moved: bool = False
    """Whether it held some of its GPUs after others: a requeued job, pods that followed one another."""

    @property
    def throughput(self) -> Mapping[str, Throughput]:
        """By what the program counts."""
        seconds, hours, joules = self.span.seconds, held(self.hours), self.energy_joules
        return {name: throughput(total, seconds, hours, joules) for name, total in self.progress.counted.items()}

    @property
    def to_end(self) -> ToEnd | None:
        """What a running job still needs; not by the pace of a part of it."""
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
        """Of what was held; nothing that was not used is paid for by use."""
        hours = held(self.hours) if self.priced_by == "held" else 0.0
        return cost_of_waste(self.hours, self.cost / hours) if self.cost is not None and hours else None


@dataclass(frozen=True, slots=True)
class Row:
    """One account, namespace, user or workload in the digest."""

    labels: Mapping[str, str]
    held: float
    wasted: float | None
    utilization: float | None
    price_wasted: float | None
    """None of these three where nothing was observed."""
    state: str
    """Most was wasted to it; empty where nothing was."""
    used: float | None = None
    """Hours its kernels ran, whatever its shares."""
    price_used: float | None = None
    """What these cost; only in a digest that is priced by use."""
    model_flops_utilization: float | None = None
    """Of its workloads that report their operations."""
    model_flops_utilization_bound: float | None = None
    """Of those that do not: at most so much."""


@dataclass(frozen=True, slots=True)
class Digest:
    title: str
    since: float
    """Unix seconds."""
    until: float
    held: float
    wasted: float | None
    """None where nothing was observed."""
    tables: Mapping[str, tuple[Row, ...]]
    """By level, most wasted first."""
    causes: Hours
    advice: tuple[Advice, ...] = field(default=())
    priced_by: str = "held"
