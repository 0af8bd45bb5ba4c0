"""Prolog and epilog: one file per GPU, right under concurrency, the same when run again, and never a failed job."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exporter.attribution.slurm import prolog_files

KIT = Path(__file__).resolve().parents[3] / "deploy/slurm"
PROLOG, EPILOG = KIT / "prolog.d/gpu-exporter", KIT / "epilog.d/gpu-exporter"


def run(script: Path, folder: Path, job: str, gpus: str | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "GPU_EXPORTER_JOBS": str(folder), "SLURM_JOB_ID": job}
    if gpus is not None:
        environment["SLURM_JOB_GPUS"] = gpus
    return subprocess.run([script], env=environment, capture_output=True, timeout=30, check=False)


def held(folder: Path) -> Mapping[str, list[str]]:
    return {file.name: file.read_text().split() for file in sorted(folder.glob("[0-9]*"))}


def test_job_is_noted_on_its_gpus_and_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    run(PROLOG, folder, "7", "0,2-4")
    run(PROLOG, folder, "8", "2")

    assert held(folder) == {"0": ["7"], "2": ["7", "8"], "3": ["7"], "4": ["7"]}
    run(EPILOG, folder, "7")
    assert held(folder) == {"2": ["8"]}
    run(EPILOG, folder, "8", "2")
    assert held(folder) == {}


def test_running_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        run(PROLOG, tmp_path, "7", "1")
    assert held(tmp_path) == {"1": ["7"]}
    for _ in range(2):
        assert run(EPILOG, tmp_path, "7").returncode == 0
    assert held(tmp_path) == {}


def test_many_jobs_at_once_lose_nothing(tmp_path: Path) -> None:
    jobs = [str(number) for number in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: run(PROLOG, tmp_path, job, "0,1"), jobs))
        assert {gpu: sorted(map(int, found)) for gpu, found in held(tmp_path).items()} == {
            "0": list(range(1, 25)),
            "1": list(range(1, 25)),
        }
        list(pool.map(lambda job: run(EPILOG, tmp_path, job), jobs[:-1]))
    assert held(tmp_path) == {"0": ["24"], "1": ["24"]}


def test_jobs_that_end_take_nothing_from_jobs_that_begin(tmp_path: Path) -> None:
    """All on one GPU: an epilog writes its file anew while prologs add to it."""
    old, new = [str(number) for number in range(100, 160)], [str(number) for number in range(200, 260)]
    (tmp_path / "0").write_text("99\n" + "".join(f"{job}\n" for job in old))
    with ThreadPoolExecutor(8) as pool:
        hooks = [hook for pair in zip(old, new, strict=True) for hook in ((EPILOG, pair[0]), (PROLOG, pair[1]))]
        list(pool.map(lambda hook: run(hook[0], tmp_path, hook[1], "0"), hooks))

    assert sorted(held(tmp_path)["0"]) == sorted(["99", *new])


@pytest.mark.parametrize("script", [PROLOG, EPILOG], ids=["prolog", "epilog"])
@pytest.mark.parametrize(
    ("folder", "job", "gpus"),
    [
        ("/proc/nowhere", "7", "0"),
        ("/dev/null", "7", "0"),
        ("{tmp}", "", "0"),
        ("{tmp}", "7; rm -rf /", "0"),
        ("{tmp}", "7", ""),
        ("{tmp}", "7", None),
        ("{tmp}", "7", "../../etc/passwd,GPU-1,-1,3-,*"),
    ],
)
def test_nothing_fails_the_job(tmp_path: Path, script: Path, folder: str, job: str, gpus: str | None) -> None:
    done = run(script, Path(folder.format(tmp=tmp_path)), job, gpus)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert held(tmp_path) == {}


def test_files_are_what_the_exporter_reads(tmp_path: Path) -> None:
    run(PROLOG, tmp_path, "7", "0,1")
    run(PROLOG, tmp_path, "8", "1")

    found = prolog_files.read(tmp_path)
    assert {job: [device.index for device in devices] for job, devices in found.items()} == {"7": [0, 1], "8": [1]}
