"""Which Slurm job runs and which holds, from cgroups, the prolog's files and slurmctld."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution.devices import DeviceName, Devices
from exporter.attribution.owner import NOBODY, Ownership
from exporter.attribution.slurm.job import Job, NodeGres
from exporter.attribution.slurm.jobs import job_allocations
from exporter.attribution.slurm.local_view import Allocation
from exporter.attribution.source import HOLD_SECONDS
from tests.attribution_kit.nodes import cgroup, gpu, host_process, instance, of
from tests.attribution_kit.slurm_node import STEP, Node, job

A, B = gpu(0), gpu(1)


def test_job_holds_what_the_prolog_wrote_through_gres_conf(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia[1],/dev/nvidia0\n")
    node.map("0", "7")
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7"),)}


ORDER = ("slurm_mapping", "slurm_device_program", "slurm_scontrol", "slurm_environ")
"""The sources of a job's GPUs, in order of trust."""
HERE, THERE, ABSENT = DeviceName(uuid=A.uuid), DeviceName(uuid=B.uuid), DeviceName(claimed="gres/gpu:9")
reports = st.dictionaries(
    st.sampled_from(ORDER), st.dictionaries(st.sampled_from((HERE, THERE, ABSENT)), st.none(), max_size=2)
)


@example({key: {HERE: None} for key in ORDER[:2]} | {key: {THERE: None} for key in ORDER[2:]})
@example({ORDER[0]: {ABSENT: None}, ORDER[1]: {THERE: None}, ORDER[2]: {HERE: None}})
@example({ORDER[2]: {THERE: None}, ORDER[3]: {HERE: None}})
@given(reports)
def test_job_has_the_gpus_of_the_most_trusted_source_that_knows_any_here(reported: dict[str, Allocation]) -> None:
    """A source that names no device at all knows that the job has none."""
    found, _, _ = job_allocations({"7": reported}, Devices((A, B)))

    knowing = [
        (source, {name.uuid for name in reported[source]} & {A.uuid, B.uuid})
        for source in ORDER
        if source in reported and set(reported[source]) != {ABSENT}
    ]
    assert {job: (each.source, set(each.targets)) for job, each in found.items()} == (
        {"7": knowing[0]} if knowing else {}
    )


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


def test_process_that_outlives_the_epilog_keeps_the_labels_of_its_job(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0", SLURM_JOB_ACCOUNT="physics", SLURM_JOB_PARTITION="gpu")
    node.cgroup("7", 70)
    node.read()
    process = of([host_process(70, cgroup(STEP.format(7)))])
    before = node.attribution.join([A], {A.uuid: [70]}, process, 1.0).processes
    (node.mapping / "job_7").unlink()
    node.read()
    after = [node.attribution.join([A], {A.uuid: [70]}, process, now).processes for now in (2.0, 3.0)]

    assert [before, *after] == [{70: job("7", "alice", "physics", "gpu")}] * 3


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
    conflicts = {health.source: health.conflicts for health in ownership.health}
    assert (conflicts["slurm_mapping"], conflicts["slurm_scontrol"]) == (0, 2)


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


LOGIN = "/user.slice/user-1000.slice/session-18.scope"


def told(node: Node, number: str, user: str, **more: str) -> None:
    """The file that the kit's prolog writes."""
    values = {"SLURM_JOB_ID": number, "SLURM_JOB_USER": user, **more}
    (node.mapping / f"job_{number}").write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def conflicts_of(ownership: Ownership) -> dict[str, int]:
    return {health.source: health.conflicts for health in ownership.health}


def test_jobs_own_file_tells_who_it_is_of_without_slurmctld(tmp_path: Path) -> None:
    """As where PrivateData=jobs hides it."""
    node = Node(tmp_path, controller={})
    told(node, "7", "alice", SLURM_JOB_GPUS="1", SLURM_JOB_ACCOUNT="physics", SLURM_JOB_PARTITION="gpu")
    node.read()

    assert node.attribution.join([A, B], {}, {}, 1.0).holders == {B.uuid: (job("7", "alice", "physics", "gpu"),)}


def test_job_that_slurmctld_hides_although_it_runs_here_shows_in_the_sources_health(tmp_path: Path) -> None:
    node = Node(tmp_path, controller={})
    node.cgroup("7", 70)
    node.read()
    hidden = node.attribution.join([A], {}, {}, 1.0)
    (tmp_path / "cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/cgroup.procs").write_text("")
    node.read()
    ended = node.attribution.join([A], {}, {}, 2.0)

    assert {health.source: health.success for health in hidden.health}["slurm_scontrol"] is False
    assert {health.source: health.success for health in ended.health}["slurm_scontrol"] is True


def test_mig_instances_are_told_apart_by_what_slurm_calls_them(tmp_path: Path) -> None:
    """AutoDetect=nvml, no files: the index counts instances, the UUIDs say which."""
    first, second, whole = instance(0, 1), instance(0, 2), gpu(1)
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES=first.uuid)
    told(node, "8", "bob", SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES=second.uuid)
    told(node, "9", "carol", SLURM_JOB_GPUS="1")
    node.read()

    holders = node.attribution.join([first, second, whole], {}, {}, 1.0).holders
    assert holders == {first.uuid: (job("7", "alice"),), second.uuid: (job("8", "bob"),)}


def test_process_of_the_same_user_outside_the_job_is_the_jobs_where_it_alone_holds_the_gpu(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0")
    node.read()
    process = of([host_process(70, cgroup(LOGIN), user="alice")])

    ownership = node.attribution.join([A, B], {A.uuid: [70]}, process, 1.0)

    assert ownership.processes == {70: job("7", "alice")}
    assert ownership.info[job("7", "alice")].trust == "inferred"
    assert conflicts_of(ownership)["slurm_mapping"] == 0


def test_process_of_another_user_or_on_a_shared_gpu_is_a_conflict(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0,1")
    told(node, "8", "alice", SLURM_JOB_GPUS="1")
    node.read()
    processes = of([host_process(70, cgroup(LOGIN), user="mallory"), host_process(71, cgroup(LOGIN), user="alice")])

    ownership = node.attribution.join([A, B], {A.uuid: [70], B.uuid: [71]}, processes, 1.0)

    assert {owner.slurm_job for owner in ownership.processes.values()} == {""}
    assert conflicts_of(ownership)["slurm_mapping"] == 3


def test_processes_of_root_beside_a_job_watch_and_are_no_conflict(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0")
    node.read()
    process = of([host_process(70, cgroup("/system.slice/dcgm.service"), user="root")])

    assert conflicts_of(node.attribution.join([A], {A.uuid: [70]}, process, 1.0))["slurm_mapping"] == 0


def test_environment_names_no_job_of_somebody_else(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told(node, "7", "alice", SLURM_JOB_GPUS="0")
    node.read()
    (tmp_path / "proc/70").mkdir()
    (tmp_path / "proc/70/environ").write_bytes(b"SLURM_JOB_ID=7\0SLURM_JOB_GPUS=0\0")
    process = of([host_process(70, cgroup("/"), user="mallory")])

    ownership = node.attribution.join([A], {A.uuid: [70]}, process, 1.0)

    assert ownership.processes[70].slurm_job == ""
    assert conflicts_of(ownership)["slurm_mapping"] == 1


def test_job_file_of_an_earlier_boot_holds_nothing_and_is_counted(tmp_path: Path) -> None:
    node = Node(tmp_path, controller={})
    told(node, "7", "alice", SLURM_JOB_GPUS="0", BOOT_ID="another")
    node.read()

    ownership = node.attribution.join([A], {}, {}, 1.0)
    assert ownership.holders == {}
    assert {health.source: health.stale for health in ownership.health}["slurm_steps"] == 1
