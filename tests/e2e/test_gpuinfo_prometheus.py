"""deploy/slurm/gpuinfo.py and gpudash.py against a real Prometheus that scrapes one node twice and another once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.backfill import Past
from tests.e2e.report_past import SCRAPE
from tests.stack import ROOT, prometheus

pytestmark = pytest.mark.xdist_group("report")
JOBS = {"n1": ("gpu", "gpu-too"), "n2": ("gpu",)}
NODES = "".join(f"NodeName={node} Gres=gpu:2 GresUsed=gpu:1 State=MIXED Partitions=gpu\n" for node in JOBS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gpuinfo")
    now = int(time.time())
    times = [float(t) for t in range(now - 900, now + 600, SCRAPE)]
    past = Past()
    for node, jobs in JOBS.items():
        for job in jobs:
            for gpu in ("0", "1"):
                own = {"instance": f"{node}:9836", "job": job, "gpu": gpu, "uuid": f"GPU-{node}-{gpu}"}
                past.add("gpu_utilization_ratio", own, [(t, 0.25) for t in times])
                past.add("gpu_allocation_ratio", {**own, "user": "alice"}, [(t, 1.0) for t in times])
                idle = [(t, t - times[0]) for t in times]
                past.add("gpu_state_seconds_total", {**own, "state": "allocated_idle"}, idle)
            for fault in ("xid", "ecc"):
                found = {**own, "fault": fault, "evidence": "e", "action": "a"}
                past.add("gpu_fault_timestamp_seconds", found, [(t, times[0]) for t in times])
    past.write(folder)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with prometheus(config, folder) as found_at:
        yield found_at


def test_node_that_two_jobs_scrape_is_counted_once(url: str, tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\ncat <<'END'\n{NODES}END\n")
    scontrol.chmod(0o755)
    command = [sys.executable, str(ROOT / "deploy/slurm/gpuinfo.py"), "--prometheus.url", url]
    done = subprocess.run(
        [*command, "--scontrol", str(scontrol)], capture_output=True, text=True, timeout=60, check=True
    )

    shown = [line.split()[3:] for line in done.stdout.splitlines()[1:]]
    assert shown == [["2", "1", "25%", "2.0", "2"]] * 2


def test_grid_has_each_gpu_once_with_its_user(url: str) -> None:
    command = [sys.executable, str(ROOT / "deploy/slurm/gpudash.py"), "--prometheus.url", url, "--no-legend"]
    done = subprocess.run(
        command, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, timeout=60, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()[1:]]

    assert [(row[:-6] or [""], row[-6], row[-1]) for row in rows] == [
        (["n1"], "0", "alice:25"), ([""], "1", "alice:25"), (["n2"], "0", "alice:25"), ([""], "1", "alice:25"),
    ]  # fmt: skip
