"""Jobs that neither slurmctld nor the prolog tells of: what their own processes say, and how far it is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution import naming
from exporter.attribution.slurm.environ import JobEnviron
from exporter.attribution.slurm.local_view import LocalFiles, SlurmSite
from exporter.attribution.slurm.source import ENVIRON
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import Node, _refused, job

A = gpu(0)
ENVIRONMENT = b"SLURM_JOB_ID=7\0SLURM_JOB_USER=alice\0SLURM_JOB_ACCOUNT=physics\0SLURM_JOB_GPUS=0\0"


def says(root: Path, pid: int) -> None:
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(ENVIRONMENT)


def test_process_outside_of_cgroups_is_of_the_job_it_names_which_is_trusted_little(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read()
    says(tmp_path, 70)

    ownership = node.attribution.join([A], {A.uuid: [70]}, of([host_process(70, cgroup("/"), user="alice")]), 1.0)

    owner = job("7", "alice", "physics")
    assert ownership.processes == {70: owner}
    assert ownership.info[owner].trust == "low"
    assert [each.success for each in ownership.health if each.source == ENVIRON] == [True]


def test_node_without_such_processes_has_no_health_of_their_environments(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read()

    assert ENVIRON not in {each.source for each in node.attribution.join([A], {}, {}, 1.0).health}


@pytest.mark.parametrize(("user", "expected"), [("", "alice"), ("bob", "bob")])
def test_user_is_whom_the_kernel_names_before_the_job_itself(user: str, expected: str) -> None:
    assert naming.job_owner("7", None, JobEnviron(job="7", user="alice"), user).user == expected
    assert naming.job_owner("7", None, None, user).user == user


def local(root: Path, gres: str = "") -> LocalFiles:
    (root / "gres.conf").write_text(gres)
    site = SlurmSite(root / "proc", root / "cgroup", root / "gres.conf", names=frozenset({"n1"}))
    return LocalFiles(site, _refused, str)


def test_environment_of_a_job_is_that_of_the_processes_in_its_cgroup(tmp_path: Path) -> None:
    Node(tmp_path).cgroup("7", 70)
    says(tmp_path, 70)

    found = local(tmp_path).look(frozenset(), lambda _: None).job_environ["7"]

    assert (found.user, found.account, found.gpus) == ("alice", "physics", (0,))


@pytest.mark.parametrize(
    ("gres", "mapped", "present"),
    [
        ("", frozenset[str](), False),
        ("Name=gpu File=/dev/nvidia0\n", frozenset[str](), True),
        ("", frozenset({"7"}), True),
    ],
)
def test_slurm_is_where_it_has_devices_or_jobs(
    tmp_path: Path, gres: str, mapped: frozenset[str], *, present: bool
) -> None:
    assert local(tmp_path, gres).look(mapped, lambda _: None).present is present
