"""Names in cgroups that users make are not those of jobs and pods."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.cgroup import trusted_cgroup
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
    found = trusted_cgroup(cgroup(OWN + forged), cgroupfs)

    assert (found.job, found.job_path, found.pod, found.pod_path) == ("", "", "", "")
    assert found.login == "1000"


def test_real_job_is_one(cgroupfs: Path) -> None:
    assert trusted_cgroup(cgroup(JOB), cgroupfs).job == "7"
    assert not trusted_cgroup(cgroup(JOB), cgroupfs).delegated


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder somebody else's")
def test_job_below_a_folder_given_to_a_user_is_the_job_around_it(cgroupfs: Path) -> None:
    inner = cgroupfs / JOB.strip("/") / "mine/system.slice/slurmstepd.scope/job_8"
    inner.mkdir(parents=True)
    os.chown(cgroupfs / JOB.strip("/") / "mine", 1000, 1000)

    found = trusted_cgroup(cgroup(f"{JOB}/mine/system.slice/slurmstepd.scope/job_8"), cgroupfs)
    assert found.job == "7"
    os.chown(cgroupfs / JOB.strip("/") / "mine", 0, 0)
    assert trusted_cgroup(cgroup(f"{JOB}/mine/system.slice/slurmstepd.scope/job_8"), cgroupfs).job == "8"


@pytest.mark.parametrize(
    "paths",
    [
        ("/system.slice/nginx.service", f"{OWN}/app.slice/nginx.service"),
        ("/", "/"),
        ("/user.slice/user-1.slice/session-3.scope", "/user.slice/user-2.slice/session-3.scope"),
        ("/system.slice/cron.service", "/system.slice/cron.service"),
        (f"/machine.slice/libpod-{CONTAINER_ID}.scope", f"{OWN}/user.slice/libpod-{CONTAINER_ID}.scope"),
    ],
)
def test_what_one_user_names_is_not_the_workload_of_another(cgroupfs: Path, paths: tuple[str, str]) -> None:
    target = gpu(0)
    hosts = of(
        replace(host_process(pid, cgroup(path)), user=user)
        for pid, path, user in zip((1, 2), paths, ("alice", "mallory"), strict=True)
    )
    owners = attribution_of(Parts(), cgroupfs).join((target,), {target.uuid: (1, 2)}, hosts, 0.0).processes

    assert owners[1].workload != owners[2].workload
    assert "mallory" in owners[2].workload


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder somebody else's")
@pytest.mark.parametrize("inside", [JOB, f"/docker-{'0' * 64}.scope"])
def test_guest_whose_root_is_no_root_here_goes_by_its_name(cgroupfs: Path, inside: str) -> None:
    (cgroupfs / "lxc.payload.guest/system.slice").mkdir(parents=True)
    os.chown(cgroupfs / "lxc.payload.guest", 100000, 100000)
    found = trusted_cgroup(cgroup(f"/lxc.payload.guest/system.slice{inside}"), cgroupfs)

    assert (found.job, found.container, found.runtime, found.delegated) == ("", "guest", "lxc", "")
    assert found.container_path == "/lxc.payload.guest"


def test_container_and_unit_of_a_user_carry_the_user(cgroupfs: Path) -> None:
    attribution = attribution_of(Parts(), cgroupfs)
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
