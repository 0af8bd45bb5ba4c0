"""A check that runs in the cgroup of a Slurm job sees the GPUs of that job alone: PrologFlags=RunInJob."""

from __future__ import annotations

import pytest

from exporter.faults.evaluate import evaluate
from exporter.faults.rule import Limits, Verdict
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.reading import constraining_job, seen_within

ONE = 'gpu_exporter_build_info{version="1"} 1\ngpu_up{gpu="0",uuid="GPU-a"} 1\ngpu_devices{source="driver"} 1\n'
LOST = 'gpu_fault_timestamp_seconds{gpu="1",uuid="GPU-b",fault="lost",evidence="history",action="restart"} 1\n'
HOT = 'gpu_fault_timestamp_seconds{gpu="0",uuid="GPU-a",fault="lost",evidence="xid 79",action="restart"} 1\n'


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("6:freezer:/slurm_n1/uid_0/job_44\n5:devices:/slurm_n1/uid_0/job_44/step_extern\n0::/\n", "44"),
        ("6:freezer:/slurm_n1/uid_0/job_44\n5:devices:/\n", ""),
        ("0::/system.slice/slurmstepd.scope/job_44/step_extern/slurm\n", "44"),
        ("0::/system.slice/slurmd.service\n", ""),
        ("", ""),
    ],
)
def test_job_whose_devices_a_process_may_open(text: str, job: str) -> None:
    """As the prolog of Slurm 24.11 is found with cgroup v1, its epilog, and both with cgroup v2."""
    assert constraining_job(text) == job


@pytest.mark.parametrize(("more", "gpus"), [("", 8), (LOST, 0), ('gpu_up{gpu="1",uuid="GPU-b"} 0\n', 0)])
def test_gpu_that_a_job_may_not_open_is_not_missed_from_within(more: str, gpus: int) -> None:
    facts = parse(ONE + more, 0.0)
    report = evaluate(facts, Limits(gpus=gpus))

    assert report.verdict is Verdict.FAILED
    assert seen_within(report, facts, "") == report
    assert seen_within(report, facts, "44").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("more", ["", HOT])
def test_what_is_found_of_the_jobs_own_gpus_counts_there_too(more: str) -> None:
    facts = parse(ONE + more, 0.0)
    report = evaluate(facts, Limits())

    assert report.verdict is (Verdict.FAILED if more else Verdict.OK)
    assert seen_within(report, facts, "44") == report
