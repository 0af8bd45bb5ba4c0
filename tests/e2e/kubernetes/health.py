"""A node's health on a real cluster: condition, taint and events come with a failure and go with its cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import release, settings
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import GPUS
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, exporter, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for
from tests.fake_nvml import scenario

OTHER = "gpu-node-2"
PATCH = """
import json, os, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}/api/v1/nodes/NODE/status"
condition = {"type": "GPUHealthy", "status": "False", "reason": "Test", "message": "by another node"}
request = urllib.request.Request(url, json.dumps({"status": {"conditions": [condition]}}).encode(), method="PATCH")
request.add_header("Authorization", "Bearer " + open(folder + "token").read())
request.add_header("Content-Type", "application/strategic-merge-patch+json")
try:
    print(urllib.request.urlopen(request, context=ssl.create_default_context(cafile=folder + "ca.crt")).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, workloads: dict[str, list[int]]) -> Iterator[None]:
    del workloads
    values = release.default_values(cluster)
    health = {"condition": True, "taint": "NoSchedule", "events": True, "admissionPolicy": True}
    values.write_text(yaml.safe_dump({**yaml.safe_load(values.read_text()), "nodeHealth": health}))
    deploy(cluster, values)
    yield
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
    cluster.kubectl("delete", "node", OTHER, "--ignore-not-found")


def condition(cluster: Cluster, status: str) -> dict[str, Any]:
    found = {each["type"]: each for each in cluster.get("node", settings.NODE)["status"]["conditions"]}
    if found.get("GPUHealthy", {}).get("status") != status:
        raise NotYetError(found.get("GPUHealthy"))
    assert found["Ready"]["status"] == "True"
    made: dict[str, Any] = found["GPUHealthy"]
    return made


def await_taints(cluster: Cluster, *keys: str) -> None:
    def tainted() -> None:
        found = {each["key"] for each in cluster.get("node", settings.NODE)["spec"].get("taints", ())}
        if found != set(keys):
            raise NotYetError(found)

    wait_for(tainted, 30)


def gpu_of(cluster: Cluster, pod: str) -> int:
    shares = samples(metrics(cluster), "gpu_allocation_ratio")
    return min(GPUS.index(labels["uuid"]) for labels, _ in shares if labels["pod"] == pod)


def pods_with_an_event(cluster: Cluster) -> list[str]:
    events = cluster.get("events", "-n", "team-a", "--field-selector", "reason=GPUFailed")["items"]
    if not events:
        raise NotYetError("no event")
    return [each["involvedObject"]["name"] for each in events]


@pytest.mark.usefixtures("deployed")
def test_failure_and_cure_reach_the_node_and_the_pods(cluster: Cluster, driver: scenario.Scenario) -> None:
    assert wait_for(lambda: condition(cluster, "True"), 60)["reason"] == "NoFault"
    cluster.kubectl("taint", "node", settings.NODE, "team=x:PreferNoSchedule")
    gpu = gpu_of(cluster, "train")

    driver.set({f"gpu{gpu}.lost": 1})
    assert wait_for(lambda: condition(cluster, "False"), 120)["message"].startswith(f"GPU {gpu}: ")
    await_taints(cluster, "team", "gpu-exporter/gpu-unhealthy")
    assert wait_for(lambda: pods_with_an_event(cluster), 30) == ["train"]
    assert "GPUFailed" in cluster.kubectl("describe", "pod", "train", "-n", "team-a")

    driver.remove(f"gpu{gpu}.lost")
    acknowledge = ("gpu-exporter", "acknowledge", "--gpu", str(gpu), "--reason", "reseated")
    cluster.kubectl("exec", "-n", NAMESPACE, exporter(cluster)["metadata"]["name"], "--", *acknowledge)
    assert wait_for(lambda: condition(cluster, "True"), 120)["reason"] == "NoFault"
    await_taints(cluster, "team")
    cluster.kubectl("taint", "node", settings.NODE, "team-")


@pytest.mark.usefixtures("deployed")
def test_exporter_may_change_its_own_node_alone(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}})
    name = wait_for(lambda: exporter(cluster))["metadata"]["name"]

    def patched(node: str) -> str:
        command = ("python3", "-c", PATCH.replace("NODE/", f"{node}/"))
        return cluster.kubectl("exec", "-n", NAMESPACE, name, "--", *command)

    assert patched(settings.NODE).strip() == "200"
    refused = patched(OTHER)
    assert refused.startswith(("422 ", "403 "))
    assert "the exporter may change its own node only" in refused
