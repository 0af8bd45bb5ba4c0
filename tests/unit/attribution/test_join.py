"""Who runs and who holds: one pass at a time, from what the sources last said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.allocations import weights
from exporter.attribution.join import LAST_OWNER_SECONDS, Attribution
from exporter.attribution.kubernetes import Kubernetes, KubernetesSite, infer
from exporter.attribution.naming import ContainerNames
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.seen import HOLD_SECONDS
from exporter.attribution.slurm import Slurm, SlurmSite
from exporter.attribution.slurm_job import Job, NodeGres
from exporter.host.model import HostProcess
from tests.attribution_kit.nodes import gpu, host_process

A, B = gpu(0), gpu(1)
ID = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
STEP = "/system.slice/slurmstepd.scope/job_{}/step_0/user/task_0"


def cgroup(path: str) -> str:
    return f"0::{path}\n"


def of(processes: Iterable[HostProcess]) -> Mapping[int, HostProcess]:
    return {process.pid: process for process in processes}


def job(number: str, user: str = "", account: str = "", partition: str = "") -> Owner:
    return Owner(f"slurm:{number}", "slurm", slurm_job=number, user=user, account=account, partition=partition)


class Node:
    """Slurm over a directory that stands for the node: cgroups, prolog's files, slurmctld's answers."""

    def __init__(self, root: Path, *, controller: Mapping[str, Job] | None = None) -> None:
        self.root = root
        self.mapping = root / "map"
        self.mapping.mkdir(parents=True)
        (root / "cgroup").mkdir()
        (root / "cgroup/cgroup.controllers").write_text("")
        (root / "proc").mkdir()
        site = SlurmSite(
            procfs=root / "proc",
            cgroupfs=root / "cgroup",
            gres_conf=root / "gres.conf",
            mapping=self.mapping,
            scontrol="scontrol" if controller is not None else "",
            names=frozenset({"n1"}),
        )
        self.slurm = Slurm(site, (controller or {}).get, bpf=_refused)
        self.attribution = Attribution(slurm=self.slurm, procfs=root / "proc")

    def map(self, name: str, *jobs: str) -> None:
        (self.mapping / name).write_text("".join(f"{each}\n" for each in jobs))

    def cgroup(self, number: str, *pids: int) -> None:
        folder = self.root / f"cgroup/system.slice/slurmstepd.scope/job_{number}/step_0/user/task_0"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def read(self) -> None:
        """What the sources' threads do."""
        assert self.slurm._mapping
        self.slurm._mapping.ask_once()
        self.slurm._poller.ask_once()
        book = self.slurm._book
        while book and book._wanted and book.answer_next():
            pass


def _refused(command: int, attributes: object) -> int:
    del command, attributes
    raise PermissionError(1, "not permitted")


# Processes of the host itself


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/system.slice/jupyter.service", Owner("unit:jupyter.service", "unit", user="alice")),
        ("/user.slice/user-1000.slice/session-18.scope", Owner("unit:session-18.scope", "unit", user="alice")),
        (f"/docker/{ID}", Owner(f"docker:{ID[:12]}", "container", container=ID[:12])),
        (f"/machine.slice/libpod-{ID}.scope/container", Owner(f"podman:{ID[:12]}", "container", container=ID[:12])),
        (f"/default/{ID}", Owner(f"container:{ID[:12]}", "container", container=ID[:12])),
        ("/", Owner("process:python3", "process", user="alice")),
    ],
)
def test_process_outside_any_scheduler_belongs_to_its_container_unit_or_self(path: str, expected: Owner) -> None:
    ownership = Attribution().join([A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 1.0)

    assert ownership.processes == {7: expected}
    assert ownership.holders == {A.uuid: (expected,)}


def test_docker_container_goes_by_its_name_where_docker_tells(tmp_path: Path) -> None:
    folder = tmp_path / "containers" / ID
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text('{"Name": "/trainer", "Config": {}}')
    joined = Attribution(containers=ContainerNames(tmp_path))

    ownership = joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup(f"/docker/{ID}"))]), 1.0)

    assert ownership.processes[7].workload == "docker:trainer"


def test_free_gpu_has_no_holder() -> None:
    assert Attribution().join([A], {}, {}, 1.0).holders == {}


# Processes that come and go


def test_process_that_proc_no_longer_shows_keeps_its_owner_for_a_while() -> None:
    joined = Attribution()
    process = host_process(7, cgroup("/system.slice/a.service"))
    owner = joined.join([A], {A.uuid: [7]}, of([process]), 100.0).processes[7]

    soon = joined.join([A], {A.uuid: [7]}, {}, 101.0)
    late = joined.join([A], {A.uuid: [7]}, {}, 101.0 + LAST_OWNER_SECONDS)

    assert (soon.processes, soon.holders) == ({7: owner}, {A.uuid: (owner,)})
    assert (late.processes, late.holders) == ({7: NOBODY}, {})


def test_process_that_was_never_seen_is_nobodys() -> None:
    assert Attribution().join([A], {A.uuid: [7]}, {}, 1.0).processes == {7: NOBODY}


def test_reused_pid_belongs_to_who_has_it_now() -> None:
    joined = Attribution()
    joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/a.service"))]), 1.0)

    again = joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/b.service"))]), 2.0)

    assert again.processes[7].workload == "unit:b.service"


@pytest.mark.parametrize(("away", "whose"), [(5.0, "unit:a.service"), (LAST_OWNER_SECONDS, "")])
def test_dead_process_that_is_listed_again_is_its_last_owners_for_a_while(away: float, whose: str) -> None:
    joined = Attribution()
    joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup("/system.slice/a.service"))]), 1.0)
    joined.join([A], {}, {}, 2.0)

    assert joined.join([A], {A.uuid: [7]}, {}, 2.0 + away).processes[7].workload == whose


# Cgroups


def test_cgroup_shared_by_two_owners_is_nobodys_own() -> None:
    session = cgroup("/user.slice/user-1000.slice/session-1.scope")
    processes = of([host_process(7, session, "alice"), host_process(8, session, "root")])

    ownership = Attribution().join([A], {A.uuid: [7, 8]}, processes, 1.0)

    assert len(set(ownership.processes.values())) == 2
    assert ownership.cgroups == {}


# Slurm


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


def test_job_in_a_pod_is_both_and_outranks_the_pod(tmp_path: Path) -> None:
    node = Node(tmp_path / "slurm")
    node.map("0", "7")
    node.read()
    kubernetes = _kubernetes(tmp_path, [("slurm", "n1-0", "slurmd", A.uuid), ("slurm", "n1-0", "slurmd", B.uuid)])
    joined = Attribution(kubernetes, node.slurm, procfs=tmp_path)
    path = f"/kubepods/pod{POD}/{ID}{STEP.format(7)}"

    ownership = joined.join([A, B], {A.uuid: [70]}, of([host_process(70, cgroup(path))]), 1.0)

    both = Owner("slurm:7", "slurm", namespace="slurm", pod="n1-0", container="slurmd", slurm_job="7", user="alice")
    pod = Owner("slurm/n1-0", "pod", namespace="slurm", pod="n1-0", container="slurmd")
    assert ownership.holders == {A.uuid: (both,), B.uuid: (pod,)}


# Kubernetes


def _kubernetes(folder: Path, given: Iterable[tuple[str, str, str, str]]) -> Kubernetes:
    """Answered once by a kubelet that gave these devices, and by none since."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - grpc, for these tests alone

    source = Kubernetes(KubernetesSite(folder / "kubelet.sock", required=True))
    with Kubelet(folder / "kubelet.sock", [GivenPod(*each[:3], [each[3]]) for each in given]):
        source._poller.ask_once()
    return source


def test_deleted_pods_process_keeps_its_name(tmp_path: Path) -> None:
    kubernetes = _kubernetes(tmp_path, [("ml", "train", "main", A.uuid)])
    joined = Attribution(kubernetes)
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{ID}"))])
    before = joined.join([A], {A.uuid: [7]}, process, 1.0).processes
    kubernetes._poller.answer = type(kubernetes._poller.answer)((), 2.0)

    assert joined.join([A], {A.uuid: [7]}, process, 3.0).processes[7].workload == before[7].workload == "ml/train"


def test_pod_that_was_given_nothing_goes_by_its_uid_after_a_while(tmp_path: Path) -> None:
    joined = Attribution(_kubernetes(tmp_path, []))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{ID}"))])
    at_once = joined.join([A], {A.uuid: [7]}, process, 100.0)
    later = joined.join([A], {A.uuid: [7]}, process, 100.0 + HOLD_SECONDS)

    assert at_once.processes == {7: NOBODY}
    assert later.processes == {7: Owner(f"pod:{POD}", "pod")}
    assert later.info[Owner(f"pod:{POD}", "pod")].pod_uid == POD


PODS = [("ml", f"p{number}") for number in range(4)]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from("123"))),
    st.dictionaries(st.sampled_from("123"), st.sets(st.sampled_from(PODS))),
)
def test_inferred_names_are_of_pods_that_hold_where_the_process_runs(
    running: dict[str, set[str]], given: dict[str, set[tuple[str, str]]]
) -> None:
    found = infer(running, given, {})

    assert len(set(found.values())) == len(found)
    assert all(found[uid] in given.get(device, ()) for uid in found for device in running[uid])


# Parts


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.floats(0.1, 100)), st.lists(st.sampled_from("abcdef")))
def test_parts_of_a_held_target_sum_to_one(given_: dict[str, float | None], runners: list[str]) -> None:
    parts = weights(given_, runners)

    assert sum(parts.values()) == pytest.approx(1 if given_ or runners else 0)
    assert set(parts) == {*given_, *runners}
    assert not given_ or all(parts[runner] == 0 for runner in runners if runner not in given_)
