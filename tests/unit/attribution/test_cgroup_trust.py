"""Names in cgroups that users make are not those of jobs and pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.attribution.cgroup_trust import understood
from exporter.attribution.join import Attribution
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of

OWN = "/user.slice/user-1000.slice/user@1000.service"
JOB = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
POD = "/kubepods.slice/kubepods-pod00000000_0000_0000_0000_000000000001.slice"


@pytest.fixture
def cgroupfs(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").touch()
    return tmp_path


@pytest.mark.parametrize("forged", [JOB, POD, f"{POD}/cri-containerd-{CONTAINER_ID}.scope", "/slurm/uid_0/job_7"])
def test_folder_below_a_users_manager_is_no_job_and_no_pod(cgroupfs: Path, forged: str) -> None:
    found = understood(cgroup(OWN + forged), cgroupfs)

    assert (found.job, found.job_path, found.pod, found.pod_path) == ("", "", "", "")
    assert found.login == "1000"


def test_real_job_is_one(cgroupfs: Path) -> None:
    assert understood(cgroup(JOB), cgroupfs).job == "7"
    assert not understood(cgroup(JOB), cgroupfs).delegated


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder somebody else's")
def test_job_below_a_folder_given_to_a_user_is_the_job_around_it(cgroupfs: Path) -> None:
    inner = cgroupfs / JOB.strip("/") / "mine/system.slice/slurmstepd.scope/job_8"
    inner.mkdir(parents=True)
    os.chown(cgroupfs / JOB.strip("/") / "mine", 1000, 1000)

    found = understood(cgroup(f"{JOB}/mine/system.slice/slurmstepd.scope/job_8"), cgroupfs)
    assert found.job == "7"
    os.chown(cgroupfs / JOB.strip("/") / "mine", 0, 0)
    assert understood(cgroup(f"{JOB}/mine/system.slice/slurmstepd.scope/job_8"), cgroupfs).job == "8"


def test_container_and_unit_of_a_user_carry_the_user(cgroupfs: Path) -> None:
    attribution = Attribution(cgroupfs=cgroupfs)
    target = gpu(0)
    paths = {
        1: f"/machine.slice/libpod-{CONTAINER_ID}.scope",
        2: f"{OWN}/user.slice/libpod-{CONTAINER_ID}.scope",
        3: f"{OWN}/app.slice/nginx.service",
    }
    hosts = of(host_process(pid, cgroup(path)) for pid, path in paths.items())
    owners = attribution.join((target,), {target.uuid: tuple(paths)}, hosts, 0.0).processes

    assert (owners[1].user, owners[2].user, owners[3].user) == ("", "alice", "alice")
    assert owners[1] != owners[2]
