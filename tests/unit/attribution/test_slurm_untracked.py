"""Jobs that neither slurmctld nor the prolog tells of: what their own processes say, and how far it is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from exporter.attribution.slurm.job import Job, JobVariables
from exporter.attribution.slurm.jobs import job_owner
from exporter.attribution.slurm.local_view import LocalFiles, SlurmSite
from exporter.attribution.slurm.source import ENVIRON
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import STEP, Node, _refused, job

A, B, C = gpu(0), gpu(1), gpu(2)
ENVIRONMENT = b"SLURM_JOB_ID=7\0SLURM_JOB_USER=alice\0SLURM_JOB_ACCOUNT=physics\0SLURM_JOB_GPUS=0\0"


def says(root: Path, pid: int, environment: bytes = ENVIRONMENT) -> None:
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(environment)


def test_process_outside_of_cgroups_is_of_the_job_it_names_which_is_trusted_little(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read()
    says(tmp_path, 70)

    ownership = node.attribution.join([A], {A.uuid: [70]}, of([host_process(70, cgroup("/"), user="alice")]), 1.0)

    owner = job("7", "alice", "physics")
    assert ownership.processes == {70: owner}
    assert ownership.info[owner].trust == "low"
    assert [each.success for each in ownership.health if each.source == ENVIRON] == [True]


FORGED = b"SLURM_JOB_ID=8\0SLURM_JOB_ACCOUNT=other\0SLURM_JOB_NUM_NODES=64\0SLURM_JOB_GPUS=0,1,2\0"


@pytest.mark.parametrize("controller", [{}, {"8": Job("8", "bob", gres=None)}])
def test_nobody_says_anything_of_a_job_in_which_another_user_runs(tmp_path: Path, controller: dict[str, Job]) -> None:
    node = Node(tmp_path, controller=controller)
    node.cgroup("8", 80)
    says(tmp_path, 66, FORGED)
    node.read()
    node.read()
    hosts = of([host_process(80, cgroup(STEP.format(8)), user="bob"), host_process(66, cgroup("/"), user="mallory")])
    running = {A.uuid: [66], B.uuid: [80]}
    node.attribution.join([A, B, C], running, hosts, 1.0)

    ownership = node.attribution.join([A, B, C], running, hosts, 100.0)

    owner = job("8", "bob")
    assert ownership.processes == {66: Owner("process:mallory/python3", "process", user="mallory"), 80: owner}
    assert {uuid: owners for uuid, owners in ownership.holders.items() if owner in owners} == {B.uuid: (owner,)}
    assert (ownership.info[owner].nodes, ownership.info[owner].trust) == (None, "exact")


def test_word_of_a_jobs_user_takes_nothing_that_the_prolog_gave_to_another(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "8")
    node.cgroup("8", 80)
    node.cgroup("7", 70)
    says(tmp_path, 70, ENVIRONMENT.replace(b"GPUS=0", b"GPUS=0,1"))
    node.read()
    hosts = of([host_process(80, cgroup(STEP.format(8)), user="bob")])

    ownership = node.attribution.join([A, B], {A.uuid: [80]}, hosts, 1.0)

    assert ownership.holders == {A.uuid: (job("8", "bob"),), B.uuid: (job("7", "alice", "physics"),)}
    assert ownership.weights[A.uuid, job("8", "bob")] == 1.0


def test_job_of_which_only_its_own_word_is_known_is_not_said_to_use_what_was_not_given_to_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "8")
    node.cgroup("7", 70)
    says(tmp_path, 70)
    node.read()
    hosts = of([host_process(70, cgroup(STEP.format(7)))])
    for now in (1.0, 100.0):
        ownership = node.attribution.join([A], {A.uuid: [70]}, hosts, now)

    assert ownership.unallocated == {}


def test_node_without_such_processes_has_no_health_of_their_environments(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read()

    assert ENVIRON not in {each.source for each in node.attribution.join([A], {}, {}, 1.0).health}


@pytest.mark.parametrize(("user", "expected"), [("", "alice"), ("bob", "bob")])
def test_user_is_whom_the_kernel_names_before_the_job_itself(user: str, expected: str) -> None:
    assert job_owner("7", None, JobVariables(Job("7", user="alice")), user).user == expected
    assert job_owner("7", None, None, user).user == user


def local(root: Path, gres: str = "") -> LocalFiles:
    (root / "gres.conf").write_text(gres)
    site = SlurmSite(root / "proc", root / "cgroup", root / "gres.conf", names=frozenset({"n1"}))
    return LocalFiles(site, _refused, str)


def test_environment_of_a_job_is_that_of_the_processes_in_its_cgroup(tmp_path: Path) -> None:
    Node(tmp_path).cgroup("7", 70)
    says(tmp_path, 70)

    found = local(tmp_path).read(frozenset(), lambda _: None).job_environ["7"]

    assert (found.job.user, found.job.account, found.gpus) == ("alice", "physics", (0,))


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
    assert local(tmp_path, gres).read(mapped, lambda _: None).present is present
