"""Captures of simulated GPUs, made when a test asks for them: they have every call that the collectors make."""

from __future__ import annotations

import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from exporter.tools.capture.record import record, write
from exporter.tools.simulator import SimulatedDriver, parse

START = 1_800_000_000.0

SPECS = (
    # model      driver         pattern         specification
    ("H200",     "580.95.05",   "mixed",        "2xH200:training,input-bound"),
    ("H200",     "580.95.05",   "thermal",      "1xH200:thermal"),
    ("H200",     "580.65.06",   "thermal",      "1xH200:thermal"),
    ("H100",     "535.104.05",  "lost",         "2xH100:training;fault=lost:1@62.15"),
    ("H100-mig", "570.86.15",   "mixed",        "1xH100-mig:training,free,inference"),
    ("A100",     "525.60.13",   "ecc-storm",    "1xA100:ecc-storm"),
    ("A100-mig", "550.54.15",   "mixed",        "1xA100-mig:training,allocated-idle,notebook"),
    ("B200",     "590.44.01",   "nvlink-down",  "1xB200:nvlink-down"),
    ("L40S",     "560.35.03",   "inference",    "1xL40S:inference"),
    ("T4",       "470.82.01",   "idle-loaded",  "1xT4:idle-loaded"),
    ("V100",     "535.104.05",  "storage-bound", "1xV100:storage-bound"),
    ("RTX4090",  "575.51.03",   "fan-failure",  "1xRTX4090:fan-failure"),
)  # fmt: skip


@dataclass
class Clock:
    """`cost` is the seconds each look at it takes: a GPU is lost in the middle of a cycle, not between two."""

    cost: float = 0.0
    time: float = START

    def __call__(self) -> float:
        self.time += self.cost
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


_FOLDER = tempfile.TemporaryDirectory(prefix="captures-")


@functools.cache
def folder() -> Path:
    """Return a folder with all captures, which lasts as long as the process: those kept here and the simulated ones."""
    made = Path(_FOLDER.name)
    for kept in Path(__file__).parent.glob("*.json"):
        shutil.copy(kept, made)
    for model, driver, pattern, spec in SPECS:
        clock = Clock(cost=0.001 if pattern == "lost" else 0.0)
        simulated = SimulatedDriver(parse(f"{spec};driver={driver}"), clock, clock.sleep)
        simulated.open()
        clock.sleep(60)
        capture = record(simulated, 4, clock=clock, sleep=clock.sleep)
        write(capture, made / f"sim__{model}__{driver}__{pattern}.json")
    return made
