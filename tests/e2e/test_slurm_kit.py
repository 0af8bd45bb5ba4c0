"""The Slurm kit on a real Slurm, over a fake driver: prolog, epilog, report, summaries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.slurm.scontrol import ShowJob
from exporter.tools.report.accounting.sacct import AccountedJob, Sacct
from exporter.tools.report.summaries.jobstats import Commenter
from tests.attribution_kit.slurm_cluster import LACKING, TRACKING
from tests.attribution_kit.slurm_kit import KIT, ROOT, Kit
from tests.attribution_kit.slurm_user import tries
from tests.exporter_process import exporter
from tests.stack import poll, prometheus

# Two clusters on one machine would see each other's jobs: those tests take turns.
pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.skipif(bool(LACKING), reason=LACKING)]

ALLOCATED = 45.0
"""Seconds the job holds its GPUs."""


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    with Kit(TRACKING[0]) as started:
        yield started


def noted(kit: Kit, job: str) -> Mapping[str, str]:
    """What the prolog wrote of the job; empty where it wrote nothing, or the epilog was there."""
    file = kit.work / f"gpumap/job_{job}"
    return dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}


def moment(kit: Kit, hook: str, job: str) -> float:
    """When the prolog or epilog of a job ran, Unix seconds."""
    return float((kit.work / f"{hook}.{job}").read_text().split()[0])


def sbatch(kit: Kit, *arguments: str) -> str:
    return kit.run("sbatch", "--parsable", "-o", "/dev/null", *arguments).strip()


def test_jobs_are_noted_and_forgotten_and_the_report_equals_the_truth(
    kit: Kit, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    arguments = (
        *("--sample.interval", "500ms"),
        *("--attribution.slurm", "on", "--attribution.slurm.mapping-dir", f"{kit.work}/gpumap"),
        *(
            "--slurm.scontrol",
            str(kit.scontrol),
            "--attribution.slurm.gres-conf",
            f"{kit.work}/etc/gres.conf",
        ),
    )
    environment = {**os.environ, **kit.driver, "SLURMD_NODENAME": kit.node}
    with exporter(tmp_path, *arguments, environment=environment) as running:
        config = tmp_path / "prometheus.yml"
        static = f"{{targets: ['{running.url.removeprefix('http://')}'], labels: {{node: {kit.node}}}}}"
        config.write_text(
            f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: gpu, static_configs: [{static}]}}]\n"
        )
        with prometheus(config, tmp_path) as url:
            job, found = _run_job(kit, running.until, url)
            summaries = _summarize(kit, url)
            _check_nodes(kit, url)

    allocated = moment(kit, "epilog", job) - moment(kit, "prolog", job)
    told = found["gpu_hours"] * 3600
    record_property("measured", f"held {2 * allocated:.2f} GPU s by prolog and epilog, {told:.2f} by the report")
    assert told == pytest.approx(2 * allocated, rel=0.02)
    assert found["energy_joules"] == pytest.approx(2 * allocated * 350, rel=0.02)
    assert found["utilization"] == pytest.approx(0.4, rel=0.02)
    assert found["span"]["end"] is not None
    assert (found["name"]["job_name"], found["name"]["account"]) == ("train", "physics")
    assert found["gpus"] == 2
    assert len(found["devices"]) == 2
    _check_summary(kit, job, found, summaries)


def _check_summary(kit: Kit, job: str, found: Mapping[str, Any], summaries: Sequence[Mapping[str, Any]]) -> None:
    """The worker's is the report's, with what slurmdbd has, and is in slurmdbd."""
    (summary,) = (each for each in summaries if each["job"] == job)
    assert summary["gpu_hours"] == pytest.approx(found["gpu_hours"])
    assert (summary["slurm"]["gpus"], summary["slurm"]["state"]) == (2.0, "CANCELLED")
    assert summary["slurm"]["elapsed"] == pytest.approx(ALLOCATED, abs=5)
    assert found["slurm"] == summary["slurm"]
    comment = kit.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "AdminComment")
    assert comment.startswith(("gpu 40 % used; 2 gpus ", "JS1:"))  # Slurm 22.05 keeps no capital and has the text


def _check_nodes(kit: Kit, url: str) -> None:
    """The node as sinfo shows nodes, with what its exporter says."""
    command = [sys.executable, str(KIT / "gpuinfo.py"), "--prometheus.url", url, "--scontrol", str(kit.scontrol)]
    head, line = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert head.split() == ["NODE", "PARTITION", "STATE", "GPUS", "ALLOC", "BUSY", "ALLOCATED_IDLE", "FAULTS"]
    *known, idle, faults = line.split()
    assert (known, faults) == ([kit.node, "gpu", "idle", "8", "0", "40%"], "0")
    assert float(idle) <= 0.3  # on a machine under load the program starts later than the job


def _summarize(kit: Kit, url: str) -> list[dict[str, Any]]:
    """Two rounds of the controller's worker, and what it has made then."""
    command = [sys.executable, "-m", "exporter", "summaries", "--state.dir", str(kit.work), "--prometheus.url", url]
    work = ("--settle", "1ms")
    for arguments in (work, work, ("--list", "--format", "json")):
        done = subprocess.run(
            [*command, *arguments], env=kit.commands, capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
    assert list((kit.work / "ended").iterdir()) == []
    return [json.loads(line) for line in done.stdout.splitlines()]


def _run_job(kit: Kit, until: Callable[..., Any], url: str) -> tuple[str, dict[str, Any]]:
    """One job on two GPUs from start to end; its id, and the report on it once it has ended."""
    job = sbatch(kit, "-J", "train", "-A", "physics", "--gres=gpu:2", "--wrap", f"exec {kit.hold}")
    told = poll("the prolog", lambda: noted(kit, job) or None, 30)
    assert len(told["SLURM_JOB_GPUS"].split(",")) == 2
    assert (told["SLURM_JOB_USER"], told["SLURM_JOB_ACCOUNT"], told["SLURM_JOB_PARTITION"]) == (
        "root",
        "physics",
        "gpu",
    )
    pid = poll("the program", lambda: next((p for p, (j, _) in kit.allocated_to().items() if j == job), None), 30)
    minors = sorted(kit.allocated_to()[pid][1])
    kit.scenario.set({f"gpu{minor}.process.0": f"{pid} C 1073741824 40 10 0 0" for minor in minors})
    until("the job's GPUs", "gpu_workload_allocated_gpus", 2.0, slurm_job=job)
    began = moment(kit, "prolog", job)
    poll("the job's time to pass", lambda: time.time() - began > ALLOCATED or None, ALLOCATED + 30)
    kit.run("scancel", job)
    kit.scenario.remove(*(f"gpu{minor}.process.0" for minor in minors))
    poll("the epilog", lambda: (kit.work / f"epilog.{job}").exists() or None, 30)
    poll("the files to forget", lambda: not noted(kit, job) or None, 30)
    until("the job to end", "gpu_workload_allocated_gpus", 0.0, slurm_job=job)
    return job, poll("the end in the report", lambda: _ended(kit, job, url), 90)


def _ended(kit: Kit, job: str, url: str) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "exporter", "report", job, "--format", "json", "--since", "10m"]
    done = subprocess.run(
        [*command, "--prometheus.url", url], env=kit.commands, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found if found["span"]["end"] is not None else None


def test_controller_waits_for_nothing_when_jobs_end(kit: Kit) -> None:
    """The hook leaves the id in the spool and is gone: nothing is COMPLETING, what comes after starts."""
    first = sbatch(kit, "--wrap", "true")
    second = sbatch(kit, "-d", f"afterok:{first}", "--wrap", "true")
    poll("the second job's end", lambda: (kit.work / f"ended/{second}").exists() or None, 60)
    poll("both to be over", lambda: not kit.run("squeue", "-h", "-t", "CG,R,PD").strip() or None, 30)

    assert {file.name for file in (kit.work / "ended").iterdir()} >= {first, second}


def test_who_submits_is_told_what_the_last_such_job_would_have_done_with(kit: Kit) -> None:
    """And nobody else is, and no job is refused: not for what stands in the file, nor for what it is."""
    (kit.work / "hints").mkdir(exist_ok=True)
    file = kit.work / "hints/0"
    file.write_text("eval\tnot of this one\ntrain\tthe last such job, 7, used 12 %: next time --gpus=1 %s %d\n")
    said = [_submitted(kit, "-J", name, "--gres=gpu:1") for name in ("train", "other")]
    without_gpus = _submitted(kit, "-J", "train")
    file.unlink()
    file.mkdir()
    unreadable = _submitted(kit, "-J", "train", "--gres=gpu:1")

    assert "the last such job, 7, used 12 %: next time --gpus=1 %s %d" in said[0]
    assert [said[1], without_gpus, unreadable] == ["", "", ""]


def _submitted(kit: Kit, *arguments: str) -> str:
    """What sbatch says of a job beside its id."""
    command = ("sbatch", "--parsable", "-o", "/dev/null", *arguments, "--wrap", "true")
    return subprocess.run(command, env=kit.commands, capture_output=True, text=True, timeout=60, check=True).stderr


def test_elements_of_an_array_have_comments_of_their_own(kit: Kit) -> None:
    """By the raw id of one of them, which is the array's too, all would have its text.

    Slurm 22.05 keeps no capital, and has the second text; 24.11 has the first.
    """
    array = sbatch(kit, "--array=1,2", "--gres=gpu:1", "--wrap", "true")
    sacct = Sacct(str(kit.wrapped("sacct")))
    jobs = poll("both ends", lambda: found if len(found := _ended_of(sacct, array)) == 2 else None, 60)
    commenter = Commenter(str(kit.wrapped("sacctmgr")), str(kit.wrapped("sacct")))
    for job in (*jobs, *reversed(jobs)):
        commenter.write(job.name, f"JS1:{job.name}", f"of {job.name}")

    shown = kit.run("sacct", "-n", "-X", "-P", "-j", array, "-o", "JobID,AdminComment").splitlines()
    capitals = shown[0].partition("|")[2].startswith("JS1:")
    assert sorted(shown) == [f"{array}_{task}|{'JS1:' if capitals else 'of '}{array}_{task}" for task in (1, 2)]
    assert {job.gpus for job in jobs} == {1.0}


@pytest.mark.skipif(TRACKING[0] != "cgroup", reason="processes are known to be a job's by its cgroup: none here")
def test_what_another_job_runs_on_shards_of_the_gpu_is_not_left_by_the_one_that_ended(kit: Kit) -> None:
    """Slurm tells its epilog nothing of shards: the GPU looks like one that the ended job had alone."""
    epilog = kit.work / "etc/epilog.sh"
    before = epilog.read_text()
    options = f"--check.ignore leaked --attribution.slurm.gres-conf {kit.work}/etc/gres.conf --format json"
    check = f"{kit.work}/gpu-exporter check --check.stage epilog {options} > {kit.work}/left.$SLURM_JOB_ID"
    epilog.write_text(f"#!/bin/sh\nset -a; . {kit.work}/etc/check\n{check}\nset +a\n{before.partition(chr(10))[2]}")
    jobs = [sbatch(kit, "--gres=shard:1", "--wrap", f"exec {kit.hold}") for _ in range(2)]
    pids = poll("both programs", lambda: p if len(p := [p for p in kit.allocated_to() if p]) == 2 else None, 60)
    indices = {noted(kit, job)["SLURM_JOB_GPUS"] for job in jobs}
    kit.scenario.set({f"gpu4.process.{place}": f"{pid} C 1073741824 40 10 0 0" for place, pid in enumerate(pids)})
    first, second = jobs
    try:
        for job in jobs:
            kit.run("scancel", job)
            poll("the epilog", lambda job=job: (kit.work / f"epilog.{job}").exists() or None, 90)  # type: ignore[misc]
    finally:
        kit.scenario.remove("gpu4.process.0", "gpu4.process.1")
        epilog.write_text(before)
    first_found, second_found = (json.loads((kit.work / f"left.{job}").read_text()) for job in (first, second))

    assert len(indices) == 1
    assert first_found["findings"] == []
    assert {each["rule"] for each in second_found["findings"]} == {"leftover"}


def test_components_of_a_heterogeneous_job_are_known_by_their_names(kit: Kit) -> None:
    """Slurm 22.05 prints the ids of the whole set in the middle of a component's text."""
    if kit.run("sinfo", "-V").split()[1] >= "24":
        pytest.skip("this Slurm starts no two components on one node; test_report_slurm has two")
    kit.run("sbatch", "-J", "mixed", "-o", "/dev/null", "--gres=gpu:1", ":", "--gres=gpu:2", "--wrap", "sleep 600")
    first, second = sorted(kit.run("squeue", "-h", "-n", "mixed", "-o", "%A").split(), key=int)
    ask, sacct = ShowJob(str(kit.scontrol)), Sacct(str(kit.wrapped("sacct")))
    told = [ask(job) for job in (first, second)]
    names = [f"{first}+{place}" for place in (0, 1)]
    accounted = poll("both in slurmdbd", lambda: None if None in (found := [*map(sacct.of_name, names)]) else found)
    kit.run("scancel", "-n", "mixed")

    assert [(job.name, job.het_job, job.het_offset) for job in told if job] == [
        ("mixed", first, place) for place in ("0", "1")
    ]
    assert [job.name for job in accounted if job] == names


@pytest.mark.deep
def test_user_who_tries_to_hold_to_read_to_forge_and_to_fill_fails(kit: Kit) -> None:
    """With 100,000 files, and with the prolog's own variables in the job's environment. Others' jobs are noted on."""
    job, said = tries(kit)
    mine = noted(kit, job)
    other = sbatch(kit, "--gres=gpu:1", "--wrap", "sleep 600")
    poll("the prolog of another's job", lambda: noted(kit, other) or None, 60)
    names = {file.name for file in (kit.work / "gpumap").iterdir()}
    kit.run("scancel", job, other)
    poll("their epilogs", lambda: None if noted(kit, job) or noted(kit, other) else True, 60)

    assert said == [f"tried 100000 files in {kit.work}/{name}" for name in ("gpumap", "ended")]
    assert names == {f"job_{job}", f"job_{other}"}
    assert (mine["SLURM_JOB_USER"], len(mine["SLURM_JOB_GPUS"].split(","))) == ("games", 1)
    assert not mine.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG")
    assert all(file.name.isdecimal() for file in (kit.work / "ended").iterdir())


def _ended_of(sacct: Sacct, array: str) -> Sequence[AccountedJob]:
    found = sacct.ended(time.time() - 3600, time.time() + 60)
    return [job for job in found if job.name.startswith(f"{array}_")]


def test_cluster_runs_on_when_the_package_is_gone(kit: Kit) -> None:
    """The copied stubs find no program; health check and controller's hook are not there at all."""
    files = [kit.work / f"etc/{name}" for name in ("prolog.sh", "epilog.sh", "epilogctld", "healthcheck")]
    before = {file: file.read_bytes() for file in files}
    for hook in ("prolog", "epilog"):
        stub = (KIT / f"{hook}.d/gpu-exporter").read_text().replace("/usr/lib/gpu-exporter", "/nonexistent")
        (kit.work / f"etc/{hook}.sh").write_text(stub)
    for file in files[2:]:
        file.unlink()
    try:
        job = sbatch(kit, "--gres=gpu:1", "--wrap", "true")
        poll("the job's end", lambda: "JobState=COMPLETED" in kit.run("scontrol", "show", "job", job) or None, 60)
        assert "DRAIN" not in kit.state()
    finally:
        for file, content in before.items():
            file.write_bytes(content)
            file.chmod(0o755)
