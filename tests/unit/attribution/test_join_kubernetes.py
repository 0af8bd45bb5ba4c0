"""Which pod runs and which holds, from cgroups and what the kubelet gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.background_source import LAST_KNOWN_SECONDS
from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite, infer
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.source import HOLD_SECONDS
from exporter.core.clock import MonotonicTime
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, instance, of
from tests.attribution_kit.slurm_node import STEP, Node

A, B = gpu(0), gpu(1)
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"


def _kubernetes(folder: Path, given: Iterable[tuple[str, str, str, str]]) -> Kubernetes:
    """Answered once by a kubelet that gave these devices, while the processes of the test ran, and by none since."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - grpc, for these tests alone

    source = Kubernetes(KubernetesSite(folder / "kubelet.sock", required=True), clock=lambda: MonotonicTime(1000.0))
    with Kubelet(folder / "kubelet.sock", [GivenPod(*each[:3], [each[3]]) for each in given]):
        source._poller.ask_once()
    return source


def test_deleted_pods_process_keeps_its_name(tmp_path: Path) -> None:
    kubernetes = _kubernetes(tmp_path, [("ml", "train", "main", A.uuid)])
    joined = attribution_of(Parts(kubernetes))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    before = joined.join([A], {A.uuid: [7]}, process, 1.0).processes
    kubernetes._poller.answer = type(kubernetes._poller.answer)((), 2.0)

    assert joined.join([A], {A.uuid: [7]}, process, 3.0).processes[7].workload == before[7].workload == "ml/Pod/train"


def test_running_pod_is_the_same_owner_while_the_kubelet_is_silent_and_after(tmp_path: Path) -> None:
    """Its container is the only one that was given a GPU: the API server is not asked."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - as above

    moment = [MonotonicTime(0.0)]
    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock", required=True), clock=lambda: moment[0])
    joined = attribution_of(Parts(source))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    found: list[Owner] = []
    for answers, now in ((True, 1.0), (False, 2.0 + LAST_KNOWN_SECONDS), (True, 3600.0)):
        moment[0] = MonotonicTime(now)
        with Kubelet(source._socket, [GivenPod("ml", "train", "main", [A.uuid])] if answers else []) as kubelet:
            if not answers:
                kubelet.socket.unlink()
            source._poller.ask_once()
            found.append(joined.join([A], {A.uuid: [7]}, process, now).processes[7])

    assert found == [Owner("ml/Pod/train", "pod", "ml", "train", "main")] * 3


def test_new_pod_is_not_named_after_the_one_that_had_its_gpu_before(tmp_path: Path) -> None:
    """The kubelet's last list is older than the pod. It has another pod, which ran nothing until it ended."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - as above

    moment = [MonotonicTime(0.0)]
    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock", required=True), clock=lambda: moment[0])
    joined = attribution_of(Parts(source))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    found: list[str] = []
    with Kubelet(source._socket, [GivenPod("ml", "ended", "main", [A.uuid])]) as kubelet:
        source._poller.ask_once()
        kubelet.pods = [GivenPod("ml", "train", "main", [A.uuid])]
        for now in (1.0, 2.0):
            found.append(joined.join([A], {A.uuid: [7]}, process, now).processes[7].workload)
            moment[0] = MonotonicTime(now + 0.5)
            source._poller.ask_once()

    assert found == ["", "ml/Pod/train"]


def test_pod_that_was_given_nothing_goes_by_its_uid_after_a_while(tmp_path: Path) -> None:
    joined = attribution_of(Parts(_kubernetes(tmp_path, [])))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    at_once = joined.join([A], {A.uuid: [7]}, process, 100.0)
    later = joined.join([A], {A.uuid: [7]}, process, 100.0 + HOLD_SECONDS)

    assert at_once.processes == {7: NOBODY}
    assert later.processes == {7: Owner(f"pod:{POD}", "pod")}
    assert later.info[Owner(f"pod:{POD}", "pod")].pod_uid == POD


def _container(name: str, pod: str = "train-0") -> Owner:
    return Owner(f"ml/Pod/{pod}", "pod", "ml", pod, name)


def test_containers_of_one_pod_hold_what_each_was_given_of_a_gpu(tmp_path: Path) -> None:
    slices = (("train-0", "one"), ("train-0", "two"), ("other", "main"))
    given = [("ml", pod, name, f"{A.uuid}::{number}") for number, (pod, name) in enumerate(slices)]

    ownership = attribution_of(Parts(_kubernetes(tmp_path, given))).join([A], {}, {}, 1.0)

    assert ownership.weights == {(A.uuid, _container(name, pod)): 1 / 3 for pod, name in slices}


@pytest.mark.parametrize(
    ("containers", "place"),
    [((CONTAINER_ID,), f"/{CONTAINER_ID}"), ((CONTAINER_ID, "0" * 64), ""), (("0" * 64,) * 2, f"/{'0' * 64}")],
)
def test_owner_in_several_containers_has_the_cgroup_of_the_pod(
    tmp_path: Path, containers: Iterable[str], place: str
) -> None:
    """Without the API server all processes of the pod go by the one container that was given a GPU."""
    joined = attribution_of(Parts(_kubernetes(tmp_path, [("ml", "train-0", "main", A.uuid)])))
    processes = of(
        host_process(pid, cgroup(f"/kubepods/pod{POD}/{each}"), command=f"rank{pid}")
        for pid, each in enumerate(containers, 7)
    )

    ownership = joined.join([A], {A.uuid: list(processes)}, processes, 1.0)

    assert ownership.cgroups == {_container("main"): f"/kubepods/pod{POD}{place}"}


@pytest.mark.parametrize("known", [True, False])
def test_container_that_runs_has_what_the_others_of_its_pod_leave(tmp_path: Path, *, known: bool) -> None:
    """A claim that two containers share, as in the first examples of NVIDIA's DRA driver; the API tells their names."""
    source = _kubernetes(tmp_path, [("ml", "train-0", name, A.uuid) for name in ("one", "two")])
    pod = Pod("ml", "train-0", POD, containers={CONTAINER_ID: ("two", "")})
    view = replace(source.view(1.0), pods={POD: pod} if known else {})
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    with patch.object(source, "view", lambda _: view):
        ownership = attribution_of(Parts(source)).join([A], {A.uuid: [7]}, process, 1.0)

    assert {(owner.pod, owner.container): share for (_, owner), share in ownership.weights.items()} == {
        ("train-0", "two" if known else ""): 1.0
    }


def test_container_with_a_gpu_of_its_own_is_not_idle_while_its_pod_runs_there(tmp_path: Path) -> None:
    """Without the API nobody tells which of the two runs."""
    source = _kubernetes(tmp_path, [("ml", "train-0", "one", A.uuid), ("ml", "train-0", "two", B.uuid)])
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])

    ownership = attribution_of(Parts(source)).join([A, B], {A.uuid: [7]}, process, 1.0)

    assert ownership.holders == {A.uuid: (_container(""),), B.uuid: (_container("two"),)}


def test_claim_of_a_place_follows_a_new_mig_layout(tmp_path: Path) -> None:
    """GPU instance 8 exists in both layouts, at another place in the second one."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - as above

    place, slices = "gpu-1-mig-19-4-1", dict[str, str]()
    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock", required=True, slices=lambda: dict(slices)))
    joined = attribution_of(Parts(source))
    pod = GivenPod("ml", "train", "main", claims=[("gpu.nvidia.com", place)])
    found: list[set[str]] = []
    with Kubelet(source._socket, [pod]):
        for layout, at_place in (((7, 8), 8), ((7, 8, 11), 11)):
            slices[place] = instance(1, at_place).uuid
            for now in (1.0, 2.0):
                source._poller.ask_once()
                holders = joined.join([instance(1, gi) for gi in layout], {}, {}, now).holders
            found.append(set(holders))

    assert found == [{instance(1, 8).uuid}, {instance(1, 11).uuid}]


def test_claims_are_asked_about_again_as_their_driver_may_be_late(tmp_path: Path) -> None:
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - as above

    place, asked = "gpu-1-mig-19-4-1", list[int]()

    def slices() -> dict[str, str]:
        asked.append(1)
        return {place: instance(1, 8).uuid}

    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock", required=True, slices=slices))
    with Kubelet(source._socket, [GivenPod("ml", "train", "main", claims=[("gpu.nvidia.com", place)])]):
        for _ in range(30):
            source._poller.ask_once()
        before = len(asked)
        source.ask_claimable()
        for _ in range(30):
            source._poller.ask_once()

    assert (before, len(asked)) == (0, 2)


def test_job_in_a_pod_is_both_and_outranks_the_pod(tmp_path: Path) -> None:
    node = Node(tmp_path / "slurm")
    node.map("0", "7")
    node.read()
    kubernetes = _kubernetes(tmp_path, [("slurm", "n1-0", "slurmd", A.uuid), ("slurm", "n1-0", "slurmd", B.uuid)])
    joined = attribution_of(Parts(kubernetes, node.slurm, procfs=tmp_path))
    path = f"/kubepods/pod{POD}/{CONTAINER_ID}{STEP.format(7)}"

    ownership = joined.join([A, B], {A.uuid: [70]}, of([host_process(70, cgroup(path))]), 1.0)

    both = Owner("slurm:7", "slurm", namespace="slurm", pod="n1-0", container="slurmd", slurm_job="7", user="alice")
    pod = Owner("slurm/Pod/n1-0", "pod", namespace="slurm", pod="n1-0", container="slurmd")
    assert ownership.holders == {A.uuid: (both,), B.uuid: (pod,)}


def test_idle_job_in_a_pod_that_a_dra_driver_gave_gpus_holds_what_its_prolog_said(tmp_path: Path) -> None:
    """Slinky's slurmd in a pod with a claim: of its GPUs one is the job's, the other is still the pod's own."""
    from tests.attribution_kit.kubelet import GivenPod, Kubelet  # noqa: PLC0415 - grpc, for these tests alone

    claims = [("gpu.nvidia.com", f"gpu-{number}") for number in (0, 1)]
    (tmp_path / f"logs/slurm_n1-0_{POD}/slurmd").mkdir(parents=True)
    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock", required=True, logs=tmp_path / "logs"))
    with Kubelet(tmp_path / "kubelet.sock", [GivenPod("slurm", "n1-0", "slurmd", claims=claims)]):
        source._poller.ask_once()
    node = Node(tmp_path / "slurm")
    (node.mapping / "job_7").write_text("SLURM_JOB_ID=7\nSLURM_JOB_GPUS=1\nSLURM_JOB_USER=alice\n")
    (tmp_path / "slurm/gres.conf").write_text("Name=gpu File=/dev/nvidia[0-1]\n")
    folder = tmp_path / f"slurm/cgroup/kubepods/pod{POD}/{CONTAINER_ID}{STEP.format(7)}"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("")
    node.slurm.noticed({"7"}, {f"/kubepods/pod{POD}/{CONTAINER_ID}/system.slice/slurmstepd.scope"})
    node.read()
    joined = attribution_of(Parts(source, node.slurm, procfs=tmp_path))
    ownership = joined.join([A, B], {}, {}, 1.0)

    both = Owner("slurm:7", "slurm", namespace="slurm", pod="n1-0", container="slurmd", slurm_job="7", user="alice")
    pod = Owner("slurm/Pod/n1-0", "pod", namespace="slurm", pod="n1-0", container="slurmd")
    assert ownership.holders == {A.uuid: (pod,), B.uuid: (both,)}


PODS = [("ml", f"p{number}") for number in range(4)]


@example({"a": {"1"}}, {"1": set(PODS[:2])})
@example({"a": {"1"}, "b": {"1", "2"}}, {"1": set(PODS[:2]), "2": set(PODS[1:3])})
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
    everyone = (dict(zip(running, pods, strict=True)) for pods in permutations(PODS, len(running)))
    fitting = [
        names
        for names in everyone
        if all(names[uid] in given.get(device, ()) for uid in running for device in running[uid])
    ]
    assert all(names[uid] == name for names in fitting for uid, name in found.items()), "there was another choice"


@pytest.mark.parametrize("logged", [{}, {POD: ("ml", "node-0")}])
def test_cluster_inside_a_pod_is_that_pods(tmp_path: Path, logged: dict[str, tuple[str, str]]) -> None:
    """Each of its own pods but one was called a stranger on the GPU, and the pod that was given it idle."""
    source = _kubernetes(tmp_path, [("ml", "node-0", "main", A.uuid), ("ml", "node-0", "main", B.uuid)])
    view = replace(source.view(1.0), logged=logged)
    inside = f"/kubepods/burstable/pod{POD}/{CONTAINER_ID}/kubepods/pod"
    processes = of(host_process(pid, cgroup(f"{inside}{pid}{POD[1:]}/{'0' * 64}")) for pid in (7, 8))
    with patch.object(source, "view", lambda _: view):
        joined = attribution_of(Parts(source), tmp_path)
        for now in (1.0, 1.0 + HOLD_SECONDS):
            ownership = joined.join([A, B], {A.uuid: [7], B.uuid: [8]}, processes, now)

    pod = Owner("ml/Pod/node-0", "pod", "ml", "node-0", "main")
    assert ownership.processes == {7: pod, 8: pod}
    assert ownership.holders == {A.uuid: (pod,), B.uuid: (pod,)}
    assert ownership.cgroups == {pod: f"/kubepods/burstable/pod{POD}/{CONTAINER_ID}"}


def test_pod_that_this_kubelet_knows_is_no_other_ones_part(tmp_path: Path) -> None:
    """The exporter in a cluster inside a pod: its own kubelet's pods are what it tells of."""
    inner = f"7{POD[1:]}"
    source = _kubernetes(tmp_path, [("ml", "train", "main", A.uuid)])
    view = replace(source.view(1.0), logged={inner: ("ml", "train")})
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}/kubepods/pod{inner}/{CONTAINER_ID}"))])
    with patch.object(source, "view", lambda _: view):
        ownership = attribution_of(Parts(source), tmp_path).join([A], {A.uuid: [7]}, process, 1.0)

    assert ownership.processes[7].pod_name == ("ml", "train")


@pytest.mark.parametrize("known", [True, False])
def test_plain_pods_are_a_workload_each_and_a_guessed_name_is_inferred(tmp_path: Path, *, known: bool) -> None:
    source = _kubernetes(tmp_path, [("ml", "llama-2", "main", A.uuid), ("ml", "llama-3", "main", B.uuid)])
    pods = [Pod("ml", "llama-2", POD), Pod("ml", "llama-3", f"7{POD[1:]}")]
    view = replace(
        source.view(1.0),
        logged={pod.uid: (pod.namespace, pod.name) for pod in pods},
        pods={pod.uid: pod for pod in pods} if known else {},
    )
    processes = of(
        host_process(pid, cgroup(f"/kubepods/pod{pod.uid}/{CONTAINER_ID}"))
        for pid, pod in zip((7, 8), pods, strict=True)
    )
    with patch.object(source, "view", lambda _: view):
        ownership = attribution_of(Parts(source)).join([A, B], {A.uuid: [7], B.uuid: [8]}, processes, 1.0)

    assert {owner.workload: info.trust for owner, info in ownership.info.items()} == dict.fromkeys(
        ("ml/Pod/llama-2", "ml/Pod/llama-3"), "exact" if known else "inferred"
    )


def test_socket_that_is_missing_is_reported_once_pods_run_on_the_gpus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kubelet's root is another directory than the one looked in."""
    source = Kubernetes(KubernetesSite(tmp_path / "elsewhere/kubelet.sock"))
    joined = attribution_of(Parts(source))
    process = of([host_process(7, cgroup(f"/kubepods/pod{POD}/{CONTAINER_ID}"))])
    source._poller.ask_once()
    without_pods = joined.join([A], {}, {}, 1.0)
    joined.join([A], {A.uuid: [7]}, process, 2.0)
    for _ in range(3):
        source._poller.ask_once()
    with_pods = joined.join([A], {A.uuid: [7]}, process, 3.0)

    assert [each.success for each in without_pods.health if each.source == "kubernetes"] == []
    assert [each.success for each in with_pods.health if each.source == "kubernetes"] == [False]
    assert [record.getMessage().count("elsewhere/kubelet.sock") for record in caplog.records] == [1]


def test_socket_of_a_cluster_in_a_container_is_not_expected_here(tmp_path: Path) -> None:
    """kind, minikube: the kubelet and its socket are in the container."""
    source = Kubernetes(KubernetesSite(tmp_path / "kubelet.sock"))
    joined = attribution_of(Parts(source), tmp_path)
    process = of([host_process(7, cgroup(f"/docker/{'0' * 64}/kubelet/kubepods/pod{POD}/{CONTAINER_ID}"))])
    joined.join([A], {A.uuid: [7]}, process, 1.0)
    source._poller.ask_once()

    ownership = joined.join([A], {A.uuid: [7]}, process, 2.0)

    assert ownership.processes[7] == NOBODY  # its name may yet come
    assert [each.success for each in ownership.health if each.source == "kubernetes"] == []
