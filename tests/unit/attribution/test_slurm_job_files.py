"""The file that the kit's prolog writes of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm.job import Job, JobVariables, mig_instances
from exporter.attribution.slurm.prolog_files import JobFile, job_of, parse_job_file

MIG = "MIG-00000000-0000-0000-0000-000000000001"
FILE = f"""\
SLURM_JOB_ID=7
SLURM_JOB_GPUS=0,2-3
CUDA_VISIBLE_DEVICES={MIG}
SLURM_JOB_USER=alice
SLURM_JOB_ACCOUNT=(null)
SLURM_JOB_PARTITION=gpu
SLURM_JOB_NAME=a=b c
SLURM_ARRAY_JOB_ID=5
SLURM_ARRAY_TASK_ID=2
SLURM_HET_JOB_ID=6
SLURM_HET_JOB_OFFSET=1
SLURM_JOB_START_TIME=1000
SLURM_JOB_END_TIME=4600
BOOT_ID=abc
"""


def test_all_that_the_prolog_knew() -> None:
    job = Job(
        "7", "alice", "", "gpu", "a=b c", array_job="5", array_task="2", het_job="6", het_offset="1",
        time_limit_seconds=3600.0, start_time=1000.0, gres=None,
    )  # fmt: skip
    assert parse_job_file("7", FILE) == JobFile(JobVariables(job, (0, 2, 3), (DeviceName(uuid=MIG),)), "abc")


@pytest.mark.parametrize(
    ("end", "limit"), [(4600, 3600.0), (31_536_000 + 1000, None), (31_536_060 + 1000, 31_536_060.0)]
)
def test_job_that_slurm_would_let_run_a_year_has_no_limit(end: int, limit: float | None) -> None:
    """For so long runs a job with TimeLimit=UNLIMITED, by what its prolog is told (24.11)."""
    found = parse_job_file("7", FILE.replace("END_TIME=4600", f"END_TIME={end}"))

    assert found
    assert found.variables.job.time_limit_seconds == limit


@pytest.mark.parametrize("text", ["", "SLURM_JOB_ID=8\n", "7\n", "SLURM_JOB_ID\n"])
def test_file_of_no_or_another_job_is_none(text: str) -> None:
    assert parse_job_file("7", text) is None


@pytest.mark.parametrize(
    ("name", "job"), [("job_7", "7"), ("job_", ""), ("job_7.new", ""), (".new.7", ""), ("7", ""), ("job_x", "")]
)
def test_names(name: str, job: str) -> None:
    assert job_of(name) == job


def test_only_mig_instances_are_taken_from_what_cuda_sees() -> None:
    old = "MIG-GPU-00000000-0000-0000-0000-000000000001/3/0"

    assert mig_instances(f"0,GPU-00000000-0000-0000-0000-000000000001,{MIG},{old},MIG-nonsense") == (
        DeviceName(uuid=MIG),
        DeviceName(uuid="GPU-00000000-0000-0000-0000-000000000001", gpu_instance=3, compute_instance=0),
    )


@given(st.text(), st.text())
def test_any_text_is_survived(name: str, text: str) -> None:
    parse_job_file(job_of(name), text)
    parse_job_file("7", f"SLURM_JOB_ID=7\n{text}")
    mig_instances(text)


_ALL_TOLD = f"{FILE}SLURM_JOB_RESTART_COUNT=2\nSLURM_JOB_NUM_NODES=4\n"


def test_newer_slurm_tells_its_prolog_all_there_is() -> None:
    found = parse_job_file("7", _ALL_TOLD)

    assert found
    assert found.complete
    assert (found.variables.job.restarts, found.variables.job.node_count) == (2, 4)


@pytest.mark.parametrize("text", [FILE, f"{_ALL_TOLD}SLURM_SHARDS_ON_NODE=2\n"])
def test_older_slurm_and_parts_of_gpus_leave_something_to_ask(text: str) -> None:
    found = parse_job_file("7", text)

    assert found
    assert not found.complete


@pytest.mark.parametrize("nothing", ["(null)", "N/A"])
def test_what_slurm_writes_for_nothing_is_nothing(nothing: str) -> None:
    found = parse_job_file(
        "7", f"SLURM_JOB_ID=7\nSLURM_JOB_GPUS=0\nSLURM_JOB_ACCOUNT={nothing}\nSLURM_JOB_QOS={nothing}\n"
    )

    assert found is not None
    assert (found.variables.job.account, found.variables.job.qos) == ("", "")
