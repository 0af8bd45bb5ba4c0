"""TopLevelOwner owners of pods, over what each kind's controllers make: with all rights, with fewer, with none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.attribution.kubernetes import projects
from exporter.attribution.kubernetes.pod import Pod, controller_of, pod_of
from exporter.attribution.kubernetes.projects import Reference
from exporter.attribution.kubernetes.root import (
    OwnerLookup,
    OwnerUnavailable,
    PodPlace,
    TopLevelOwner,
    by_name,
    pod_owner,
    top_level_owner,
)

_DATA = Path(__file__).parent / "data"
_HASH = "9d9c9b2f0d6f6b0a9d9c9b2f0d6f6b0a"
_STATIC: Mapping[str, Any] = {
    "pod": {
        "name": "monitor-gpu01",
        "annotations": {"kubernetes.io/config.hash": _HASH, "kubernetes.io/config.mirror": _HASH},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gpu01", "uid": "n", "controller": True}],
    },
    "root": "Pod/monitor-gpu01",
    "by_name": "Pod/monitor-gpu01",
}


def _cases() -> Mapping[str, Mapping[str, Any]]:
    """What a real API server answered, with what is to be told of it."""
    answers, roots = (
        yaml.load((_DATA / f"kubernetes_{name}.yaml").read_text(), yaml.CSafeLoader) for name in ("owners", "roots")
    )
    return {name: {**answers[name], **roots[name]} for name in answers} | {"static pod": _STATIC}


_CASES = _cases()


def _pod(case: Mapping[str, Any]) -> Pod:
    metadata = dict(case["pod"])
    return pod_of({"metadata": {"namespace": "ml", "uid": "p", **metadata}, "status": {}}, ())[1]


def _minute(root: TopLevelOwner | None) -> TopLevelOwner | None:
    """A CronJob's Job is named after the minute of its run."""
    return root and replace(root, name=re.sub(r"(?<=^nightly-)\d{8}$", "MINUTE", root.name))


def _root(told: str) -> TopLevelOwner:
    """`Kind/name`, with `< Kind/name` for the whole that it is a part of."""
    own, _, whole = told.partition(" < ")
    kind, _, name = own.rpartition("/")
    return TopLevelOwner(name, kind, whole)


class _Objects:
    """What the API server has of a case; `refused` are kinds that the role does not allow."""

    def __init__(self, case: Mapping[str, Any], *refused: str) -> None:
        self._above = {(each["kind"], each["metadata"]["name"]): each["metadata"] for each in case.get("above", ())}
        self._refused = refused

    def __call__(self, reference: Reference) -> OwnerLookup | OwnerUnavailable:
        metadata = self._above.get((reference.kind, reference.name))
        if metadata is None or not projects.resource(reference) or "*" in self._refused:
            return OwnerUnavailable.UNKNOWN
        if reference.kind in self._refused or metadata["uid"] != reference.uid:
            return OwnerUnavailable.UNKNOWN
        return OwnerLookup(controller_of(metadata))


@pytest.mark.parametrize("name", _CASES)
def test_with_all_rights_the_root_is_exact(name: str) -> None:
    case = _CASES[name]

    expected = replace(_root(case["root"]), inferred=case.get("inferred", False))
    assert _minute(top_level_owner(_pod(case), _Objects(case))) == expected


@pytest.mark.parametrize("name", _CASES)
def test_without_rights_on_owners_the_pods_own_labels_tell_and_it_is_said(name: str) -> None:
    case = _CASES[name]
    expected = _root(case.get("by_labels", case["root"]))
    plain = expected.kind == "Pod"

    assert _minute(top_level_owner(_pod(case), _Objects(case, "*"))) == TopLevelOwner(
        expected.name, expected.kind, expected.part_of, inferred=not plain
    )


@pytest.mark.parametrize("name", _CASES)
def test_without_the_api_server_the_pods_name_tells_and_it_is_said(name: str) -> None:
    case = _CASES[name]
    expected = _root(case.get("by_name", case["root"]))

    assert _minute(by_name(_pod(case).name)) == TopLevelOwner(
        expected.name, expected.kind, expected.part_of, inferred=True
    )


def test_reference_to_an_object_of_another_uid_is_not_believed() -> None:
    """Who makes a pod writes its references: one that names another team's Deployment does not make it theirs."""
    case = _CASES["Deployment"]
    forged = {**case, "above": [{**each, "metadata": {**each["metadata"], "uid": "x"}} for each in case["above"]]}

    found = top_level_owner(_pod(case), _Objects(forged))

    assert found
    assert found.inferred


def test_nothing_is_said_while_an_owner_is_being_asked_for() -> None:
    assert top_level_owner(_pod(_CASES["Deployment"]), lambda _: OwnerUnavailable.PENDING) is None


def test_references_in_a_circle_end() -> None:
    itself = Reference("apps/v1", "ReplicaSet", "a", "u")
    found = top_level_owner(Pod("ml", "a-1", "p", controller=itself), lambda _: OwnerLookup(itself))

    assert found
    assert found.name == "a"


def test_owner_that_only_part_of_the_way_may_be_read_to_is_said_to_be_inferred() -> None:
    case = _CASES["Deployment"]

    assert top_level_owner(_pod(case), _Objects(case, "Deployment")) == TopLevelOwner(
        "chat", "Deployment", inferred=True
    )


def test_label_is_confirmed_by_an_object_that_is_named_after_it() -> None:
    """The serverless objects between may be out of reach: the ReplicaSet's name carries the service's."""
    case = _CASES["KServe InferenceService, serverless"]

    found = top_level_owner(_pod(case), _Objects(case, "Revision"))

    assert found == TopLevelOwner("mixtral", "InferenceService")


def test_pod_of_a_jupyterhub_user_is_a_notebook() -> None:
    """Nobody owns it; that its user has gone is to be said as of a notebook, also while no kernel runs."""
    pod = Pod("hub", "jupyter-ada", "u", projects={"hub.jupyter.org/username": "ada"})

    assert top_level_owner(pod, _Objects({})) == TopLevelOwner("jupyter-ada", "Notebook")


def test_object_of_an_unknown_kind_above_is_the_whole() -> None:
    case = _CASES["Kubeflow PyTorchJob"]
    wrapper = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "sweep", "uid": "w"}
    job = case["above"][0]
    inside = {**job["metadata"], "ownerReferences": [{**wrapper, "controller": True}]}

    found = top_level_owner(_pod(case), _Objects({"above": [{**job, "metadata": inside}]}))

    assert found == TopLevelOwner("bert", "PyTorchJob", "AppWrapper/sweep")


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        # what KubeRay's own chart makes: a cluster `raycluster-kuberay`, its workers in `workergroup`
        ("raycluster-kuberay-workergroup-worker-bxbvk", "RayCluster/raycluster-kuberay"),
        ("raycluster-kuberay-head-bxbvk", "RayCluster/raycluster-kuberay"),
        ("team-ada-gpugroup-worker-bxbvk", "RayCluster/team-ada"),
        ("team-bob-gpu-group-worker-bxbvk", "RayCluster/team-bob"),
        ("etl-0123456789abcdef-exec-7", "SparkApplication/etl-0123456789abcdef"),
        ("etl-0123456789abcdef-driver", "SparkApplication/etl-0123456789abcdef"),
    ],
)
def test_all_pods_of_a_cluster_have_one_name_and_those_of_another_have_another(pod: str, workload: str) -> None:
    found = by_name(pod)

    assert f"{found.kind}/{found.name}" == workload


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("llama-2", "llama-3"),
        ("gpt-2", "gpt-3"),
        ("exp-1", "exp-2"),
        ("bert-large-24", "bert-large-12"),
        ("tune-worker-0", "tune-worker-1"),
        ("grid-1-0", "grid-2-0"),
        # Jobs of these names, and what the API server appends to their pods
        ("gpt-2-gbhqg", "gpt-3-zc4q6"),
        ("sweep-lr-1-2-gbhqg", "sweep-lr-2-1-zc4q6"),
        # five digits of somebody's own
        ("run-42875", "run-56974"),
    ],
)
def test_pod_names_that_people_write_too_are_not_merged(one: str, other: str) -> None:
    assert by_name(one).name != by_name(other).name


def test_plain_pod_is_not_merged_with_pods_of_a_controller_of_its_name() -> None:
    assert by_name("same") == TopLevelOwner("same", "Pod", inferred=True)
    assert by_name("same-x7k2p") == TopLevelOwner("same", "", inferred=True)


def test_pods_of_one_replica_set_are_merged_by_its_hash() -> None:
    assert by_name("chat-fd76765cd-lk52m") == by_name("chat-fd76765cd-zc4q6")


def test_names_that_the_api_server_cut_at_63_letters_are_of_one_workload() -> None:
    """It keeps 58 letters of `generateName` and appends five, here to a Deployment's name of 64."""
    made = "recommender-of-the-shop-with-a-name-that-somebody-made-longer-a"[:58]

    assert by_name(f"{made}x7k2p") == by_name(f"{made}bxbvk") == TopLevelOwner(made, inferred=True)
    assert by_name(f"{made}alpha").name == f"{made}alpha"
    assert by_name(f"{made[:57]}x7k2p").name == f"{made[:57]}x7k2p"


def test_executors_of_spark_are_of_the_application_that_its_operator_runs() -> None:
    """Their driver's pod made them: no object that is above pods is."""
    driver = Reference("v1", "Pod", "nightly-etl-driver", "d")
    pod = Pod("ml", "etl-0123456789abcdef-exec-7", "p", controller=driver)

    labelled = replace(pod, projects={"sparkoperator.k8s.io/app-name": "nightly-etl"})

    assert top_level_owner(pod, lambda _: OwnerUnavailable.UNKNOWN) == by_name(pod.name)
    assert top_level_owner(labelled, lambda _: OwnerUnavailable.UNKNOWN) == TopLevelOwner(
        "nightly-etl", "SparkApplication", inferred=True
    )


def test_workers_of_dask_each_have_a_deployment_and_are_one_cluster() -> None:
    """As dask-kubernetes makes them; its own kinds may not be read."""
    group = Reference("kubernetes.dask.org/v1", "DaskWorkerGroup", "sweep-default", "g")
    above = {
        "sweep-default-worker-0a1b2c3d4e-6c9fdb6b5c": Reference(
            "apps/v1", "Deployment", "sweep-default-worker-0a1b2c3d4e", "d"
        ),
        "sweep-default-worker-0a1b2c3d4e": group,
    }
    replicas = Reference("apps/v1", "ReplicaSet", "sweep-default-worker-0a1b2c3d4e-6c9fdb6b5c", "r")
    pod = Pod("ml", f"{replicas.name}-bxbvk", "p", controller=replicas, projects={"dask.org/cluster-name": "sweep"})

    def ask(reference: Reference) -> OwnerLookup | OwnerUnavailable:
        return OwnerLookup(above[reference.name]) if reference.name in above else OwnerUnavailable.UNKNOWN

    assert top_level_owner(pod, ask) == TopLevelOwner("sweep", "DaskCluster")


def _made_by(version: str, kind: str, name: str) -> Mapping[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def _named(name: str, labels: Mapping[str, str], *owners: Mapping[str, Any]) -> Pod:
    metadata = {"namespace": "ml", "name": name, "uid": name, "labels": labels, "ownerReferences": list(owners)}
    return pod_of({"metadata": metadata, "status": {}}, ())[1]


_GROVE = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "disagg"}
_RUNNERS = {"actions.github.com/scale-set-name": "gpu-runners", "app.kubernetes.io/part-of": "gha-runner-scale-set"}
_AIRFLOW = {"dag_id": "retrain", "airflow_version": "2.10.4"}
_SPARK = {"spark-app-selector": "spark-b1f8840227074b62996f66b915044ee6"}


@pytest.mark.parametrize(
    ("pods", "workload"),
    [
        # labels and references as the source of each project writes them
        (
            [
                _named("train-head", {"skypilot-cluster-name": "train-1a2b"}),
                _named("train-worker1", {"skypilot-cluster-name": "train-1a2b"}),
                _named("train-worker2", {"skypilot-cluster": "train-1a2b"}),  # as releases before that label do
            ],
            "SkyPilotCluster/train-1a2b",
        ),
        (
            [
                _named("etl-0123456789abcdef-driver", {**_SPARK, "spark-role": "driver"}),
                _named("my-driver-exec-1", {**_SPARK, "spark-role": "executor"}, _made_by("v1", "Pod", "my-driver")),
            ],
            "SparkApplication/spark-b1f8840227074b62996f66b915044ee6",
        ),
        (
            [
                _named("disagg-0-prefill-x", _GROVE, _made_by("grove.io/v1alpha1", "PodClique", "disagg-0-prefill")),
                _named("disagg-0-decode-y", _GROVE, _made_by("grove.io/v1alpha1", "PodClique", "disagg-0-decode")),
            ],
            "PodCliqueSet/disagg",
        ),
        (
            [
                _named(name, _RUNNERS, _made_by("actions.github.com/v1alpha1", "EphemeralRunner", name))
                for name in ("gpu-runners-8xk2p-runner-a", "gpu-runners-8xk2p-runner-b")
            ],
            "AutoscalingRunnerSet/gpu-runners",
        ),
        (
            [
                _named(
                    name, {"runner-deployment-name": "gpu"}, _made_by("actions.summerwind.dev/v1alpha1", "Runner", name)
                )
                for name in ("gpu-x7k2p-bxbvk", "gpu-x7k2p-zc4q6")
            ],
            "RunnerDeployment/gpu",
        ),
        (
            [_named("retrain-fit-1", {**_AIRFLOW, "task_id": "fit"}), _named("retrain-eval-2", _AIRFLOW)],
            "DAG/retrain",
        ),
        (
            [
                _named(name, {}, _made_by("flyte.lyft.com/v1alpha1", "flyteworkflow", "bahyicye9e"))
                for name in ("bahyicye9e-n0-0", "bahyicye9e-n1-0")
            ],
            "flyteworkflow/bahyicye9e",
        ),
        (
            [
                _named(name, {}, _made_by("batch.volcano.sh/v1alpha1", "Job", "pretrain"))
                for name in ("pretrain-node-5", "pretrain-node-6")
            ],
            "Job/pretrain",
        ),
        (
            [
                _named(name, {}, _made_by("argoproj.io/v1alpha1", "Workflow", "sweep-x7k2p"))
                for name in ("sweep-x7k2p-train-123", "sweep-x7k2p-eval-456")
            ],
            "Workflow/sweep-x7k2p",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pods_of_one_project_object_are_one_workload(pods: Sequence[Pod], workload: str) -> None:
    found = {top_level_owner(pod, lambda _: OwnerUnavailable.UNKNOWN) for pod in pods}

    assert {each and (f"{each.kind}/{each.name}", each.inferred) for each in found} == {(workload, True)}


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "Helm"},
        {"app.kubernetes.io/part-of": "shop"},
        {"dag_id": "mine"},
    ],
)
def test_label_that_others_use_too_names_no_workload(labels: Mapping[str, str]) -> None:
    found = top_level_owner(_named("solo", labels), lambda _: OwnerUnavailable.UNKNOWN)

    assert found == TopLevelOwner("solo", "Pod")


def test_runners_are_of_the_scale_set_that_the_api_server_confirms() -> None:
    names = ("EphemeralRunner", "EphemeralRunnerSet", "AutoscalingRunnerSet")
    runner, runner_set, scale_set = (
        Reference("actions.github.com/v1alpha1", kind, kind.lower(), "u") for kind in names
    )
    above = {runner: runner_set, runner_set: scale_set, scale_set: None}
    pod = Pod("ci", "gpu-runners-8xk2p-runner-a", "p", controller=runner)

    found = top_level_owner(pod, lambda reference: OwnerLookup(above[reference]))

    assert found == TopLevelOwner("autoscalingrunnerset", "AutoscalingRunnerSet")


def test_replica_set_without_a_deployment_keeps_its_own_name() -> None:
    """Orphaned by `kubectl delete --cascade=orphan`: nothing is above it any more, and its pods keep their hash."""
    replicas = Reference("apps/v1", "ReplicaSet", "chat-fd76765cd", "r")
    pod = Pod("ml", "chat-fd76765cd-lk52m", "p", controller=replicas, projects={"pod-template-hash": "fd76765cd"})

    assert top_level_owner(pod, lambda _: OwnerLookup(None)) == TopLevelOwner("chat-fd76765cd", "ReplicaSet")


def test_objects_of_one_name_and_different_kinds_are_different_workloads() -> None:
    place = PodPlace("ml", "train-0", "main")
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "")

    found = [pod_owner(place, TopLevelOwner("train", kind)).workload for kind in kinds]

    assert found == ["ml/Deployment/train", "ml/StatefulSet/train", "ml/DaemonSet/train", "ml/Job/train",
                     "ml/Pod/train", "ml/train"]  # fmt: skip
