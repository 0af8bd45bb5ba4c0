"""AdminComment in the form of jobstats, read by a program that sites read it with."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from reportseff.job import Job

from exporter.tools.report.summaries.jobstats import NOTHING, encode
from tests.unit.summaries.reports import GIB, JOB, device, report


def decoded(comment: str) -> dict[str, Any]:
    assert comment.startswith("JS1:")
    content: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(comment[4:])))
    return content


def test_content_is_what_jobstats_documents() -> None:
    assert decoded(encode(report(), JOB)) == {
        "total_time": 3600.0,
        "gpus": 2,
        "nodes": {
            "n1": {
                "cpus": 16,
                "total_time": 5400.0,
                "total_memory": 64 * GIB,
                "used_memory": 8 * GIB,
                "gpu_total_memory": {"0": 80 * GIB, "1": 80 * GIB},
                "gpu_used_memory": {"0": 40 * GIB, "1": 40 * GIB},
                "gpu_utilization": {"0": 50.0, "1": 25.0},
            }
        },
    }


def test_reportseff_reads_it() -> None:
    entry = {"JobID": "11", "State": "COMPLETED", "Elapsed": "01:00:00", "Timelimit": "02:00:00", "AllocCPUS": "16"}
    entry |= {"TotalCPU": "01:30:00", "REQMEM": "64G", "NNodes": "1", "AdminComment": encode(report(), JOB)}
    job = Job("11", "11", None)
    job.update(entry)

    assert job.gpu == pytest.approx(37.5)
    assert job.gpu_mem == pytest.approx(50.0)
    assert job.cpu == pytest.approx(9.4)
    assert job.mem_eff == pytest.approx(12.5)


def test_what_a_node_does_not_tell_slurmdbd_does() -> None:
    """Without ConstrainCores and ConstrainRAMSpace the node has no cgroup to read it from."""
    (node,) = decoded(encode(report(cpu_seconds=None, resident=None), JOB))["nodes"].values()
    assert (node["total_time"], node["used_memory"]) == (5400.0, 9 * GIB)


def test_what_nobody_tells_is_not_made_up() -> None:
    nothing = replace(JOB, cpu_seconds=None, memory_peak_bytes=None)

    assert encode(report(cpu_seconds=None, resident=None), nothing) == NOTHING
    assert encode(report(cpu_seconds=None), None) == NOTHING


def test_instances_of_one_gpu_are_told_apart() -> None:
    shares = [device(0, busy, model="H100 MIG 1g.10gb", share=1.0) for busy in (0.5, 0.25)]
    (node,) = decoded(encode(report(*shares), JOB))["nodes"].values()

    assert node["gpu_utilization"] == {"0.0": 50.0, "0.1": 25.0}
