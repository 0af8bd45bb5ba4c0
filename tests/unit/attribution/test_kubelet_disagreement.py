"""Where the kubelet's list is not the whole truth: who holds a GPU then, and that no pod is accused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.join import SETTLE_SECONDS
from exporter.attribution.kubernetes.pod import Pod, pod_of, requested_devices
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.owner import Ownership
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of

A, B = gpu(0), gpu(1)
DRA = "gpu.nvidia.com"
PodName = tuple[str, str]
RESERVATION, FIRST, SECOND = ("kai-resource-reservation", "reserve-0"), ("blue", "infer"), ("green", "infer")
OLD, NEW = ("ml", "old"), ("ml", "new")
MONITOR = ("monitoring", "monitor")


def uid(pod: PodName) -> str:
    return f"{sum(map(ord, pod[0] + pod[1])):08x}-fdcc-454b-97bd-aadfdeb4c340"


def given(pod: PodName, *devices: str, claims: Sequence[str] = (), container: str = "main") -> GivenPod:
    return GivenPod(*pod, container, devices, claims=[(DRA, name) for name in claims])


def known(
    pod: PodName,
    resources: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    phase: str = "Running",
    containers: Sequence[str] = ("main",),
    **spec: Any,
) -> Pod:
    """A pod as the API server has it; its first container asks for `resources`."""
    ids = [f"containerd://{number or CONTAINER_ID:0>64}" for number in range(len(containers))]
    container = {"name": containers[0], "resources": {"limits": {"cpu": "8", **(resources or {})}}}
    status = {
        "phase": phase,
        "containerStatuses": [
            {"name": name, "containerID": identity, "image": "x"}
            for name, identity in zip(containers, ids, strict=True)
        ],
    }
    own = {"namespace": pod[0], "name": pod[1], "uid": uid(pod), **(metadata or {})}
    return pod_of({"metadata": own, "spec": {"containers": [container], **spec}, "status": status}, ())[1]


class Node:
    """The exporter's attribution on a node with GPUs A and B, both allocatable, in cycles 40 s apart."""

    def __init__(self, folder: Path, listed: Sequence[GivenPod], api: Sequence[Pod] = ()) -> None:
        self._source = Kubernetes(KubernetesSite(folder / "kubelet.sock", required=True))
        with Kubelet(folder / "kubelet.sock", listed, [A.uuid, B.uuid]):
            self._source._poller.ask_once()
        self._attribution = attribution_of(Parts(self._source))
        self._api = {pod.uid: pod for pod in api}
        self._now = 100.0

    def run(
        self, running: Mapping[str, Sequence[PodName]], *, named: bool = True, command: str = "python3"
    ) -> Ownership:
        """Join until nothing more is waited for. `running`: pods with a process, by GPU."""
        pods = list(dict.fromkeys(pod for each in running.values() for pod in each))
        pids = {uuid: [100 + pods.index(pod) for pod in each] for uuid, each in running.items()}
        hosts = of(
            host_process(100 + number, cgroup(f"/kubepods/pod{uid(pod)}/{CONTAINER_ID}"), command=command)
            for number, pod in enumerate(pods)
        )
        logged = {uid(pod): pod for pod in pods} if named else {}
        view = replace(self._source.view(self._now), logged=logged, pods=self._api)
        with patch.object(self._source, "view", lambda _: view):
            for _ in range(3):
                self._now += SETTLE_SECONDS
                ownership = self._attribution.join([A, B], pids, hosts, self._now)
        return ownership


def holders(ownership: Ownership, uuid: str) -> set[PodName]:
    """Those with a share; who merely runs there has 0."""
    return {owner.pod_name for owner in ownership.holders.get(uuid, ()) if ownership.weights[uuid, owner] > 0}


def conflicts(ownership: Ownership) -> int:
    return next(each.conflicts for each in ownership.health if each.source == "kubernetes")


def trusts(ownership: Ownership) -> Mapping[PodName, str]:
    return {owner.pod_name: info.trust for owner, info in ownership.info.items()}


def test_pods_that_run_hold_what_a_reservation_pod_was_given(tmp_path: Path) -> None:
    """KAI, Run:ai: the pods that share the GPU ask the kubelet for nothing."""
    ownership = Node(tmp_path, [given(RESERVATION, A.uuid)]).run({A.uuid: [FIRST, SECOND]})

    assert holders(ownership, A.uuid) == {FIRST, SECOND}
    assert set(trusts(ownership)) == {FIRST, SECOND}
    assert ownership.unallocated == {}
    assert conflicts(ownership) == 3


def test_idle_pods_of_a_group_hold_by_their_fractions_what_its_reservation_was_given(tmp_path: Path) -> None:
    """Their label is the reservation's too."""
    group = {"labels": {"runai-gpu-group": "g1"}}
    api = [
        known(RESERVATION, {"nvidia.com/gpu": "1"}, group),
        known(FIRST, metadata={**group, "annotations": {"gpu-fraction": "0.5"}}),
        known(SECOND, metadata={**group, "annotations": {"gpu-fraction": "0.25"}}),
    ]
    ownership = Node(tmp_path, [given(RESERVATION, A.uuid)], api).run({A.uuid: [FIRST]})

    assert {owner.pod_name: share for (_, owner), share in ownership.weights.items()} == {
        FIRST: pytest.approx(2 / 3),
        SECOND: pytest.approx(1 / 3),
    }
    assert ownership.unallocated == {}


@pytest.mark.parametrize(("containers", "named"), [(["main"], "main"), (["main", "proxy"], ""), (["a", "b", "c"], "")])
def test_idle_pod_of_a_group_names_its_container_only_if_it_has_one(
    tmp_path: Path, containers: Sequence[str], named: str
) -> None:
    """Any of several containers may be the one that computes."""
    group = {"labels": {"runai-gpu-group": "g1"}}
    api = [known(RESERVATION, {"nvidia.com/gpu": "1"}, group), known(FIRST, metadata=group, containers=containers)]
    ownership = Node(tmp_path, [given(RESERVATION, A.uuid)], api).run({})

    assert [(owner.pod_name, owner.container) for owner in ownership.holders[A.uuid]] == [(FIRST, named)]


def test_reservation_holds_its_gpu_once_the_pods_of_its_group_have_ended(tmp_path: Path) -> None:
    group = {"labels": {"runai-gpu-group": "g1"}}
    api = [known(RESERVATION, {"nvidia.com/gpu": "1"}, group), known(FIRST, metadata=group, phase="Succeeded")]
    ownership = Node(tmp_path, [given(RESERVATION, A.uuid)], api).run({})

    assert holders(ownership, A.uuid) == {RESERVATION}


def test_completed_pod_that_is_still_listed_holds_nothing(tmp_path: Path) -> None:
    """A kubelet before 1.34. Without a sharing plugin one device is never two running pods'."""
    node = Node(tmp_path, [given(OLD, A.uuid, B.uuid), given(NEW, A.uuid)])
    both = node.run({A.uuid: [OLD], B.uuid: [OLD]})
    after = node.run({A.uuid: [NEW]})
    between_two_steps = node.run({})

    assert holders(both, B.uuid) == {OLD}
    for ownership in (after, between_two_steps):
        assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == ({NEW}, set())


def test_pod_that_the_api_server_calls_completed_holds_nothing(tmp_path: Path) -> None:
    api = [known(OLD, {"nvidia.com/gpu": "1"}, phase="Succeeded"), known(NEW, {"nvidia.com/gpu": "1"})]
    ownership = Node(tmp_path, [given(OLD, A.uuid), given(NEW, A.uuid)], api).run({})

    assert holders(ownership, A.uuid) == {NEW}
    assert conflicts(ownership) == 0


def test_claim_with_admin_access_holds_nothing_once_use_shows_whose_the_gpu_is(tmp_path: Path) -> None:
    node = Node(tmp_path, [given(MONITOR, claims=["gpu-0", "gpu-1"]), given(NEW, claims=["gpu-0"])])
    ownership = node.run({A.uuid: [NEW]})

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == ({NEW}, set())


def test_pods_that_share_one_claim_both_hold(tmp_path: Path) -> None:
    """One of them computes: the other waits, and is not refuted."""
    first, second = ("ml", "one"), ("ml", "two")
    ownership = Node(tmp_path, [given(first, claims=["gpu-0"]), given(second, claims=["gpu-0"])]).run({A.uuid: [first]})

    assert holders(ownership, A.uuid) == {first, second}


def test_idle_pod_keeps_its_slot_of_a_shared_gpu(tmp_path: Path) -> None:
    ownership = Node(tmp_path, [given(OLD, f"{A.uuid}::0"), given(NEW, f"{A.uuid}::1")]).run({A.uuid: [NEW]})

    assert holders(ownership, A.uuid) == {OLD, NEW}
    assert conflicts(ownership) == 0


def test_pod_holds_the_gpu_that_its_sharing_scheduler_chose_and_not_its_slot(tmp_path: Path) -> None:
    """HAMi, Volcano: the device is in the pod's annotation, the kubelet's is only a slot."""
    first, second = ("ml", "one"), ("ml", "two")
    ownership = Node(tmp_path, [given(first, f"{B.uuid}-3"), given(second, f"{A.uuid}-2")]).run(
        {A.uuid: [first, second]}
    )

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == ({first, second}, set())
    assert ownership.unallocated == {}
    assert trusts(ownership)[first] == "inferred"


def _chosen(pod: PodName, uuid: str, key: str = "hami.io/vgpu-devices-allocated") -> Pod:
    """As the scheduler of HAMi or Volcano writes it: memory in MiB, and a percentage of the cores."""
    return known(pod, {"nvidia.com/gpu": "1"}, {"annotations": {key: f"{uuid},NVIDIA,3000,25:;"}})


@pytest.mark.parametrize("key", ["hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"])
def test_idle_pod_has_the_gpu_that_its_sharing_scheduler_wrote_on_it(tmp_path: Path, key: str) -> None:
    ownership = Node(tmp_path, [given(NEW, f"{B.uuid}-3")], [_chosen(NEW, A.uuid, key)]).run({})

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == ({NEW}, set())
    assert (conflicts(ownership), trusts(ownership)[NEW]) == (1, "inferred")


def test_annotation_that_agrees_with_the_kubelet_is_no_conflict(tmp_path: Path) -> None:
    ownership = Node(tmp_path, [given(NEW, f"{A.uuid}-3")], [_chosen(NEW, A.uuid)]).run({})

    assert holders(ownership, A.uuid) == {NEW}
    assert (conflicts(ownership), trusts(ownership)[NEW]) == (0, "exact")


def test_annotation_takes_no_part_of_a_gpu_that_another_pod_has_whole(tmp_path: Path) -> None:
    """Whoever makes a pod can write it."""
    ownership = Node(tmp_path, [given(NEW, f"{B.uuid}-3"), given(OLD, A.uuid)], [_chosen(NEW, A.uuid), known(OLD)]).run(
        {}
    )

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == ({OLD}, {NEW})


def test_annotation_moves_no_pod_from_a_gpu_that_it_has_whole(tmp_path: Path) -> None:
    ownership = Node(tmp_path, [given(NEW, B.uuid)], [_chosen(NEW, A.uuid)]).run({})

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == (set(), {NEW})
    assert (conflicts(ownership), trusts(ownership)[NEW]) == (0, "exact")


def test_annotation_of_a_pod_with_several_containers_moves_none_of_their_slots(tmp_path: Path) -> None:
    """The annotation does not state which container gets the device."""
    slots = [given(NEW, f"{B.uuid}-{slot}", container=name) for slot, name in enumerate(("one", "two"))]
    ownership = Node(tmp_path, slots, [_chosen(NEW, A.uuid)]).run({})

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == (set(), {NEW})
    assert {owner.container for owner in ownership.holders[B.uuid]} == {"one", "two"}


def test_running_use_beats_the_annotation(tmp_path: Path) -> None:
    ownership = Node(tmp_path, [given(NEW, f"{B.uuid}-3")], [_chosen(NEW, A.uuid)]).run({B.uuid: [NEW]})

    assert (holders(ownership, A.uuid), holders(ownership, B.uuid)) == (set(), {NEW})
    assert ownership.unallocated == {}


def test_pod_whose_use_was_seen_keeps_its_gpu_while_a_stranger_runs_there(tmp_path: Path) -> None:
    """Only an allocation that was never used can be a reservation for others."""
    node = Node(tmp_path, [given(OLD, A.uuid)])
    node.run({A.uuid: [OLD]})

    assert holders(node.run({A.uuid: [NEW]}), A.uuid) == {OLD}


def test_pod_that_looks_at_every_gpu_takes_none(tmp_path: Path) -> None:
    """A monitor runs beside the pods that compute; the idle GPU stays whose it is."""
    node = Node(tmp_path, [given(OLD, A.uuid), given(NEW, B.uuid)])

    assert holders(node.run({A.uuid: [OLD, MONITOR], B.uuid: [MONITOR]}), B.uuid) == {NEW}


def test_pod_without_a_name_is_not_accused(tmp_path: Path) -> None:
    """Both pods of a shared GPU, where /var/log/pods is closed."""
    node = Node(tmp_path, [given(OLD, f"{A.uuid}::0"), given(NEW, f"{A.uuid}::1")])

    assert node.run({A.uuid: [OLD, NEW]}, named=False).unallocated == {}


def test_server_of_mps_is_not_accused(tmp_path: Path) -> None:
    """It runs the kernels of its clients; its pod asks for no GPU."""
    node = Node(tmp_path, [given(NEW, f"{A.uuid}::0")], [known(MONITOR), known(NEW, {"nvidia.com/gpu": "1"})])
    ownership = node.run({A.uuid: [MONITOR]}, command="nvidia-cuda-mps")

    assert ownership.unallocated == {}
    assert holders(ownership, A.uuid) == {NEW}


_INIT = {"initContainers": [{"name": "build", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}


@pytest.mark.parametrize(
    ("pod", "accused"),
    [
        # the API server is not asked: what init containers were given, no kubelet lists
        (None, False),
        (known(NEW, {"nvidia.com/gpu": "1"}, **_INIT), False),
        (known(NEW, {"nvidia.com/gpu": "2"}), False),
        (known(NEW, {"nvidia.com/gpu": "1", "aliyun.com/gpu-mem": "8"}), False),
        (known(NEW, {"nvidia.com/gpu": "1"}, resourceClaims=[{"name": "gpu"}]), False),
        (known(NEW, {"nvidia.com/gpu": "1"}, {"labels": {"runai-gpu-group": "g1"}}), False),
        (known(NEW, {"nvidia.com/gpu": "1"}, {"annotations": {"hami.io/vgpu-devices-allocated": "x"}}), False),
        (known(NEW, {"nvidia.com/gpu": "1"}, {"annotations": {"example.com/devices": A.uuid}}), False),
        # asks for one, was given one, and runs on another
        (known(NEW, {"nvidia.com/gpu": "1"}), True),
        (known(NEW, {"nvidia.com/gpu": "1", "rdma/hca": "1"}, {"labels": {"app": "train"}}), True),
    ],
)
def test_pod_is_accused_only_where_the_api_server_agrees_with_the_kubelet(
    tmp_path: Path, pod: Pod | None, *, accused: bool
) -> None:
    node = Node(tmp_path, [given(NEW, B.uuid), given(OLD, A.uuid)], [pod] if pod else [])
    node.run({A.uuid: [OLD], B.uuid: [NEW]})
    ownership = node.run({A.uuid: [OLD, NEW]})

    assert {owner.pod_name for owner in ownership.unallocated.get(A.uuid, ())} == ({NEW} if accused else set())


def test_devices_that_a_pod_asks_for_are_those_of_all_its_containers() -> None:
    limits = ({"nvidia.com/gpu": "2", "cpu": "8"}, {"nvidia.com/mig-1g.10gb": "1"})

    assert requested_devices({"spec": {"containers": [{"resources": {"limits": each}} for each in limits]}}) == 3


def test_pod_that_asks_for_no_gpu_takes_none_and_is_accused(tmp_path: Path) -> None:
    ownership = Node(tmp_path, [given(OLD, A.uuid)], [known(NEW)]).run({A.uuid: [NEW], B.uuid: [NEW]})

    assert holders(ownership, A.uuid) == {OLD}
    assert {uuid: {owner.pod_name for owner in who} for uuid, who in ownership.unallocated.items()} == {
        A.uuid: {NEW},
        B.uuid: {NEW},
    }
