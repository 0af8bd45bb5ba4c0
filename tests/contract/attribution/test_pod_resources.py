"""The kubelet's pod-resources protocol over a real gRPC server on a unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.background_source import LAST_KNOWN_SECONDS, SourceError
from exporter.attribution.join import Attribution
from exporter.attribution.kubernetes import grpc_unary
from exporter.attribution.kubernetes.pod_resources import listed
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.owner import Owner
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import gpu, host_process, instance, until

A, B = gpu(0), gpu(1)
M1, M2 = instance(2, 1), instance(2, 2)
POD_A = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
POD_B = "77777777-fdcc-454b-97bd-aadfdeb4c340"
CONTAINER = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"


def pod(namespace: str, name: str, container: str = "main") -> Owner:
    return Owner(workload=f"{namespace}/Pod/{name}", kind="pod", namespace=namespace, pod=name, container=container)


def inside(uid: str) -> str:
    return f"0::/kubepods/burstable/pod{uid}/{CONTAINER}\n"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(tmp_path / "kubelet.sock") as server:
        yield server


def attribution(kubelet: Kubelet, timeout: float = 5.0) -> tuple[Attribution, Kubernetes]:
    source = Kubernetes(
        KubernetesSite(kubelet.socket, required=True, logs=kubelet.socket.parent / "logs"),
        interval=0.05,
        timeout=timeout,
    )
    return attribution_of(Parts(source)), source


def test_what_the_kubelet_gave_and_nobody_knows_is_counted(kubelet: Kubelet) -> None:
    dra = "gpu.nvidia.com"
    kubelet.pods = [
        GivenPod("ml", "odd", "main", ["card7"]),
        GivenPod("ml", "net", "main", ["eth0"], "example.com/nic"),
        GivenPod("ml", "claims", "main", claims=[(dra, "gpu-2-mig-19-4-1"), (dra, "gpu-0"), ("net.example", "eth1")]),
    ]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given)

    ownership = joined.join([A, B, M1, M2], {}, {}, 1.0)

    (health,) = [each for each in ownership.health if each.source == "kubernetes"]
    assert health.unresolved == {"unknown_id": 1, "mig_placement": 1, "not_on_this_node": 0}
    assert ownership.holders == {A.uuid: (pod("ml", "claims"),)}


def test_without_the_kubelets_socket_the_log_folders_still_name_pods(tmp_path: Path) -> None:
    (tmp_path / f"logs/ml_train_{POD_A}").mkdir(parents=True)
    source = Kubernetes(KubernetesSite(tmp_path / "no.sock", required=True, logs=tmp_path / "logs"))
    source._poller.ask_once()

    owners = attribution_of(Parts(source)).join([A], {A.uuid: [7]}, {7: host_process(7, inside(POD_A))}, 1.0)

    assert owners.processes == {7: pod("ml", "train", "")}
    assert [each.success for each in owners.health if each.source == "kubernetes"] == [False]


def test_pods_with_one_several_shared_and_mig_devices_hold_them(kubelet: Kubelet) -> None:
    kubelet.pods = [
        GivenPod("ml", "one", "main", [A.uuid]),
        GivenPod("ml", "mig", "main", [M1.uuid], "nvidia.com/mig-1g.10gb"),
        GivenPod("ml", "shares", "main", [f"{B.uuid}::0", f"{B.uuid}::2"]),
        GivenPod("web", "shares-too", "main", [f"{B.uuid}::1"]),
        GivenPod("web", "no-gpu", "main", ["eth0"], "example.com/nic"),
    ]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given)

    ownership = joined.join([A, B, M1, M2], {}, {}, 1.0)
    joined.stop()

    assert ownership.holders == {
        A.uuid: (pod("ml", "one"),),
        B.uuid: (pod("ml", "shares"), pod("web", "shares-too")),
        M1.uuid: (pod("ml", "mig"),),
    }
    assert ownership.weights[B.uuid, pod("ml", "shares")] == pytest.approx(2 / 3)
    assert ownership.weights[B.uuid, pod("web", "shares-too")] == pytest.approx(1 / 3)


def test_pod_with_several_gpus_holds_all(kubelet: Kubelet) -> None:
    kubelet.pods = [GivenPod("ml", "big", "main", [A.uuid, B.uuid])]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given)

    ownership = joined.join([A, B], {}, {}, 1.0)
    joined.stop()

    assert ownership.holders == {A.uuid: (pod("ml", "big"),), B.uuid: (pod("ml", "big"),)}


@pytest.mark.parametrize(
    ("devices", "claims", "allocated"),
    [
        (["nvidia0"], (), [A.uuid]),
        (["nvidia1/vgpu3"], (), [B.uuid]),
        (["nvidia2/gi2"], (), [M2.uuid]),
        ([f"MIG-{A.uuid[:-1]}2/1/0"], (), [M1.uuid]),
        ([], [("gpu.nvidia.com", "gpu-1")], [B.uuid]),
        ([], [("nic.example.com", "gpu-1")], []),
    ],
)
def test_devices_of_gke_and_dra_are_known_by_their_names(
    kubelet: Kubelet, devices: list[str], claims: list[tuple[str, str]], allocated: list[str]
) -> None:
    kubelet.pods = [GivenPod("ml", "p", "main", devices, claims=claims)]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given or not allocated)

    ownership = joined.join([A, B, M1, M2], {}, {}, 1.0)
    joined.stop()

    assert list(ownership.holders) == allocated


def test_process_is_named_by_the_pod_its_gpu_was_given_to(kubelet: Kubelet) -> None:
    kubelet.pods = [GivenPod("ml", "train", "main", [A.uuid])]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given)

    ownership = joined.join([A, B], {A.uuid: [7]}, {7: host_process(7, inside(POD_A))}, 1.0)
    joined.stop()

    owner = pod("ml", "train")
    assert ownership.processes == {7: owner}
    assert ownership.cgroups == {owner: f"/kubepods/burstable/pod{POD_A}/{CONTAINER}"}
    assert (ownership.info[owner].pod_uid, ownership.info[owner].trust) == (POD_A, "inferred")


def test_pods_on_a_shared_gpu_are_told_apart_where_one_of_them_is_known(kubelet: Kubelet) -> None:
    kubelet.pods = [
        GivenPod("ml", "both", "main", [f"{A.uuid}::0", f"{B.uuid}::0"]),
        GivenPod("ml", "second", "main", [f"{B.uuid}::1"]),
    ]
    joined, source = attribution(kubelet)
    source._poller.start()
    until(lambda: source.view(0).given)
    hosts = {7: host_process(7, inside(POD_A)), 8: host_process(8, inside(POD_B))}

    ownership = joined.join([A, B], {A.uuid: [7], B.uuid: [7, 8]}, hosts, 1.0)
    joined.stop()

    assert ownership.processes == {7: pod("ml", "both"), 8: pod("ml", "second")}


def test_pods_on_a_shared_gpu_are_told_apart_by_the_kubelets_log_directories(kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.pods = [GivenPod("ml", "one", "main", [f"{A.uuid}::0"]), GivenPod("ml", "two", "main", [f"{A.uuid}::1"])]
    for name in (f"ml_one_{POD_A}", f"ml_two_{POD_B}", "not-a-pod"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    source = Kubernetes(KubernetesSite(kubelet.socket, required=True, logs=tmp_path / "logs"))
    joined = attribution_of(Parts(source))
    joined.start()
    until(lambda: source.view(0).given)
    hosts = {7: host_process(7, inside(POD_A)), 8: host_process(8, inside(POD_B))}

    ownership = joined.join([A], {A.uuid: [7, 8]}, hosts, 1.0)
    joined.stop()

    one, two = pod("ml", "one"), pod("ml", "two")
    assert ownership.processes == {7: one, 8: two}
    assert ownership.weights == {(A.uuid, one): 0.5, (A.uuid, two): 0.5}
    assert {info.pod_uid for info in ownership.info.values()} == {POD_A, POD_B}


def test_kubelet_that_restarts_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    source = Kubernetes(KubernetesSite(path, required=False), interval=0.02)
    joined = attribution_of(Parts(source))
    with Kubelet(path, [GivenPod("ml", "old", "main", [A.uuid])]):
        source._poller.start()
        until(lambda: source.view(0).given)
    until(lambda: not joined.join([A], {}, {}, 1.0).health[0].success)
    down = joined.join([A], {}, {}, 1.0)
    with Kubelet(path, [GivenPod("ml", "new", "main", [A.uuid])]):
        until(lambda: joined.join([A], {}, {}, 1.0).holders.get(A.uuid) == (pod("ml", "new"),))
        up = joined.join([A], {}, {}, 1.0)
    joined.stop()

    assert down.holders == {A.uuid: (pod("ml", "old"),)}
    assert up.health[0].success


def test_kubelet_that_hangs_holds_up_nothing_and_its_last_word_ages(kubelet: Kubelet) -> None:
    kubelet.pods = [GivenPod("ml", "train", "main", [A.uuid])]
    joined, source = attribution(kubelet, timeout=0.2)
    source._poller.start()
    until(lambda: source.view(0).given)
    kubelet.hanging.set()
    until(lambda: not joined.join([A], {}, {}, 1.0).health[0].success)

    soon = joined.join([A], {}, {}, source._poller.answer.at + 10)
    late = joined.join([A], {}, {}, source._poller.answer.at + LAST_KNOWN_SECONDS + 1)
    joined.stop()

    assert (soon.holders, soon.health[0].age) == ({A.uuid: (pod("ml", "train"),)}, pytest.approx(10))
    assert late.holders == {}


def test_answer_larger_than_a_flow_control_window_is_read(kubelet: Kubelet) -> None:
    kubelet.pods = [GivenPod("ml", f"pod-{number}", "main", [A.uuid] * 20) for number in range(200)]

    assert len(listed(kubelet.socket, timeout=30)) == 4000


def test_server_without_the_service_is_an_error_that_says_so(tmp_path: Path) -> None:
    with Kubelet(tmp_path / "kubelet.sock") as server, pytest.raises(SourceError, match="gRPC status 12"):
        grpc_unary.call(server.socket, "/v1.Other/List")


def test_no_socket_is_no_kubernetes_unless_it_must_be_there(tmp_path: Path) -> None:
    optional = Kubernetes(KubernetesSite(tmp_path / "none.sock", required=False))
    required = Kubernetes(KubernetesSite(tmp_path / "none.sock", required=True))
    optional._poller.ask_once()
    required._poller.ask_once()

    assert optional.health(1.0, 0, {}) == ()
    assert [health.success for health in required.health(1.0, 0, {})] == [False]
