"""A job's own word, from its environment."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.slurm.job import Job, JobVariables, job_variables, merged, parse, read_environ

BLOCK = (
    b"PATH=/bin\0SLURM_JOB_ID=7\0SLURM_JOB_GPUS=2,3\0SLURM_STEP_GPUS=2\0SLURM_JOB_USER=alice\0"
    b"SLURM_JOB_PARTITION=gpu\0SLURM_JOB_ACCOUNT=physics\0SLURM_JOB_NAME=my job\0SECRET=x\0"
)


def test_job_is_claimed_with_all_its_gpus() -> None:
    assert job_variables(parse(BLOCK)) == JobVariables(Job("7", "alice", "physics", "gpu", "my job", gres=None), (2, 3))


def test_step_gpus_count_only_where_the_jobs_are_missing() -> None:
    assert job_variables({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "4-5"}).gpus == (4, 5)


def test_job_says_how_large_it_is() -> None:
    said = job_variables(parse(BLOCK + b"SLURM_JOB_NUM_NODES=2\0SLURM_NTASKS=16\0"))

    assert (said.job.node_count, said.job.task_count) == (2, 16)
    assert job_variables(parse(b"SLURM_JOB_ID=7\0SLURM_NTASKS=many\0")).job.task_count is None


def test_no_more_of_an_environment_is_read_than_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/environ").write_bytes(b"FILL=" + b"x" * (1 << 20) + b"\0SLURM_JOB_ID=7\0")

    assert read_environ(7, tmp_path) == JobVariables()


def test_nothing_but_slurms_variables_is_looked_at() -> None:
    assert set(parse(BLOCK)) == {
        "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_JOB_USER",
        "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_NAME",
    }  # fmt: skip


def test_id_that_is_no_number_is_none() -> None:
    assert job_variables({"SLURM_JOB_ID": "7; rm"}).job.id == ""


def test_processes_of_a_job_claim_together_and_others_do_not_count() -> None:
    found = merged(
        "7",
        [
            JobVariables(),
            JobVariables(Job("7", "a"), (1,)),
            JobVariables(Job("7"), (0, 1)),
            JobVariables(Job("8"), (5,)),
        ],
    )

    assert found == JobVariables(Job("7", "a"), (0, 1))
    assert merged("9", [JobVariables(Job("7"))]) is None


def test_process_that_has_gone_claims_nothing(tmp_path: Path) -> None:
    assert read_environ(os.getpid(), tmp_path) == JobVariables()


def test_long_values_are_cut_and_long_ids_are_none() -> None:
    gpus = b"SLURM_JOB_GPUS=" + b",".join([b"0-65535"] * 6000)
    found = job_variables(parse(b"\0".join((b"SLURM_JOB_ID=" + b"7" * 5000, b"SLURM_JOB_NAME=" + b"x" * 5000, gpus))))

    assert (found.job.id, len(found.job.name) <= 256, len(found.gpus) <= 1024) == ("", True, True)


@given(st.binary())
def test_any_block_is_survived(block: bytes) -> None:
    job_variables(parse(block))
