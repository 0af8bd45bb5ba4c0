"""A report and its job as slurmdbd has it, for tests of what is made of both."""

from __future__ import annotations

from exporter.tools.report.model import DeviceUse, JobReport, Name, NodeUse, Progress, Span
from tests.unit.summaries.test_sacct import ALICES

GIB = 1 << 30
JOB = ALICES


def device(gpu: int, busy: float, *, model: str = "H100", share: float = 1.0) -> DeviceUse:
    return DeviceUse(
        "n1.example.org:9836", str(gpu), f"GPU-{gpu}", model, share, {"computing": busy, "allocated_idle": 1.0 - busy},
        memory_peak_bytes=40.0 * GIB, memory_total_bytes=80.0 * GIB,
    )  # fmt: skip


def report(*devices: DeviceUse, cpu_seconds: float | None = 5400.0, resident: float | None = 8.0 * GIB) -> JobReport:
    devices = devices or (device(0, 0.5), device(1, 0.25))
    hours = {"computing": 0.75, "allocated_idle": 1.25}
    node = NodeUse("n1.example.org:9836", 2.0, hours, 1e6, cpu_seconds, 16.0, resident, 64.0 * GIB)
    name = Name("Slurm job 11", "slurm:11", "train", "alice", "physics", partition="gpu")
    return JobReport(name, Span(1000.0, 4600.0, 4600.0, truncated=False), hours, (node,), devices, Progress(), None)
