"""A job's line in the list of summaries, and its facts in a report: what is not known is left out, and never 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.document import Facts
from exporter.tools.report.summary import slurm, summary, table
from tests.unit.summaries.reports import JOB, report


def row(job: AccountedJob | None) -> dict[str, str]:
    shown = table([summary("5_9", report(), job)])
    return dict(zip([name.lstrip(">") for name in shown.head], shown.rows[0], strict=True))


def test_whole_line() -> None:
    assert row(JOB) == {
        "job": "5_9",
        "user": "alice",
        "state": "COMPLETED",
        "time": "1 h of 2 h",
        "GPUs": "2",
        "used": "38 %",
        "GPU h lost": "1.2 h",
        "most on": "Allocated, idle",
        "CPUs": "9 % of 16",
        "memory": "14 % of 64.0 GiB",
        "QOS": "normal",
        "TRES hours": "20",
        "next time": "--mem=11G --cpus-per-gpu=1",
    }


@pytest.mark.parametrize(("job", "shown"), [(JOB, "2"), (replace(JOB, gpus=0.0), "-"), (None, "-")])
def test_gpus_of_a_job_that_no_scrape_saw_are_those_that_slurm_gave_it(job: AccountedJob | None, shown: str) -> None:
    """It was 0 GPUs with GPU hours."""
    unseen = report()
    unseen = replace(unseen, nodes=tuple(replace(node, gpus=0.0) for node in unseen.nodes))

    assert table([summary("5_9", unseen, job)]).rows[0][4] == shown


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"state": "FAILED", "exit_code": "1:0"}, {"state": "FAILED 1:0"}),
        ({"exit_code": ""}, {"state": "COMPLETED"}),
        ({"elapsed": 0.0}, {"time": "1 h of 2 h"}),
        ({"time_limit": None}, {"time": "1 h"}),
        ({"cpus": 0}, {"CPUs": ""}),
        ({"cpu_seconds": None}, {"CPUs": "16"}),
        ({"cpu_seconds": 0.0}, {"CPUs": "0 % of 16"}),
        ({"memory_bytes": None}, {"memory": ""}),
        ({"memory_peak_bytes": None}, {"memory": "64.0 GiB"}),
        ({"nodes": 2}, {"memory": "28 % of 32.0 GiB"}),
        ({"nodes": 0}, {"memory": "14 % of 64.0 GiB"}),
        ({"billing": None}, {"TRES hours": ""}),
    ],
)
def test_what_is_not_known_is_left_out(changed: dict[str, Any], shown: dict[str, str]) -> None:
    found = row(replace(JOB, **changed))

    assert {name: found[name] for name in shown} == shown


def test_job_that_slurmdbd_does_not_know_has_what_its_metrics_say() -> None:
    found = row(None)

    assert (found["user"], found["time"], found["GPUs"]) == ("alice", "1 h", "2")
    assert [found[name] for name in ("state", "CPUs", "memory", "QOS", "TRES hours", "next time")] == [""] * 6


def facts(job: AccountedJob) -> dict[str, str]:
    blocks = slurm(report(), job).blocks
    return dict(next(block for block in blocks if isinstance(block, Facts)).rows)


def test_facts_of_a_report() -> None:
    assert facts(JOB) == {
        "state": "COMPLETED, exit code 0:0",
        "time": "1 h of 2 h",
        "CPUs": "16, 9 % used",
        "memory": "64.0 GiB, 9.0 GiB used at most by a process",
        "QOS": "normal",
        "billing": "20 TRES, 20 TRES hours",
    }


def test_facts_that_are_not_known_are_left_out() -> None:
    bare = AccountedJob("11", "11", state="CANCELLED", exit_code="0:15", elapsed=60.0, cpus=4, memory_bytes=1 << 30)

    assert facts(bare) == {
        "state": "CANCELLED, exit code 0:15",
        "time": "1 min",
        "CPUs": "4",
        "memory": "1.0 GiB",
        "QOS": "",
    }
    assert facts(AccountedJob("11", "11", state="FAILED", exit_code="1:0")) == {
        "state": "FAILED, exit code 1:0",
        "time": "0 s",
        "QOS": "",
    }
