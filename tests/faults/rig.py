"""The real sampler over the fake driver library, cycle by cycle on a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment
from exporter.driver.nvml import NvmlDriver
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.snapshot import Snapshot
from tests.fake_nvml.scenario import Scenario, node, uuid

HURT, WELL = uuid(0), uuid(1)
"""The GPU that faults are planted on, and the one that must not notice."""

Key = tuple[str, tuple[str, ...]]
"""Family and label values."""

HANGING, PATIENT = 0.8, 20.0
"""Seconds a cycle waits for the GPUs: as shipped where a call hangs; else long, so that load makes no faults."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One cycle: its series, and how long it took in seconds of this machine, less those in which it had no core."""

    series: Mapping[Key, float]
    counters: frozenset[Key]
    seconds: float

    def of(self, gpu: str) -> dict[Key, float]:
        return {key: value for key, value in self.series.items() if gpu in key[1]}


class Rig:
    """Two H100s of the fake library, named by FAKE_NVML_SCENARIO."""

    def __init__(self, scenario: Path, deadline: float = PATIENT) -> None:
        self.scenario = Scenario(scenario, {**node(2), "epoch": 1_000_000_000})
        self.sampler = Sampler(
            NvmlDriver(), Host(), COLLECTORS, Pacing(1.0, deadline, 10.0), Accounting(AccountingOptions(), ())
        )
        self.deadline = deadline
        self.now = time.time()
        self.sampler.start()

    def step(self, seconds: float = 1.0) -> Seen:
        """One cycle, booked `seconds` after the last."""
        self.now += seconds
        started = time.monotonic() - _without_core()
        snapshot = self.sampler.run_cycle(Moment(self.now, self.now))
        return _seen(snapshot, time.monotonic() - _without_core() - started)

    def close(self) -> None:
        self.sampler.stop()


def _without_core() -> float:
    """Seconds in which this thread could have run and another program had the core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _seen(snapshot: Snapshot, seconds: float) -> Seen:
    series: dict[Key, float] = {}
    counters: set[Key] = set()
    for block in snapshot.blocks:
        for value, labels in block.samples:
            key = (block.family.name, (*block.prefix, *labels))
            series[key] = value
            if block.family.type.value == "counter":
                counters.add(key)
    return Seen(series, frozenset(counters), seconds)
