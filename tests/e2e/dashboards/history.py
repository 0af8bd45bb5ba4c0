"""Time passed quickly: the real sampler on simulated GPUs, each cycle written as Prometheus would have scraped it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO

from exporter.accounting.writer import NodeAccounting
from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment, UnixTime
from exporter.exposition import HIDDEN_METRICS
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.snapshot import Snapshot
from exporter.tools.simulator import sampling
from exporter.tools.simulator.driver import SimulatedDriver, SimulatedHost
from exporter.tools.simulator.spec import parse
from tests.e2e.dashboards.nodes import Node

JOB = "gpu-exporter"
_PERIOD = 1.0
"""Seconds between the driver's own samples: the longest that NVML documents."""


@dataclass(frozen=True)
class Span:
    """Unix seconds from the first cycle to the last, one cycle (and scrape) each `step`."""

    start: int
    end: int
    step: int

    @property
    def times(self) -> range:
        return range(self.start, self.end + 1, self.step)


@dataclass
class Clock:
    """Unix seconds; monotonic time is the same count."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Writer:
    """OpenMetrics lines with timestamps. The text of a series is made once."""

    node: Node
    out: TextIO
    texts: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def snapshot(self, snapshot: Snapshot, at: int, seconds: float) -> None:
        count = 0
        for block in snapshot.blocks:
            name, labels = block.family.name, block.family.all_labels
            if name in HIDDEN_METRICS:
                continue
            for sample in block.samples:
                if not block.family.shown.has(sample.value):
                    continue
                values = (*block.prefix, *sample.labels)
                text = self.texts.get((name, values)) or self._text(
                    name, values, dict(zip(labels, values, strict=True))
                )
                self.out.write(f"{text} {float(sample.value)} {at}\n")
                count += 1
        self._scrape(at, count, seconds)

    def _text(self, name: str, values: tuple[str, ...], labels: Mapping[str, str]) -> str:
        target = {"cluster": self.node.cluster, "instance": self.node.instance, "job": JOB}
        pairs = ",".join(f'{key}="{value}"' for key, value in (target | dict(labels)).items() if value)
        return self.texts.setdefault((name, values), f"{name}{{{pairs}}}")

    def _scrape(self, at: int, count: int, seconds: float) -> None:
        """What Prometheus adds to a scrape, and the exporter's process metrics (this process has 32 nodes in it)."""
        own = {
            "up": 1.0,
            "scrape_samples_scraped": count,
            "scrape_duration_seconds": seconds,
            "process_cpu_seconds_total": at % 1_000_000 * 0.003,
            "process_resident_memory_bytes": 40e6 + count * 100,
        }
        for name, value in own.items():
            text = self.texts.get((name, ())) or self._text(name, (), {})
            self.out.write(f"{text} {value} {at}\n")


def write_history(nodes: tuple[Node, ...], span: Span, folder: Path) -> Path:
    """One OpenMetrics file with the history of all nodes."""
    jobs = [(node, span, folder / f"{node.instance}.om") for node in nodes]
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(_write_node, jobs))
    whole = folder / "history.om"
    with whole.open("w") as out:
        for part in parts:
            out.write(part.read_text())
            part.unlink()
        out.write("# EOF\n")
    return whole


def _write_node(job: tuple[Node, Span, Path]) -> Path:
    node, span, path = job
    # In this child process alone. The driver's buffer must reach from one cycle to the next, here a minute or two.
    sampling.PERIOD_SECONDS, sampling.DEPTH = _PERIOD, math.ceil(2 * span.step / _PERIOD)
    with path.open("w") as out:
        writer = Writer(node, out)
        for at, seconds, snapshot in _cycles(node, span):
            writer.snapshot(snapshot, at, seconds)
    return path


def _cycles(node: Node, span: Span) -> Iterator[tuple[int, float, Snapshot]]:
    clock = Clock(span.start)
    driver = SimulatedDriver(parse(f"{node.spec};start={span.start}"), clock)
    accounting = NodeAccounting(None, memory_id=node.instance, unix=lambda: UnixTime(clock()))
    accounts = Accounting(AccountingOptions(interval=float(span.step)), workload_families(), accounting)
    pacing = Pacing(interval=float(span.step), deadline=10.0, stale=3.0 * span.step)
    sampler = Sampler(driver, SimulatedHost(driver.node), COLLECTORS, pacing, accounts)
    sampler.start()
    try:
        for at in span.times:
            clock.now = at
            began = time.perf_counter()
            for event in driver.events(0):
                sampler.xids.add(event, "driver")
            snapshot = sampler.run_cycle(Moment(at, at))
            yield at, time.perf_counter() - began, snapshot
    finally:
        sampler.stop()
