"""The objects of kinds.yaml in the API server, each below the one before it, and what the server says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubernetes.cluster import TOOLS, Cluster
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

NAMESPACE = "kinds"
RESOURCE = "nvidia.com/gpu.many"
GROUPS: list[list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text())
CASES = re.findall(r"POD ([^}\n\"]+)", Path(__file__).with_name("kinds.yaml").read_text().partition("\n- ")[2])
"""In the order of the file."""
NOTEBOOK = {
    # The one kind whose project has no module that can be had: its definition without what it says of fields.
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "notebooks.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {"kind": "Notebook", "plural": "notebooks", "singular": "notebook", "listKind": "NotebookList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def container_name(case: str) -> str:
    """By which a pod's series are found again, whatever the pod is called."""
    return re.sub("[^a-z0-9]+", "-", case.lower())


def make_all(cluster: Cluster) -> None:
    wait_for(lambda: cluster.kubectl("apply", "--server-side", "-f", str(TOOLS / "kinds")))
    cluster.apply(NOTEBOOK, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=200s")
    for group in GROUPS:
        above: dict[str, Any] | None = None
        top = ""
        for each in group:
            wanted = dict(each)
            below = wanted.pop("below", None)
            if below:
                above = wait_for(lambda below=below: _get(cluster, below))  # type: ignore[misc]
            above = _make(cluster, _filled(wanted, top), above)
            top = top or above["metadata"]["uid"]


def _make(cluster: Cluster, wanted: dict[str, Any], above: dict[str, Any] | None) -> dict[str, Any]:
    metadata = {**wanted["metadata"], "namespace": NAMESPACE}
    if above:
        metadata["ownerReferences"] = [_reference(above)]
    given = json.dumps({**wanted, "metadata": metadata})
    made: dict[str, Any] = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", given=given))
    return made


def _reference(above: Mapping[str, Any]) -> dict[str, Any]:
    own = {"apiVersion": above["apiVersion"], "kind": above["kind"], "controller": True}
    return {**own, "name": above["metadata"]["name"], "uid": above["metadata"]["uid"]}


def _filled(value: Any, top: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, top) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, top) for each in value]
    if value == "UID":
        return top
    if isinstance(value, str) and value.startswith("POD"):
        return _pod(value.removeprefix("POD").strip())
    return value


def _pod(case: str) -> dict[str, Any]:
    container = {"name": container_name(case) or "main", "image": "localhost/pause:1"}
    held = {"resources": {"limits": {RESOURCE: "1"}}}
    pod: dict[str, Any] = {"containers": [{**container, **held}], "terminationGracePeriodSeconds": 1}
    return {**pod, "restartPolicy": "Never"} if case in _OF_JOBS else pod


_OF_JOBS = [case for case in CASES if re.search(r"\bJob\b|JobSet|TrainJob|launcher", case) and "Volcano" not in case]
"""A Job's pods must say whether they are started again."""


def running(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The pod of each case. Raises NotYetError while one is missing or does not run."""
    pods = {each["spec"]["containers"][0]["name"]: each for each in cluster.get("pods", "-n", NAMESPACE)["items"]}
    found = {case: pods[container_name(case)] for case in CASES if container_name(case) in pods}
    waiting = [each["metadata"]["name"] for each in found.values() if each["status"].get("phase") != "Running"]
    if waiting or len(found) != len(CASES):
        raise NotYetError((waiting, [case for case in CASES if case not in found]))
    return found


def answers(cluster: Cluster, pod: Mapping[str, Any]) -> dict[str, Any]:
    """What the server says of a pod and of the objects above it, as far as attribution reads it."""
    kept = ("name", "labels", "annotations", "ownerReferences")
    metadata = {key: value for key, value in pod["metadata"].items() if key in kept}
    return {"pod": metadata, "above": list(_above(cluster, pod["metadata"]))}


def _above(cluster: Cluster, metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for reference in metadata.get("ownerReferences", ()):
        found = _get(cluster, reference)
        kept = {key: value for key, value in found["metadata"].items() if key in ("name", "uid", "ownerReferences")}
        yield {"kind": found["kind"], "metadata": kept}
        yield from _above(cluster, found["metadata"])


def _get(cluster: Cluster, reference: Mapping[str, Any]) -> dict[str, Any]:
    group, _, version = reference["apiVersion"].rpartition("/")
    kind = ".".join((reference["kind"], version, group)) if group else reference["kind"]
    found: dict[str, Any] = cluster.get(kind, reference["name"], "-n", NAMESPACE)
    return found
