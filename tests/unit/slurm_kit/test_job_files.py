"""Prolog and epilog: one file per job with all the prolog knows, that nobody else can hold, read or forge."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

KIT = Path(__file__).resolve().parents[3] / "deploy/slurm"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")


def run(hook: str, folder: Path, job: str, gpus: str | None = None, **more: str) -> subprocess.CompletedProcess[bytes]:
    environment = {"SLURM_JOB_ID": job, **more}  # no PATH: slurmd gives its prolog none
    if gpus is not None:
        environment["SLURM_JOB_GPUS"] = gpus
    return subprocess.run([KIT / hook, folder], env=environment, capture_output=True, timeout=30, check=False)


def told(folder: Path) -> Mapping[str, Mapping[str, str]]:
    return {file.name: dict(line.split("=", 1) for line in file.read_text().splitlines()) for file in folder.iterdir()}


def test_job_is_noted_with_all_the_prolog_knows_and_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "run/jobs"
    known = {"SLURM_JOB_USER": "alice", "SLURM_JOB_ACCOUNT": "physics", "SLURM_JOB_PARTITION": "gpu"}
    known |= {"CUDA_VISIBLE_DEVICES": "0,2", "SLURM_JOB_RESTART_COUNT": "1", "SLURM_ARRAY_JOB_ID": "5"}
    run("prolog", folder, "7", "0,2", **known, SLURM_JOB_COMMENT="mine")
    run("prolog", folder, "8", "2")

    assert told(folder) == {
        "job_7": {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2", **known, "BOOT_ID": BOOT},
        "job_8": {"SLURM_JOB_ID": "8", "SLURM_JOB_GPUS": "2", "BOOT_ID": BOOT},
    }
    run("epilog", folder, "7")
    assert set(told(folder)) == {"job_8"}


def test_running_again_changes_nothing(tmp_path: Path) -> None:
    run("prolog", tmp_path, "7", "1")
    once = told(tmp_path)
    run("prolog", tmp_path, "7", "1")
    assert told(tmp_path) == once
    for _ in range(2):
        assert run("epilog", tmp_path, "7").returncode == 0
    assert told(tmp_path) == {}


def test_many_jobs_at_once_lose_nothing(tmp_path: Path) -> None:
    old, new = [str(number) for number in range(100, 124)], [str(number) for number in range(200, 224)]
    for job in old:
        (tmp_path / f"job_{job}").touch()
    hooks = [hook for pair in zip(old, new, strict=True) for hook in (("epilog", pair[0]), ("prolog", pair[1]))]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda hook: run(hook[0], tmp_path, hook[1], "0,1"), hooks))

    assert set(told(tmp_path)) == {f"job_{job}" for job in new}


def test_text_of_a_user_adds_no_line(tmp_path: Path) -> None:
    run("prolog", tmp_path, "7", "1", SLURM_JOB_NAME="train\nSLURM_JOB_GPUS=0,1,2", SLURM_JOB_USER="alice")

    assert told(tmp_path)["job_7"] == {
        "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURM_JOB_USER": "alice", "BOOT_ID": BOOT,
    }  # fmt: skip


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize(
    ("folder", "job", "gpus"),
    [
        ("/proc/nowhere", "7", "0"),
        ("/dev/null", "7", "0"),
        ("{tmp}", "", "0"),
        ("{tmp}", "7; rm -rf /", "0"),
        ("{tmp}", "../7", "0"),
        ("{tmp}", "7x", "0"),
        ("{tmp}", "7", ""),
        ("{tmp}", "7", None),
    ],
)
def test_nothing_fails_the_job(tmp_path: Path, hook: str, folder: str, job: str, gpus: str | None) -> None:
    assert run(hook, Path(folder.format(tmp=tmp_path)), job, gpus).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_epilog_removes_only_what_is_of_the_job(tmp_path: Path) -> None:
    for name in ("job_7", ".new.7", "job_8", "job_7x"):
        (tmp_path / name).touch()
    for job in ("7", "7x"):
        run("epilog", tmp_path, job)

    assert {file.name for file in tmp_path.iterdir()} == {"job_8", "job_7x"}


@AS_ROOT
def test_file_is_for_the_group_of_its_folder_and_nobody_else(tmp_path: Path) -> None:
    os.chown(tmp_path, 0, 65534)
    run("prolog", tmp_path, "7", "0")
    written = (tmp_path / "job_7").stat()

    assert (written.st_uid, written.st_gid, written.st_mode & 0o7777) == (0, 65534, 0o640)


def test_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "jobs").symlink_to(tmp_path / "elsewhere")

    assert run("prolog", tmp_path / "jobs", "7", "0").returncode == 0
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    """A write that fails, as on a full disk: the new file is a name that cannot be written to."""
    (tmp_path / ".new.7").symlink_to("/dev/full")

    assert run("prolog", tmp_path, "7", "0").returncode == 0
    assert list(tmp_path.iterdir()) == []


@AS_ROOT
@pytest.mark.parametrize(
    "attempt",
    [
        "exec 9<{jobs}/job_7 && flock -n 9",
        "ls {jobs}",
        "cat {jobs}/job_7",
        "echo SLURM_JOB_GPUS=0 > {jobs}/job_8",
        "ln -s /etc/passwd {jobs}/job_8",
        "mkfifo {jobs}/job_8",
        "mv {jobs} {jobs}.mine",
    ],
)
def test_another_user_can_neither_hold_nor_read_nor_forge(tmp_path: Path, attempt: str) -> None:
    shared = Path(tempfile.gettempdir())  # everybody's, and not ours to change
    for folder in (each for each in (tmp_path, *tmp_path.parents) if shared in each.parents):
        folder.chmod(0o755)
    jobs = tmp_path / "jobs"
    run("prolog", jobs, "7", "0")
    done = subprocess.run(
        ["sh", "-c", attempt.format(jobs=jobs)], user="nobody", group="nogroup", extra_groups=[],
        capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode != 0
    assert set(told(jobs)) == {"job_7"}


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_copied_stub_succeeds_when_the_program_is_gone_or_fails_or_hangs(tmp_path: Path, hook: str) -> None:
    program = tmp_path / hook
    stub = tmp_path / "stub"
    text = (KIT / f"{hook}.d/gpu-exporter").read_text()
    stub.write_text(text.replace("/usr/lib/gpu-exporter/slurm", str(tmp_path)).replace("-k 1 5", "-k 1 0.2"))
    stub.chmod(0o755)
    results = [subprocess.run([stub], check=False, timeout=20).returncode]
    for body in ("exit 1", "exec sleep 600", "trap '' TERM; while :; do sleep 1; done"):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        results.append(subprocess.run([stub], check=False, timeout=20).returncode)

    assert results == [0, 0, 0, 0]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_copied_stub_runs_its_own_hook(tmp_path: Path, hook: str) -> None:
    for name in ("prolog", "epilog"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran.{name}\n")
        (tmp_path / name).chmod(0o755)
    stub = tmp_path / "stub"
    stub.write_text((KIT / f"{hook}.d/gpu-exporter").read_text().replace("/usr/lib/gpu-exporter/slurm", str(tmp_path)))
    stub.chmod(0o755)
    subprocess.run([stub], check=True, timeout=20)

    assert [file.name for file in tmp_path.glob("ran.*")] == [f"ran.{hook}"]


def test_end_of_a_job_is_noted_for_the_controllers_worker(tmp_path: Path) -> None:
    hook = tmp_path / "epilogctld"
    text = (KIT / "epilogctld").read_text()
    hook.write_text(text.replace("/var/lib/gpu-exporter-summaries", str(tmp_path)))
    shutil.copymode(KIT / "epilogctld", hook)
    for job in ("7", "../8", ""):  # no spool yet
        assert subprocess.run([hook], env={"SLURM_JOB_ID": job}, check=False, timeout=20).returncode == 0
    (tmp_path / "ended").mkdir()
    for job in ("7", "../8", ""):
        assert subprocess.run([hook], env={"SLURM_JOB_ID": job}, check=False, timeout=20).returncode == 0

    assert [file.name for file in (tmp_path / "ended").iterdir()] == ["7"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ended", "epilogctld"]


def test_controllers_hook_succeeds_where_its_spool_cannot_be_written(tmp_path: Path) -> None:
    hook = tmp_path / "epilogctld"
    hook.write_text((KIT / "epilogctld").read_text().replace("/var/lib/gpu-exporter-summaries", str(tmp_path)))
    (tmp_path / "ended/7").mkdir(parents=True)  # as good as a full disk, also for root
    done = subprocess.run(["sh", hook], env={"SLURM_JOB_ID": "7"}, capture_output=True, timeout=30, check=False)

    assert done.returncode == 0


@AS_ROOT
def test_first_two_jobs_after_a_boot_are_both_for_the_folders_group(tmp_path: Path) -> None:
    """The second prolog runs while the first has made the folder and not yet given it to the group."""
    folder, tools = tmp_path / "run/jobs", tmp_path / "tools"
    tools.mkdir()
    second = f"SLURM_JOB_ID=8 SLURM_JOB_GPUS=1 PATH=$PATH TOLD=1 '{KIT}/prolog' {folder}"
    script = (
        f'[ "$1" != gpu-exporter ] || {{ shift; set -- 65534 "$@"; [ "$TOLD" ] || {second}; }}\nexec /bin/chgrp "$@"'
    )
    (tools / "chgrp").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "chgrp").chmod(0o755)
    run("prolog", folder, "7", "0", PATH=f"{tools}:/usr/bin:/bin")

    assert {file.name: file.stat().st_gid for file in folder.iterdir()} == {"job_7": 65534, "job_8": 65534}
    assert (folder.stat().st_gid, folder.stat().st_mode & 0o7777) == (65534, 0o750)
    assert list(folder.parent.iterdir()) == [folder]
