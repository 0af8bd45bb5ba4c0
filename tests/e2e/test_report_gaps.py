"""`gpu-exporter report` over a past with a gap, and over that of two clusters, from a real Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.command import Done, run
from tests.e2e.backfill import Past
from tests.e2e.report_past import HOUR, OWNER, SCRAPE
from tests.stack import prometheus

pytestmark = pytest.mark.xdist_group("report")
UNSEEN = 1200
"""Seconds in which nobody scraped the node, as a Prometheus that was down: the job began in them."""


def unseen_job(past: Past, began: float, ended: float) -> None:
    here = {"instance": "n7:9836", "job": "gpu"}
    owner, device = {**OWNER, "workload": "slurm:4714", "slurm_job": "4714"}, {"gpu": "0", "uuid": "GPU-n7-0"}
    times = [began + UNSEEN + SCRAPE * scrape for scrape in range(int(ended + 100 - began - UNSEEN) // SCRAPE)]
    past.add("gpu_workload_allocated_gpus", {**here, **owner}, [(t, 1.0 if t < ended else 0.0) for t in times])
    past.add("gpu_workload_start_time_seconds", {**here, **owner}, [(t, began) for t in times])
    past.add("gpu_allocation_ratio", {**here, **device, **owner}, [(t, 1.0) for t in times if t < ended])
    allocated = [(t, min(t, ended) - began) for t in times]
    past.add("gpu_workload_samples_total", {**here, **owner}, [(t, 100 * seconds) for t, seconds in allocated])
    for state, share in {"computing": 0.25, "wait_cpu": 0.75}.items():
        points = [(t, share * seconds) for t, seconds in allocated]
        past.add("gpu_workload_gpu_seconds_total", {**here, **owner, "state": state}, points)
        earlier = 100.0 * HOUR
        past.add(
            "gpu_state_seconds_total", {**here, **device, "state": state}, [(t, earlier + each) for t, each in points]
        )


def namesakes(past: Past, began: float) -> None:
    """Jobs of two Slurms with the same id."""
    for cluster, user, node in (("east", "alice", "n8"), ("west", "bob", "n9")):
        owner = {**OWNER, "workload": "slurm:4715", "slurm_job": "4715", "user": user}
        here = {"cluster": cluster, "instance": f"{node}:9836", "job": "gpu"}
        times = [began + SCRAPE * scrape for scrape in range(40)]
        past.add("gpu_workload_allocated_gpus", {**here, **owner}, [(t, 1.0) for t in times])
        past.add("gpu_workload_info", {**here, **owner}, [(t, 1.0) for t in times])
        counted = [(t, t - began) for t in times]
        past.add("gpu_workload_gpu_seconds_total", {**here, **owner, "state": "computing"}, counted)


@dataclass(frozen=True)
class Known:
    url: str
    began: float


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    folder = tmp_path_factory.mktemp("report")
    began = float(int(time.time()) - 3 * HOUR)
    past = Past()
    unseen_job(past, began, began + HOUR)
    namesakes(past, began)
    past.write(folder)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with prometheus(config, folder) as url:
        yield Known(url, began)


def report(url: str, *arguments: str) -> Done:
    return run("report", *arguments, "--prometheus.url", url)


def as_json(url: str, *arguments: str) -> Any:
    done = report(url, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_job_that_began_while_nobody_scraped_is_reported_from_its_beginning(known: Known) -> None:
    found = as_json(known.url, "4714")

    assert found["span"]["start"] == pytest.approx(known.began, abs=SCRAPE)
    assert found["gpu_hours"] == pytest.approx(1.0, rel=0.02)
    assert found["throughput"]["samples"]["per_second"] == pytest.approx(100.0, rel=0.02)
    assert sum(found["devices"][0]["hours"].values()) == pytest.approx(1 - UNSEEN / HOUR, rel=0.02)


def test_jobs_of_two_clusters_with_one_id_are_not_one(known: Known) -> None:
    several, west = report(known.url, "4715"), as_json(known.url, "4715", "--cluster", "west")

    assert (several.returncode, several.stdout) == (2, "")
    assert several.stderr.endswith("Slurm job 4715 is in several clusters, name one by --cluster: east, west\n")
    assert (west["gpus"], west["name"]["user"]) == (1, "bob")
