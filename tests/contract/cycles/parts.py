"""What the cases are made of: two owners, their processes, and counters that give one answer a cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from exporter.attribution.owner import Owner
from exporter.core.clock import UnixTime
from exporter.driver.interface import Record
from exporter.host.model import HostProcess
from tests.contract.cycles.rig import BEGIN

JOB = Owner("slurm:4711", "slurm", slurm_job="4711", user="ada", account="physics", partition="gpu")
POD = Owner("team/train", "pod", "team", "train-0", "main")

NVLINK_FIELDS = frozenset({90, 91, 138, 139, 161, 162, 163, 165})
"""Speed, number, bytes, states and errors of links."""


def process(pid: int, **others: object) -> HostProcess:
    found = HostProcess(pid, "python3", "ada", UnixTime(BEGIN - 100.0 - pid), 12.5 + pid, 1 << 20, "")
    return replace(found, **others)  # type: ignore[arg-type]


def runs(*pids: int, memory: int | None = 300) -> tuple[Record, ...]:
    return tuple(Record(pid=pid, usedGpuMemory=memory) for pid in pids)


def energy(*joules: float) -> Callable[[], int]:
    """One answer a cycle; the last stays."""
    at = count()
    return lambda: int(joules[min(next(at), len(joules) - 1)] * 1000)
