"""`gpu-exporter report` against a real Prometheus whose past is known to the second."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.command import Done, run
from tests.contract.dashboards.reading import CONSTANTS
from tests.e2e.backfill import Past
from tests.e2e.report_past import (
    BRIEF,
    DIGEST,
    DIGEST_HOURS,
    GIB,
    HOUR,
    SCRAPE,
    SHARES,
    SHORT,
    WATTS,
    brief_job,
    job,
    recorded,
    short_job,
)
from tests.e2e.report_runs_past import LASTED, LEFT, runs
from tests.stack import prometheus


@dataclass(frozen=True)
class Known:
    url: str
    began: float
    ended: float
    runs: dict[str, float]
    """When each run of one name began."""


pytestmark = pytest.mark.xdist_group("report")  # of one Prometheus


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    folder = tmp_path_factory.mktemp("report")
    now = time.time()
    began = float(int(now) - 3 * HOUR)
    ended = began + HOUR
    past = Past()
    job(past, began, ended, now)
    short_job(past, began)
    for number, node in enumerate(("n4", "n5")):
        short_job(past, began + number * 2 * SHORT, "4713", node)
    for number, (brief, seconds) in enumerate(BRIEF.items()):
        brief_job(past, brief, began + 17.0 * number, seconds)
    recorded(past, now)
    starts = runs(past, now)
    past.write(folder)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with prometheus(config, folder, "--query.max-samples=5000000") as url:
        yield Known(url, began, ended, starts)


def report(known: Known, *arguments: str) -> Done:
    return run("report", *arguments, "--prometheus.url", known.url)


def as_json(known: Known, *arguments: str) -> dict[str, Any]:
    done = report(known, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_finished_job_equals_the_truth_within_two_percent(known: Known) -> None:
    found = as_json(known, "4711")

    assert found["gpu_hours"] == pytest.approx(8.0, rel=0.02)
    for node, shares in SHARES.items():
        use = next(each for each in found["nodes"] if each["node"] == f"{node}:9836")
        assert use["gpus"] == 4
        assert use["energy_joules"] == pytest.approx(4 * WATTS[node] * HOUR, rel=0.02)
        assert use["hours"] == pytest.approx({state: 4 * share for state, share in shares.items()}, rel=0.02)
    assert found["utilization"] == pytest.approx(0.55, rel=0.02)
    assert found["gpu_hours_wasted"] == pytest.approx(4 * 0.4 + 4 * 0.5, rel=0.02)
    assert found["span"]["start"] == pytest.approx(known.began, abs=SCRAPE)
    assert found["span"]["end"] == pytest.approx(known.ended, abs=SCRAPE)
    assert found["cost"] == pytest.approx(8 * 3.0, rel=0.02)


def test_job_of_a_few_scrapes_is_as_exact(known: Known) -> None:
    found = as_json(known, "4712")

    assert found["gpu_hours"] * 3600 == pytest.approx(SHORT, abs=0.05)
    assert found["utilization"] == pytest.approx(0.25, rel=0.02)


def test_job_that_was_requeued_on_another_node_held_one_gpu_at_a_time(known: Known) -> None:
    found = as_json(known, "4713")

    assert found["gpu_hours"] * 3600 == pytest.approx(2 * SHORT, abs=0.05)
    assert (found["gpus"], len(found["nodes"])) == (1, 2)


@pytest.mark.parametrize(("job", "seconds"), BRIEF.items())
def test_job_shorter_than_a_look_is_found_whole(known: Known, job: str, seconds: float) -> None:
    found = as_json(known, job)

    assert found["gpu_hours"] * 3600 == pytest.approx(seconds, abs=0.05)
    assert found["span"]["end"] - found["span"]["start"] == pytest.approx(seconds, abs=2 * SCRAPE)


def test_each_gpu_of_the_job_is_told_apart(known: Known) -> None:
    found = as_json(known, "4711")
    devices = {(each["node"], each["gpu"]): each for each in found["devices"]}

    assert len(devices) == 8
    assert "computing" not in devices["n1:9836", "1"]["hours"]
    assert devices["n1:9836", "0"]["hours"]["computing"] == pytest.approx(0.6, rel=0.02)
    assert devices["n2:9836", "3"]["hours"]["wait_cpu"] == pytest.approx(0.5, rel=0.02)
    assert sum(sum(each["hours"].values()) for each in found["devices"]) == pytest.approx(8, rel=0.02)
    assert {each["memory_peak_bytes"] for each in found["devices"]} == {60 * GIB}


def test_advice_is_ranked_by_the_hours_it_gives_back(known: Known) -> None:
    found = as_json(known, "4711")["advice"]

    assert [each["state"] for each in found] == [
        "unused", "wait_cpu", "wait_storage", "allocated_idle", "mixed_precision", "profile",
    ]  # fmt: skip
    assert [each["hours"] for each in found[1:4]] == pytest.approx([2.0, 1.2, 0.4], rel=0.02)


def test_running_job_tells_what_it_gets_done_and_what_it_still_needs(known: Known) -> None:
    """Its time is up to now, which on a busy machine is a while after its last sample."""
    found = as_json(known, "5005")
    longer = (found["span"]["until"] - found["span"]["start"]) / LASTED

    samples, steps = found["throughput"]["samples"], found["throughput"]["steps"]
    assert samples["per_second"] * longer == pytest.approx(320, rel=0.03)
    assert samples["per_gpu_hour"] == pytest.approx(320 * HOUR / 8, rel=0.01)
    assert samples["per_kwh"] == pytest.approx(320 / 2400 * 3.6e6, rel=0.01)
    assert steps["per_second"] * longer == pytest.approx(1, rel=0.03)  # both nodes take them together
    assert found["progress"]["model_flops_utilization"] == pytest.approx(0.4, rel=0.03)
    assert found["to_end"]["seconds"] == LEFT
    assert found["to_end"]["joules"] * longer == pytest.approx(2400 * LEFT, rel=0.03)
    assert found["to_end"]["cost"] * longer == pytest.approx(8 * 3.0, rel=0.03)


def test_runs_of_one_name_are_compared_before_and_after_a_change(known: Known) -> None:
    changed = datetime.fromtimestamp(known.runs["5004"] - 1, timezone.utc).isoformat()
    found = as_json(known, "5005")["runs"]
    text = report(known, "5005", "--changed-at", changed).stdout

    assert (found["name"], found["user"], found["work"]) == ("bert", "carol", "samples")
    assert [run["workload"] for run in found["runs"]] == [f"slurm:{run}" for run in known.runs]
    for line in (
        r"This one +20\d\d-.* 8 +20 min +144,000 +480,000 +800 Wh +-",
        r"Best: slurm:5004 .* 135,000 .* 6 min 40 s",
        r"Median of all 5 .* 99,000 .* 9 min 35 s",
        r"Before 20\d\d-\d\d-\d\d \d\d:\d\d: median of 3 .* 90,000 ",
        r"After 20\d\d-\d\d-\d\d \d\d:\d\d: median of 2 .* 139,500 ",
    ):
        assert re.search(line, text), text


def test_array_element_is_found_by_the_name_users_know(known: Known) -> None:
    assert as_json(known, "4709_2")["gpu_hours"] == pytest.approx(8.0, rel=0.02)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("text", 'Slurm job 4711 "train" of alice'),
        ("markdown", '# Slurm job 4711 "train" of alice'),
        ("html", "<title>Slurm job 4711 &quot;train&quot; of alice</title>"),
        ("short", "GPU 55 % used; 8 GPUs 59 min"),
    ],
)
def test_formats_tell_of_the_job(known: Known, form: str, says: str) -> None:
    command = [sys.executable, "-m", "exporter", "report", "4711", "--format", form, "--prometheus.url", known.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0
    assert says in done.stdout.replace("1 h", "59 min")
    assert "\x1b" not in done.stdout
    assert form != "short" or (done.stdout.count("\n") == 1 and len(done.stdout) <= 241)


def test_digest_equals_the_truth(known: Known) -> None:
    found = as_json(known, "--all", "--since", "12h")

    assert [row["labels"] for row in found["tables"]["user"]] == [{"user": "bob"}, {"user": "alice"}]
    for row in found["tables"]["user"]:
        account, allocated, wasted, state = DIGEST[row["labels"]["user"]]
        assert row["allocated"] == pytest.approx(allocated * DIGEST_HOURS)
        assert row["wasted"] == pytest.approx(wasted * DIGEST_HOURS)
        assert row["utilization"] == pytest.approx(1 - wasted / allocated)
        assert row["price_wasted"] == pytest.approx(wasted * DIGEST_HOURS * 1.8)
        assert row["state"] == state
        assert account in {each["labels"]["account"] for each in found["tables"]["account"]}
    assert found["causes"] == pytest.approx({"allocated_idle": 35.0, "wait_storage": 30.0})


def test_digest_of_one_user_is_that_users(known: Known) -> None:
    found = as_json(known, "--user", "alice", "--since", "12h")

    assert (found["allocated"], found["wasted"]) == pytest.approx((80.0, 30.0))
    assert [row["labels"]["workload"] for row in found["tables"]["workload"]] == ["slurm:4711"]


def test_digest_has_what_slurmdbd_has_of_its_jobs_and_what_to_ask_for_next_time(known: Known, tmp_path: Path) -> None:
    sacct = tmp_path / "sacct"
    times = f"{known.began:.0f}|{known.ended:.0f}|3600|600|2|32|04:00:00|3G"
    tres = "billing=64,cpu=32,gres/gpu=8,mem=256G,node=2"
    sacct.write_text(f"#!/bin/sh\necho '4711|4711|alice|physics|gpu|long|c1|COMPLETED|0:0|{times}|{tres}|'\n")
    sacct.chmod(0o755)
    found = as_json(known, "--user", "alice", "--since", "12h", "--slurm.sacct", str(sacct))

    (job,) = found["slurm_jobs"]
    assert (job["slurm"]["qos"], job["slurm"]["billing"], job["slurm"]["state"]) == ("long", 64.0, "COMPLETED")
    assert job["gpu_hours"] == pytest.approx(8.0, rel=0.02)
    assert set(job["next_time"]) >= {"--time=01:15:00", "--cpus-per-gpu=1"}
    said = report(known, "--user", "alice", "--since", "12h", "--slurm.sacct", str(sacct)).stdout
    assert "Slurm jobs that wasted most" in said
    assert "12 % of 32" in said


def test_job_of_the_same_id_in_another_cluster_is_not_taken_for_the_reported_one(known: Known, tmp_path: Path) -> None:
    """Sacct tells of this host's cluster; Prometheus has others', and the past before ids began anew."""
    sacct = tmp_path / "sacct"
    told: list[str] = []
    for user, began in (("alice", known.began), ("bob", known.began), ("alice", known.began - 8 * HOUR)):
        line = (
            f"4711|4711|{user}|a|gpu|q|c2|FAILED|1:0|{began:.0f}|{began + HOUR:.0f}|3600|600|2|32|04:00:00||gres/gpu=8|"
        )
        sacct.write_text(f"#!/bin/sh\necho '{line}'\n")
        sacct.chmod(0o755)
        told.append(as_json(known, "4711", "--slurm.sacct", str(sacct)).get("slurm", {}).get("state", ""))

    assert told == ["FAILED", "", ""]


def test_digest_has_the_numbers_of_the_waste_dashboard(known: Known) -> None:
    """The dashboard's own queries, as they are in its JSON, asked of the same Prometheus at the same time."""
    board = json.loads((Path(__file__).parents[2] / "dashboards/json/waste.json").read_text())
    found = as_json(known, "--all", "--since", "12h")
    for panel, level in (("Slurm accounts", "account"), ("Users", "user")):
        allocated, *_, wasted, price, _, _ = (
            ask(known, target["expr"], level, found["until"]) for target in targets(board, panel)
        )
        rows = {row["labels"][level]: row for row in found["tables"][level]}
        assert {key: row["allocated"] for key, row in rows.items()} == pytest.approx(allocated)
        assert {key: row["wasted"] for key, row in rows.items()} == pytest.approx(wasted)
        assert {key: row["price_wasted"] for key, row in rows.items()} == pytest.approx(price)


def targets(board: dict[str, Any], title: str) -> list[dict[str, Any]]:
    panel = next(each for each in board["panels"] if each.get("title") == title)
    found: list[dict[str, Any]] = panel["targets"]
    return found


def ask(known: Known, expr: str, level: str, at: float) -> dict[str, float]:
    for name, text in CONSTANTS.items():
        expr = expr.replace(f"${name}", text)
    expr = expr.replace("$cluster", ".*").replace("$__range", "43200s")
    answer = requests.get(f"{known.url}/api/v1/query", params={"query": expr, "time": str(at)}, timeout=30).json()
    return {row["metric"].get(level, ""): float(row["value"][1]) for row in answer["data"]["result"]}


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["999"], 3, "no data about Slurm job 999 in the last 7 d"),
        (["999_1"], 3, "no data about Slurm job 999_1"),
        (["--pod", "team/none"], 3, "no data about Pod team/none"),
        (["--user", "nobody"], 3, "no data about user nobody"),
        (["4711", "--prometheus.headers", "nonsense"], 2, "--prometheus.headers: expected NAME=VALUE"),
    ],
)
def test_what_is_not_there_is_one_line_with_a_status(
    known: Known, arguments: list[str], status: int, says: str
) -> None:
    done = report(known, *arguments)

    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
