"""Slurm jobs of a digest, joined with what slurmdbd has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.client import NoDataError, UnreachableError
from exporter.tools.report.model import Digest, JobReport, Row
from exporter.tools.report.summary import MAX_JOBS, jobs, slurm_jobs, table
from tests.unit.summaries.reports import JOB, device, report

NOW = 10_000_000.0


def row(workload: str, user: str = "alice") -> Row:
    return Row({"workload": workload, "user": user}, 1.0, 0.5, 0.5, None, "allocated_idle")


def digest(*rows: Row) -> Digest:
    return Digest("user alice", NOW - 604800, NOW, 1.0, 0.5, {"workload": rows}, {})


class Slurm:
    """slurmdbd with these jobs, and the Prometheus that has their metrics."""

    def __init__(self, *known: AccountedJob) -> None:
        self.known = {job.raw_id: job for job in known}
        self.asked: list[Sequence[str]] = []
        self.failing: Exception | None = None
        self.spans: list[tuple[str, float, float]] = []

    def jobs(self, raw_ids: Sequence[str]) -> Mapping[str, AccountedJob]:
        self.asked.append(raw_ids)
        return {job: self.known[job] for job in raw_ids if job in self.known}

    def report(self, job: str, back: float, until: float) -> JobReport:
        self.spans.append((job, back, until))
        if self.failing:
            raise self.failing
        return report(device(0, 0.5), device(1, 0.0))


ENDED = replace(JOB, raw_id="11", name="9_2", start=NOW - 7200, end=NOW - 3600)


def test_jobs_have_what_slurmdbd_says_and_the_flags_of_the_report_on_one() -> None:
    slurm = Slurm(ENDED)
    (found,) = jobs(digest(row("slurm:11"), row("team/llm"), row("slurm:12")), slurm, slurm.report)

    assert slurm.asked == [["11", "12"]]
    assert slurm.spans == [("11", 3600 + 600, NOW - 3300)]
    assert (found["job"], found["slurm"]["qos"], found["slurm"]["state"]) == ("9_2", "normal", "COMPLETED")
    assert "--gpus=1" in found["next_time"]


def test_job_that_runs_is_told_up_to_now() -> None:
    slurm = Slurm(replace(ENDED, end=None, state="RUNNING"))
    jobs(digest(row("slurm:11")), slurm, slurm.report)

    assert slurm.spans == [("11", 7200 + 300, NOW)]


def test_job_of_another_clusters_user_is_not_taken_for_this_ones() -> None:
    slurm = Slurm(ENDED)

    assert jobs(digest(row("slurm:11", "mallory")), slurm, slurm.report) == []


@pytest.mark.parametrize("failing", [NoDataError("too old"), UnreachableError("away")])
def test_job_without_metrics_is_left_out(failing: Exception) -> None:
    slurm = Slurm(ENDED)
    slurm.failing = failing

    assert jobs(digest(row("slurm:11")), slurm, slurm.report) == []
    assert slurm_jobs([]) is None


def test_only_the_first_are_asked_about_and_nobody_without_jobs() -> None:
    slurm = Slurm()
    jobs(digest(*(row(f"slurm:{number}") for number in range(100))), slurm, slurm.report)
    jobs(digest(row("team/llm"), row("slurm:x")), slurm, slurm.report)

    assert [len(asked) for asked in slurm.asked] == [MAX_JOBS]


def test_row_of_the_list_has_all_that_seff_has() -> None:
    slurm = Slurm(replace(ENDED, state="FAILED", exit_code="1:0", qos="normal", billing=8.0, elapsed=3600.0))
    (shown,) = table(jobs(digest(row("slurm:11")), slurm, slurm.report)).rows

    assert shown[:6] == ("9_2", "alice", "FAILED 1:0", "1 h of 2 h", "2", "38 %")
    assert shown[8:12] == ("9 % of 16", "14 % of 64.0 GiB", "normal", "8")
