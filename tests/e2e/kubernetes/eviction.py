"""Pods evicted through the API, the exporter's and its GPUs' holders'; after all other cases: `make e2e-kubernetes`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import release, settings
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import EXCLUSIVE, GPUS, pod
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, exporter, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

LEAVER = "leaver"
STATES = "gpu_state_seconds_total"


@pytest.fixture(scope="module")
def deployed(cluster: Cluster) -> Iterator[Path]:
    values = release.default_values(cluster)
    deploy(cluster, values)
    yield values
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")


def evict(cluster: Cluster, namespace: str, name: str) -> None:
    asked = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(asked))


def ready(cluster: Cluster) -> dict[str, Any]:
    found = exporter(cluster)
    if not all(each["ready"] for each in found["status"].get("containerStatuses", [{"ready": False}])):
        raise NotYetError(found["status"])
    return found


def held(cluster: Cluster) -> dict[str, str]:
    """Pod by UUID of the GPU that it holds."""
    shares = samples(metrics(cluster), "gpu_allocation_ratio")
    return {labels["uuid"]: labels["pod"] for labels, _ in shares if labels["pod"]}


@pytest.mark.usefixtures("deployed")
def test_evicted_exporter_is_replaced(cluster: Cluster) -> None:
    before = wait_for(lambda: ready(cluster))["metadata"]
    evict(cluster, NAMESPACE, before["name"])

    def replaced() -> str:
        found = ready(cluster)["metadata"]
        if found["uid"] == before["uid"]:
            raise NotYetError(before["name"])
        return metrics(cluster)

    text = wait_for(replaced)
    assert sorted(labels["uuid"] for labels, _ in samples(text, "gpu_info")) == sorted(GPUS)


@pytest.mark.usefixtures("deployed", "plugins")
def test_gpu_of_an_evicted_pod_is_free(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}, pod(LEAVER, EXCLUSIVE, 1))
    cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", f"pod/{LEAVER}", "--timeout=120s")

    def holding() -> str:
        found = [uuid for uuid, name in held(cluster).items() if name == LEAVER]
        if not found:
            raise NotYetError(held(cluster))
        return found[0]

    uuid = wait_for(holding)
    evict(cluster, "team-a", LEAVER)

    def free() -> None:
        states = {(labels["uuid"], labels["state"]): value for labels, value in samples(metrics(cluster), STATES)}
        if held(cluster).get(uuid) or not states.get((uuid, "free")):  # seconds come with the next cycle
            raise NotYetError(states)

    wait_for(free)


@pytest.mark.usefixtures("deployed", "plugins")
def test_drained_node_keeps_its_exporter_and_has_no_holders(cluster: Cluster) -> None:
    before = wait_for(lambda: ready(cluster))["metadata"]["uid"]
    cluster.kubectl(
        "drain", settings.NODE, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=120s"
    )
    try:
        (node,) = cluster.get("nodes")["items"]
        assert node["spec"]["unschedulable"]
        assert wait_for(lambda: ready(cluster))["metadata"]["uid"] == before

        def nobody() -> None:
            if found := held(cluster):
                raise NotYetError(found)

        wait_for(nobody)
    finally:
        cluster.kubectl("uncordon", settings.NODE)
