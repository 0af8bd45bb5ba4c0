"""Who runs on a GPU that was not given to him: named only where a scheduler gives it out and its word is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.join import SETTLE_SECONDS, Attribution, UnallocatedUse
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.owner import NOBODY, Owner, Ownership
from exporter.attribution.slurm.job import Job, NodeGres
from tests.attribution_kit.kubelet import GivenPod, Kubelet
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import STEP, Node

A, B = gpu(0), gpu(1)
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
JOB = Owner("slurm:7", "slurm", slurm_job="7", user="alice")
HAND = Owner("docker:by-hand", "container", container="by-hand")
LATER = SETTLE_SECONDS
Given = Mapping[str, Collection[Owner]]


def named(given: Given, runs: Given, offered: Collection[str] = (), unsure: Collection[Owner] = ()) -> Given:
    """After long enough."""
    use = UnallocatedUse()
    use.of(given, offered, runs, unsure, 0.0)
    return use.of(given, offered, runs, unsure, LATER)


@pytest.mark.parametrize(
    ("given", "runs", "offered", "expected"),
    [
        # given to others
        ({"a": [JOB]}, {"a": [JOB, HAND]}, (), {"a": {HAND}}),
        # given to nobody, but a scheduler's to give
        ({}, {"a": [HAND]}, "a", {"a": {HAND}}),
        # nobody gives GPUs out here
        ({}, {"a": [HAND]}, (), {}),
        # of two GPUs one is a scheduler's
        ({}, {"a": [HAND], "b": [HAND]}, "b", {"b": {HAND}}),
        # nobody known
        ({"a": [JOB]}, {"a": [NOBODY]}, (), {}),
        # on its own, and beside it
        ({"a": [JOB]}, {"a": [JOB], "b": [JOB]}, "ab", {"b": {JOB}}),
    ],
)
def test_who_was_not_given_it_is_named(given: Given, runs: Given, offered: str, expected: Given) -> None:
    assert named(given, runs, offered) == expected


def test_another_container_of_the_pod_may_use_what_one_was_given() -> None:
    first, second = (Owner("ml/train", "pod", namespace="ml", pod="train-0", container=name) for name in ("a", "b"))

    assert named({"a": [first]}, {"a": [first, second]}) == {}


@pytest.mark.parametrize(("namespace", "pod"), [("web", "train-0"), ("ml", "train-1")])
def test_pod_in_another_namespace_and_another_pod_in_this_one_may_not(namespace: str, pod: str) -> None:
    """A StatefulSet `train` has a pod train-0 in every namespace."""
    theirs = Owner("ml/train", "pod", namespace="ml", pod="train-0", container="main")
    other = theirs._replace(namespace=namespace, pod=pod)

    assert named({"a": [theirs]}, {"a": [theirs, other]}) == {"a": {other}}


def test_a_gpu_that_was_given_out_once_stays_its_schedulers() -> None:
    use = UnallocatedUse()
    use.of({"a": [JOB]}, (), {"a": [JOB]}, (), 0.0)

    assert use.of({}, (), {"a": [HAND]}, (), 1.0) == {}
    assert use.of({}, (), {"a": [HAND]}, (), 1.0 + LATER) == {"a": {HAND}}


def test_nobody_is_named_while_it_is_not_known_what_he_was_given() -> None:
    assert named({}, {"a": [JOB]}, "a", [JOB]) == {}


# In the join


def cycles(joined: Attribution, path: str, user: str = "alice") -> Ownership:
    process = of([host_process(7, cgroup(path), user)])
    joined.join([A, B], {A.uuid: [7]}, process, 100.0)
    return joined.join([A, B], {A.uuid: [7]}, process, 100.0 + LATER)


def kubelet(folder: Path, given: GivenPod, allocatable: list[str] | None) -> Kubernetes:
    source = Kubernetes(KubernetesSite(folder / "kubelet.sock", required=True))
    with Kubelet(folder / "kubelet.sock", [given], allocatable):
        source._poller.ask_once()
    return source


@pytest.mark.parametrize(("allocatable", "expected"), [([A.uuid, B.uuid], 1), (None, 0), ([B.uuid], 0)])
def test_container_by_hand_on_a_gpu_that_the_kubelet_gave_to_nobody(
    tmp_path: Path, allocatable: list[str] | None, expected: int
) -> None:
    source = kubelet(tmp_path, GivenPod("ml", "train", "main", [B.uuid]), allocatable)

    ownership = cycles(attribution_of(Parts(source)), f"/docker/{CONTAINER_ID}")

    assert len(ownership.unallocated.get(A.uuid, ())) == expected


def test_nobody_is_named_while_the_kubelet_has_told_nothing(tmp_path: Path) -> None:
    source = kubelet(tmp_path, GivenPod("ml", "train", "main", [A.uuid]), [A.uuid, B.uuid])
    joined = attribution_of(Parts(source))
    path = f"/kubepods/pod{POD}/{CONTAINER_ID}"
    assert cycles(joined, path).unallocated == {}

    source._poller.answer = type(source._poller.answer)((), -1000.0, success=False)
    joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 200.0)
    assert joined.join([A], {A.uuid: [7]}, of([host_process(7, cgroup(path))]), 300.0).unallocated == {}


@pytest.mark.parametrize(("files", "expected"), [("/dev/nvidia[0-1]", {A.uuid: {"slurm:7"}}), ("/dev/nvidia1", {})])
def test_process_beside_its_allocation_is_named_by_its_job(
    tmp_path: Path, files: str, expected: Mapping[str, Collection[str]]
) -> None:
    node = Node(tmp_path / "node")
    (node.root / "gres.conf").write_text(f"Name=gpu File={files}\n")
    node.map(B.uuid, "7")
    node.read()

    ownership = cycles(node.attribution, STEP.format(7))

    assert {uuid: {each.workload for each in who} for uuid, who in ownership.unallocated.items()} == expected


@pytest.mark.parametrize(("gpus", "accused"), [((1,), True), ((0, 1), False)])
def test_job_is_accused_only_where_all_sources_of_slurm_agree(
    tmp_path: Path, gpus: tuple[int, ...], *, accused: bool
) -> None:
    """The prolog's file gives it B; slurmctld says the same, or both GPUs."""
    gres = (NodeGres(frozenset({"n1"}), "gpu", len(gpus), gpus),)
    node = Node(tmp_path / "node", controller={"7": Job("7", gres=gres)})
    (node.root / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-1]\n")
    node.map(B.uuid, "7")
    cycles(node.attribution, STEP.format(7))
    node.read()

    assert bool(cycles(node.attribution, STEP.format(7)).unallocated) is accused


def test_job_of_which_nobody_tells_what_it_was_given_is_not_named(tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    (node.root / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-1]\n")
    node.read()

    assert cycles(node.attribution, STEP.format(7)).unallocated == {}
