"""Which Slurm job runs and which holds, from cgroups, the prolog's files and slurmctld."""

from __future__ import annotations

from pathlib import Path

from exporter.attribution.owner import NOBODY
from exporter.attribution.process_index import HOLD_SECONDS
from exporter.attribution.slurm.job import Job, NodeGres
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import STEP, Node, job

A, B = gpu(0), gpu(1)


def test_job_holds_what_the_prolog_wrote_through_gres_conf(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia[1],/dev/nvidia0\n")
    node.map("0", "7")
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7"),)}


def test_job_named_by_uuid_needs_no_index(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map(B.uuid, "7 1001")
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7"),)}


def test_process_and_allocation_of_a_job_are_one_owner(tmp_path: Path) -> None:
    node = Node(tmp_path, controller={"7": Job("7", "alice", "physics", "gpu", "train", array_job="6", array_task="1")})
    node.map("0", "7")
    node.cgroup("7", 70)
    node.read()
    process = host_process(70, cgroup(STEP.format(7)), user="root")

    ownership = node.attribution.join([A, B], {A.uuid: [70]}, of([process]), 1.0)

    owner = job("7", "alice", "physics", "gpu")
    assert ownership.processes == {70: owner}
    assert ownership.holders == {A.uuid: (owner,)}
    assert ownership.cgroups == {owner: "/system.slice/slurmstepd.scope/job_7"}
    info = ownership.info[owner]
    assert (info.job_name, info.slurm_array_job, info.slurm_array_task, info.slurm_step) == ("train", "6", "1", "0")
    assert info.trust == "exact"


def test_idle_job_is_told_by_slurmctld_alone(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (1,)), NodeGres(frozenset({"n2"}), "gpu", 1, (0,)))
    node = Node(tmp_path, controller={"7": Job("7", "alice", gres=gres)})
    node.cgroup("7")
    node.read()
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7", "alice"),)}


def test_new_job_is_nobodys_until_slurmctld_answers_but_not_for_long(tmp_path: Path) -> None:
    node = Node(tmp_path, controller={})
    process = of([host_process(70, cgroup(STEP.format(7)))])
    at_once = node.attribution.join([A], {A.uuid: [70]}, process, 100.0)
    later = node.attribution.join([A], {A.uuid: [70]}, process, 100.0 + HOLD_SECONDS)

    assert at_once.processes == {70: NOBODY}
    assert later.processes == {70: job("7", "alice")}


def test_job_that_the_epilog_has_taken_out_holds_nothing_although_its_cgroup_lingers(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (0,)),)
    node = Node(tmp_path, controller={"7": Job("7", "alice", gres=gres), "8": Job("8", "bob", gres=gres)})
    node.map("0", "7")
    node.cgroup("7")
    node.read()
    before = node.attribution.join([A], {}, {}, 1.0)
    node.map("0", "8")
    node.read()
    node.read()

    assert before.holders == {A.uuid: (job("7", "alice"),)}
    assert node.attribution.join([A], {}, {}, 2.0).holders == {A.uuid: (job("8", "bob"),)}


def test_job_that_runs_holds_on_although_somebody_emptied_the_prologs_folder(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (0,)),)
    node = Node(tmp_path, controller={"7": Job("7", "alice", gres=gres)})
    node.map("0", "7")
    node.cgroup("7", 70)
    node.read()
    node.attribution.join([A], {}, {}, 1.0)
    (node.mapping / "0").unlink()
    node.read()

    assert node.attribution.join([A], {}, {}, 2.0).holders == {A.uuid: (job("7", "alice"),)}


def test_process_that_outlives_the_epilog_is_still_its_jobs(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "7")
    node.cgroup("7", 70)
    node.read()
    process = of([host_process(70, cgroup(STEP.format(7)))])
    node.attribution.join([A], {A.uuid: [70]}, process, 1.0)
    (node.mapping / "0").unlink()
    node.read()

    assert node.attribution.join([A], {A.uuid: [70]}, process, 2.0).processes == {70: job("7", "alice")}


def test_job_that_no_prolog_noted_holds_by_its_cgroup(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (0,)),)
    node = Node(tmp_path, controller={"7": Job("7", "alice", gres=gres)})
    node.cgroup("7")
    node.read()
    node.read()

    assert node.attribution.join([A], {}, {}, 1.0).holders == {A.uuid: (job("7", "alice"),)}


def test_prologs_word_is_last_known_for_a_while_after_its_directory_went(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "7")
    node.read()
    (node.mapping / "0").unlink()
    node.mapping.rmdir()
    node.read()
    ownership = node.attribution.join([A], {}, {}, 1.0)

    assert ownership.holders == {A.uuid: (job("7"),)}
    assert {health.source: health.success for health in ownership.health}["slurm_mapping"] is False


def test_sources_that_contradict_are_counted_and_the_files_win(tmp_path: Path) -> None:
    gres = (NodeGres(frozenset({"n1"}), "gpu", 1, (1,)),)
    node = Node(tmp_path, controller={"7": Job("7", gres=gres)})
    node.map("0", "7")
    node.read()
    node.read()

    ownership = node.attribution.join([A, B], {}, {}, 1.0)

    assert ownership.holders == {A.uuid: (job("7"),)}
    assert {health.source: health.conflicts for health in ownership.health} == {"slurm_mapping": 0, "slurm_scontrol": 2}


def test_process_where_its_job_holds_nothing_is_a_conflict_and_has_no_share(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "7")
    node.map("1", "8")
    node.read()
    process = of([host_process(70, cgroup(STEP.format(7)))])

    ownership = node.attribution.join([A, B], {B.uuid: [70]}, process, 1.0)

    assert ownership.weights[B.uuid, job("7", "alice")] == 0
    assert ownership.weights[B.uuid, job("8")] == 1
    assert {health.source: health.conflicts for health in ownership.health}["slurm_mapping"] == 1
