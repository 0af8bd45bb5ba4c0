"""`gpu-exporter report` on workloads that go on elsewhere, or that began before the range: from a real Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.command import run
from tests.e2e.backfill import Past
from tests.e2e.report_past import GIB, HOUR, OWNER, SCRAPE
from tests.stack import prometheus

pytestmark = pytest.mark.xdist_group("report")

MODEL = "NVIDIA H100 80GB HBM3"
PEAK, MFU = 989e12, 0.4
Times = tuple[float, float]


def device(
    past: Past, here: Mapping[str, str], gpu: str, life: Times, busy: Times, turns: Sequence[Times] = ()
) -> Mapping[str, str]:
    """A GPU that runs kernels in one time of its life, and is held or free in the rest; full but in these turns."""
    own = {**here, "gpu": gpu, "uuid": f"GPU-{here['instance']}-{gpu}"}
    times = [life[0] + 5 + SCRAPE * scrape for scrape in range(int(life[1] - life[0]) // SCRAPE)]
    ran = [(t, max(0.0, min(t, busy[1]) - busy[0])) for t in times]
    past.add("gpu_state_seconds_total", {**own, "state": "computing"}, ran)
    rest = [(t, t - life[0] - seconds) for t, seconds in ran]
    past.add("gpu_state_seconds_total", {**own, "state": "allocated_idle"}, rest)
    past.add("gpu_info", {**own, "model": MODEL}, [(t, 1.0) for t in times])
    past.add("gpu_peak_bf16_flops", own, [(t, PEAK) for t in times])
    past.add("gpu_memory_total_bytes", own, [(t, 80.0 * GIB) for t in times])
    used = [(t, (20.0 if any(began <= t < ended for began, ended in turns) else 79.0) * GIB) for t in times]
    past.add("gpu_memory_used_bytes", own, used)
    past.add("gpu_power_watts", own, [(t, memory / GIB * 5) for t, memory in used])
    past.add("gpu_sm_active_seconds_total", own, [(t, seconds / 2) for t, seconds in ran])
    return own


def part(past: Past, labels: Mapping[str, str], allocated: Times, gpus: int, state: str) -> None:
    """A workload's time on one node, as it is counted there."""
    times = [allocated[0] + 5 + SCRAPE * scrape for scrape in range(int(allocated[1] + 90 - allocated[0]) // SCRAPE)]
    counted = [(t, gpus * (min(t, allocated[1]) - allocated[0])) for t in times]
    past.add("gpu_workload_gpu_seconds_total", {**labels, "state": state}, counted)
    past.add("gpu_workload_model_flops_total", labels, [(t, MFU * PEAK * seconds) for t, seconds in counted])
    past.add("gpu_workload_allocated_gpus", labels, [(t, float(gpus) if t < allocated[1] else 0.0) for t in times])
    past.add("gpu_workload_start_time_seconds", labels, [(t, allocated[0]) for t in times])
    past.add("gpu_workload_info", labels, [(t, 1.0) for t in times])


def requeued(past: Past, began: float) -> None:
    """Two GPUs of a node that failed before the program began, then two of another; both nodes are scraped twice."""
    owner = {**OWNER, "workload": "slurm:4720", "slurm_job": "4720"}
    for number, (node, state) in enumerate((("m1", "allocated_idle"), ("m2", "computing"))):
        allocated = (began + number * HOUR, began + number * HOUR + 1200)
        for job in ("gpu", "gpu-too"):
            here = {"instance": f"{node}:9836", "job": job}
            part(past, {**here, **owner}, allocated, 2, state)
            for gpu in ("0", "1"):
                busy = allocated if state == "computing" else (0.0, 0.0)
                own = device(past, here, gpu, (began, began + 2 * HOUR), busy, [allocated])
                shares = [(allocated[0] + 5 + SCRAPE * scrape, 1.0) for scrape in range(1195 // SCRAPE)]
                past.add("gpu_allocation_ratio", {**own, **owner}, shares)


PODS = 4


def pods(past: Past, began: float) -> None:
    """A workload whose pods follow one another on the same GPU."""
    here = {"instance": "m3:9836", "job": "gpu"}
    turns = [(began + number * 900, began + number * 900 + 600) for number in range(PODS)]
    own = device(past, here, "0", (began, began + HOUR), (began, began + HOUR), turns)
    for number in range(PODS):
        pod = {
            "workload": "team-a/train",
            "workload_namespace": "team-a",
            "workload_pod": f"train-{number}",
            "workload_container": "main",
        }
        allocated = turns[number]
        part(past, {**here, **pod}, allocated, 1, "computing")
        resident = [(allocated[0] + 5 + SCRAPE * scrape, 20.0 * GIB) for scrape in range(40)]
        past.add("gpu_workload_resident_memory_bytes", {**here, **pod}, resident)
        past.add("gpu_allocation_ratio", {**own, **pod}, [(time_, 1.0) for time_, _ in resident])


def always(past: Past, now: float) -> None:
    """A job that has held its GPU for long, and still does."""
    owner = {**OWNER, "workload": "slurm:4721", "slurm_job": "4721", "instance": "m4:9836", "job": "gpu"}
    began = now - 5 * HOUR
    times = [began + 5 + SCRAPE * scrape for scrape in range(int(5 * HOUR + 600) // SCRAPE)]
    past.add("gpu_workload_gpu_seconds_total", {**owner, "state": "computing"}, [(t, t - began) for t in times])
    past.add("gpu_workload_allocated_gpus", owner, [(t, 1.0) for t in times])
    past.add("gpu_workload_info", owner, [(t, 1.0) for t in times])


@dataclass(frozen=True)
class Known:
    url: str
    began: float


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    folder = tmp_path_factory.mktemp("report")
    now = time.time()
    began = float(int(now) - 3 * HOUR)
    past = Past()
    requeued(past, began)
    pods(past, began)
    always(past, now)
    past.write(folder)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with prometheus(config, folder) as url:
        yield Known(url, began)


def as_json(known: Known, *arguments: str) -> Any:
    done = run("report", *arguments, "--prometheus.url", known.url, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_range_of_minutes_has_no_more_gpu_hours_than_time(known: Known) -> None:
    found = as_json(known, "4721", "--since", "5m")

    assert found["span"]["truncated"]
    assert found["gpu_hours"] * 3600 == pytest.approx(300, abs=SCRAPE)


def test_requeued_job_whose_nodes_are_scraped_twice_held_two_gpus_at_a_time(known: Known) -> None:
    assert as_json(known, "4720")["gpus"] == 2


def test_gpus_that_a_requeued_job_left_are_none_it_asked_too_many_of(known: Known) -> None:
    assert "unused" not in [each["state"] for each in as_json(known, "4720")["advice"]]


@pytest.mark.parametrize("name", ["4720", "team-a/train"])
def test_operations_are_of_the_time_that_gpus_were_held(known: Known, name: str) -> None:
    assert as_json(known, name)["progress"]["model_flops_utilization"] == pytest.approx(MFU, rel=0.02)


def test_pods_that_follow_one_another_on_a_gpu_hold_one(known: Known) -> None:
    found = as_json(known, "team-a/train")

    assert found["gpus"] == 1
    assert [node["gpus"] for node in found["nodes"]] == [1]
    assert found["nodes"][0]["resident_bytes"] == pytest.approx(20 * GIB)


@pytest.mark.parametrize(
    ("name", "state", "seconds"),
    [("4720", "allocated_idle", 1200.0), ("4720", "computing", 1200.0), ("team-a/train", "computing", 2400.0)],
)
def test_rows_of_gpus_that_were_held_in_turn_have_nothing_of_others(
    known: Known, name: str, state: str, seconds: float
) -> None:
    """Who came before and after filled the memory: the job was said to be close to out of memory."""
    rows = [row for row in as_json(known, name)["devices"] if max(row["hours"], key=row["hours"].get) == state]

    assert rows
    for row in rows:
        assert row["hours"][state] * 3600 == pytest.approx(seconds, abs=2 * SCRAPE)
        assert sum(row["hours"].values()) * 3600 == pytest.approx(seconds, abs=2 * SCRAPE)
        assert (row["memory_peak_bytes"], row["power_watts"]) == pytest.approx((20 * GIB, 100))
        assert (row["sm_active"] or 0.0) == pytest.approx(0.5 if state == "computing" else 0.0, rel=0.05)
