"""An idle allocation told by the device program on its job's cgroup alone, read back from this machine's kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm.device_program import Rule, rules
from exporter.attribution.slurm.source import PROGRAM, Slurm, SlurmSite
from tests.attribution_kit.bpf import attach, program

MOUNT = next(
    (at for at in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (at / "cgroup.procs").exists()), None
)
GIVEN = (Rule(195, 4, allowed=True), Rule(195, 6, allowed=True), Rule(195, 5, allowed=False), Rule(1, 3, allowed=True))


@pytest.fixture
def job_cgroup() -> Iterator[Path]:
    """A cgroup as slurmstepd makes one, with slurmd's program on it."""
    if MOUNT is None:
        pytest.skip("no cgroup v2 is mounted here")
    scope = MOUNT / f"exporter{os.getpid()}_slurmstepd.scope"
    job = scope / "job_77"
    job.mkdir(parents=True)
    try:
        attach(job, program(GIVEN))
        yield job
    finally:
        job.rmdir()
        scope.rmdir()


def test_rules_come_back_from_the_kernel(job_cgroup: Path) -> None:
    assert rules(job_cgroup) == GIVEN
    assert rules(job_cgroup.parent) is None


def test_idle_job_holds_the_nvidia_devices_it_may_open(job_cgroup: Path, tmp_path: Path) -> None:
    site = SlurmSite(cgroupfs=job_cgroup.parents[1], gres_conf=tmp_path / "none", scontrol="")
    slurm = Slurm(site, lambda _: None)
    slurm._local_files.ask_once()

    assert slurm.allocations("77") == {PROGRAM: {DeviceName(minor=4): None, DeviceName(minor=6): None}}
    assert [(health.source, health.success) for health in slurm.health(PROGRAM, 0.0, {}, {})] == [(PROGRAM, True)]
