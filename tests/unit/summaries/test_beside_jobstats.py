"""Five kinds of job, beside what jobstats says of them: the first by its published output, the others by its rules.

jobstats' figures are from its documentation: the report and the JSON of its example job, and the notes it adds to one.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from exporter.tools.report import advice, words
from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.definitions import utilization
from exporter.tools.report.model import DeviceUse, JobReport, Name, NodeUse, Progress, Span
from exporter.tools.report.summaries.jobstats import encode
from exporter.tools.report.summary import flags
from tests.unit.summaries.reports import GIB

PAGE = (Path(__file__).resolve().parents[3] / "docs/report.md").read_text()
ELAPSED = 67316.0
PUBLISHED: dict[str, Any] = {
    "gpus": 4,
    "nodes": {
        "della-i14g2": {
            "cpus": 24,
            "gpu_total_memory": {"0": 42949672960, "1": 42949672960},
            "gpu_used_memory": {"0": 28453568512, "1": 28453568512},
            "gpu_utilization": {"0": 65.7, "1": 64.5},
            "total_memory": 137438953472,
            "total_time": 164480.1,
            "used_memory": 8444272640,
        },
        "della-i14g3": {
            "cpus": 24,
            "gpu_total_memory": {"0": 42949672960, "1": 42949672960},
            "gpu_used_memory": {"0": 28453634048, "1": 28453634048},
            "gpu_utilization": {"0": 72.9, "1": 67.5},
            "total_memory": 137438953472,
            "total_time": 154135.9,
            "used_memory": 8419606528,
        },
    },
    "total_time": 67316,
}
"""What jobstats prints as JSON of its example job."""
EXAMPLE = AccountedJob(
    "39798795", "39798795", "aturing", "math", "gpu", "della-gpu", "della", "COMPLETED", "0:0", 1000.0,
    1000.0 + ELAPSED, ELAPSED, 4 * 86400.0, nodes=2, cpus=48, cpu_seconds=318616.0, memory_bytes=256 * GIB, gpus=4.0,
)  # fmt: skip


def published() -> JobReport:
    """The report on jobstats' example job: each GPU was busy for the share that jobstats tells, and else waited."""
    devices = [
        device(node, gpu, busy / 100, told["gpu_used_memory"][gpu], 42949672960, ELAPSED)
        for node, told in PUBLISHED["nodes"].items()
        for gpu, busy in told["gpu_utilization"].items()
    ]
    nodes = [
        NodeUse(f"{node}:9836", 2.0, {}, None, told["total_time"], 24.0, float(told["used_memory"]), 128.0 * GIB)
        for node, told in PUBLISHED["nodes"].items()
    ]
    return report(devices, nodes, ELAPSED)


def device(node: str, gpu: str, busy: float, used: float, total: float, seconds: float) -> DeviceUse:
    hours = {"computing": busy * seconds / 3600, "wait_cpu": (1 - busy) * seconds / 3600}
    hours = hours if busy else {"allocated_idle": seconds / 3600}
    return DeviceUse(f"{node}:9836", gpu, f"GPU-{node}-{gpu}", "A100 40GB", 1.0, hours, used, total)


def report(devices: list[DeviceUse], nodes: list[NodeUse], seconds: float) -> JobReport:
    hours: dict[str, float] = {}
    for state, amount in (pair for each in devices for pair in each.hours.items()):
        hours[state] = hours.get(state, 0.0) + amount
    name = Name("Slurm job 1", "slurm:1", "train", "aturing", "math", partition="gpu")
    span = Span(1000.0, 1000.0 + seconds, 1000.0 + seconds, truncated=False)
    told = advice.of_job(hours, devices)
    return JobReport(name, span, hours, tuple(nodes), tuple(devices), Progress(), None, told)


def one_node(*busy: float, used: float = 30.0 * GIB) -> JobReport:
    devices = [
        device("n1", str(gpu), share, used if share else 0.0, 40.0 * GIB, 3600) for gpu, share in enumerate(busy)
    ]
    node = NodeUse("n1:9836", float(len(busy)), {}, None, 3000.0 * len(busy), 4.0, 6.0 * GIB, 8.0 * GIB)
    return report(devices, [node], 3600.0)


def fitting(gpus: int) -> AccountedJob:
    """Asked for what it used, but for GPUs."""
    return replace(
        EXAMPLE, nodes=1, cpus=2 * gpus, cpu_seconds=3000.0 * gpus, elapsed=3600.0, time_limit=5400.0,
        memory_bytes=8 * GIB, gpus=float(gpus),
    )  # fmt: skip


@dataclass(frozen=True)
class Kind:
    what: str
    jobstats: str
    """What it says of such a job, by its documentation."""
    report: JobReport
    job: AccountedJob
    used: str
    flags: tuple[str, ...]
    findings: tuple[str, ...]


KINDS = (
    Kind(
        "its example: two nodes, memory and time far too much", "GPU 68 %, `--mem=10G`, needed 19 % of the time",
        published(), EXAMPLE, "68 %", ("--mem=10G", "--cpus-per-gpu=2", "--time=22:30:00"),
        ("wait_cpu", "mixed_precision", "profile"),
    ),
    Kind(
        "one of four GPUs used", "did not use 3 of the 4 allocated GPUs",
        one_node(0.9, 0.0, 0.0, 0.0), fitting(4), "22 %", ("--gpus=1",),
        ("unused", "allocated_idle", "wait_cpu", "mixed_precision", "profile"),
    ),
    Kind("the GPU not used", "did not use the GPU", one_node(0.0), fitting(1), "0 %", (), ("allocated_idle",)),
    Kind(
        "low utilization", "utilization is only 12 %", one_node(0.12), fitting(1), "12 %", (),
        ("wait_cpu", "mixed_precision", "profile"),
    ),
    Kind(
        "small enough for a MIG instance", "told to use MIG", one_node(0.12, used=4.0 * GIB), fitting(1),
        "12 %", (), ("wait_cpu", "mixed_precision", "profile", "too_large"),
    ),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[kind.what for kind in KINDS])
def test_report_says_what_jobstats_says_and_what_to_do(kind: Kind) -> None:
    assert words.percent(utilization(kind.report.hours)) == kind.used
    assert flags(kind.job, kind.report) == kind.flags
    assert tuple(each.state for each in kind.report.advice) == kind.findings


def test_comment_of_its_example_is_the_json_it_prints() -> None:
    assert json.loads(gzip.decompress(base64.b64decode(encode(published(), EXAMPLE)[4:]))) == PUBLISHED


def test_page_has_these_lines() -> None:
    for kind in KINDS:
        asked = " ".join(f"`{flag}`" for flag in kind.flags)
        findings = ", ".join(words.title(state) for state in kind.findings)
        line = f"| {kind.what} | {kind.jobstats} | {kind.used} used; {findings}{f'; {asked}' if asked else ''} |"
        assert line in PAGE, line
