"""What a cluster would refuse after minutes is refused by the chart at once; without a cluster nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import helm_python
import pytest

from tests.contract.chart import api_server
from tests.contract.chart.conftest import Files, Values, packed

HERE = {"image": {"registry": "registry.example.com"}}
OWN = {"kind": "Namespace", "metadata": {"name": "mon"}}
LABELLED = {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}

RENDERED = "unable to build kubernetes objects from release manifest"
"""The server here has no schemas of the objects."""

Object = dict[str, Any]


def node(
    name: str, labels: dict[str, str], version: str = "v1.36.2", runtime: str = "containerd://2.1.4", **status: Any
) -> Object:
    info = {"nodeInfo": {"kubeletVersion": version, "containerRuntimeVersion": runtime}}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {**info, **status}}


def named(kind: str, name: str) -> Object:
    return {"kind": kind, "metadata": {"name": name}}


def enforcing(level: str) -> Object:
    return {"kind": "Namespace", "metadata": {"name": "mon", "labels": {"pod-security.kubernetes.io/enforce": level}}}


def refusal(given: Values, objects: Sequence[Object], kinds: Any = api_server.KNOWN) -> str:
    """What `helm install --dry-run=server` says; empty where the chart was rendered, which comes first."""
    with (
        api_server.serving(api_server.answers([OWN, *objects], kinds)) as kubeconfig,
        helm_python.Config(kubeconfig_content=kubeconfig, namespace="mon", storage_driver="memory") as config,
        pytest.raises(helm_python.HelmReleaseError) as refused,
    ):
        config.install(str(packed()), "rel", {**HERE, **given}, namespace="mon", dry_run="server")
    said = str(refused.value).strip()
    return "" if said.startswith(RENDERED) else said


def limits(**of_containers: Any) -> Object:
    spec = {"limits": [{"type": "Pod", "min": {"cpu": "1"}}, {"type": "Container", **of_containers}]}
    return {**named("LimitRange", "team"), "spec": spec}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Object:
    return {**named("ResourceQuota", "team"), "spec": {"hard": hard, **spec}, "status": {"used": used or {}}}


NO_REGISTRY = [
    ("containerd://2.1.4", "docker.io/library/gpu-exporter:1"),
    ("cri-o://1.34.0", "localhost/gpu-exporter:1"),
    ("docker://28.3.0", "gpu-exporter:1"),
]
ALONE = {"processes": {"enabled": False}, "pods": {"enabled": False}}
MONITORED = {"serviceMonitor": {"enabled": True}}
VICTORIA = {**MONITORED, "monitoring": {"operator": "victoriametrics"}}
AZURE = {**MONITORED, "monitoring": {"apiVersion": "azmonitoring.coreos.com/v1"}}
WRONG: list[tuple[Values, list[Object], str]] = [
    ({}, [enforcing("baseline")], "namespace mon enforces Pod Security level baseline"),
    ({}, [enforcing("restricted")], "namespace mon enforces Pod Security level restricted"),
    (
        {"attribution": ALONE, "security": {"runAsUser": 0}},
        [enforcing("restricted")],
        "needs baseline (its user or security context)",
    ),
    (
        {"attribution": ALONE, "extraVolumes": [{"name": "fabric", "hostPath": {"path": "/dev/infiniband"}}]},
        [enforcing("restricted")],
        "needs privileged (extraVolumes (host path /dev/infiniband))",
    ),
    ({}, [limits(min={"cpu": "10m"})], "LimitRange team of namespace mon asks for 10m of cpu at least"),
    ({}, [limits(max={"memory": "128Mi"})], "LimitRange team of namespace mon allows 128Mi of memory at most"),
    ({}, [quota({"limits.cpu": "10"})], "ResourceQuota team of namespace mon counts limits.cpu"),
    (
        {"resources": {"requests": {"cpu": None}}},
        [quota({"requests.cpu": "10"})],
        "counts requests.cpu, and would refuse every pod, which has none: set resources.requests.cpu",
    ),
    (
        {},
        [quota({"pods": "3"}, {"pods": "2"}), node("a", LABELLED), node("b", LABELLED)],
        "ResourceQuota team of namespace mon has pods=3 with 2 in use, and this release needs 2 times 1:",
    ),
    (
        {},
        [quota({"limits.memory": "200Mi"})],
        "with 0 in use, and this release needs 1 times 256Mi:",
    ),
    (
        {"runtimeClass": {"name": "nvidia"}},
        [named("RuntimeClass", "nvidia-cdi"), named("RuntimeClass", "kata")],
        "no such RuntimeClass (it has: nvidia-cdi, kata)",
    ),
    ({"runtimeClass": {"name": "nvidia"}}, [], "no such RuntimeClass (it has: none)"),
    ({"priorityClassName": "high"}, [], "priorityClassName=high: the cluster has no such PriorityClass"),
    (MONITORED, [], "serviceMonitor.enabled: the cluster does not know monitoring.coreos.com/v1/ServiceMonitor"),
    (
        VICTORIA,
        [named("CustomResourceDefinition", "servicemonitors.monitoring.coreos.com")],
        "know operator.victoriametrics.com/v1beta1/VMServiceScrape: install the VictoriaMetrics operator first",
    ),
    ({"podMonitor": {"enabled": True}}, [], "podMonitor.enabled: the cluster does not know"),
    ({"openshift": {"scc": True}}, [], "openshift.scc: the cluster does not know"),
    ({"image": {"registry": ""}}, [node("a", LABELLED)], "image.registry is empty and no node has gpu-exporter:"),
    (
        {"image": {"registry": "", "tag": "1"}},
        [node("a", LABELLED, images=[{"names": ["localhost/gpu-exporter:1"]}])],
        "no node has gpu-exporter:1",
    ),
    ({}, [node("a", {"kubernetes.io/os": "linux"}, capacity={"nvidia.com/gpu": "8"})], "label node a nvidia.com"),
    ({}, [node("a", LABELLED | {"microk8s.io/cluster": "true"})], "/var/snap/microk8s/common/var/lib/kubelet"),
    ({}, [node("a", LABELLED, "v1.34.1+k0s")], "the kubelet of node a keeps its files in /var/lib/k0s/kubelet"),
]
RIGHT: list[tuple[Values, list[Object]]] = [
    ({}, []),
    ({}, [enforcing("privileged"), node("a", LABELLED, capacity={"nvidia.com/gpu": "8"})]),
    ({"attribution": ALONE}, [enforcing("restricted")]),
    ({"attribution": ALONE, "security": {"addCapabilities": ["NET_BIND_SERVICE"]}}, [enforcing("restricted")]),
    ({"checkCluster": False}, [enforcing("baseline")]),
    ({"resources": {"requests": {"cpu": "0.01"}}}, [limits(min={"cpu": "10m"}, max={"memory": "1Gi", "cpu": 2})]),
    ({}, [limits(default={"cpu": "500m"}), quota({"limits.cpu": "10", "limits.memory": "10Gi", "pods": "50"})]),
    ({"resources": {"limits": {"cpu": 1}}}, [quota({"limits.cpu": "10", "requests.cpu": "10"})]),
    ({}, [quota({"limits.cpu": "1"}, scopes=["BestEffort"])]),
    (
        {},
        [
            quota({"pods": "3", "memory": "1", "limits.memory": "1Gi"}, {"pods": "1", "limits.memory": "512Mi"}),
            *(node("a", LABELLED), node("b", LABELLED), node("c", {"kubernetes.io/os": "linux"})),
        ],
    ),
    # Quantities as Kubernetes writes them, large and with an exponent.
    ({}, [limits(max={"memory": "1Pi"})]),
    ({}, [quota({"limits.memory": "1Ei"}, {"limits.memory": "3P"})]),
    ({}, [quota({"pods": "1e3"}, {"pods": "1"}), node("a", LABELLED), node("b", LABELLED)]),
    ({"resources": {"limits": {"cpu": "1"}}}, [quota({"limits.cpu": "2"}, {"limits.cpu": "250000u"})]),
    ({"resources": {"requests": {"cpu": None}}}, [limits(defaultRequest={"cpu": "1"}), quota({"cpu": "10"})]),
    ({}, [{**named("LimitRange", "none"), "spec": {}}, {**named("ResourceQuota", "none"), "spec": {}}]),
    ({"runtimeClass": {"name": "nvidia"}}, [named("RuntimeClass", "nvidia")]),
    ({"runtimeClass": {"name": "nvidia", "create": True}}, []),
    ({"priorityClassName": "high"}, [named("PriorityClass", "high")]),
    (MONITORED, [named("CustomResourceDefinition", "servicemonitors.monitoring.coreos.com")]),
    (VICTORIA, [named("CustomResourceDefinition", "vmservicescrapes.operator.victoriametrics.com")]),
    (AZURE, [named("CustomResourceDefinition", "servicemonitors.azmonitoring.coreos.com")]),
    ({"image": {"registry": "", "tag": "1"}}, [node("a", LABELLED, images=[{"names": ["gpu-exporter:1"]}])]),
    # What each runtime calls an image without a registry.
    *(
        ({"image": {"registry": "", "tag": "1"}}, [node("a", LABELLED, runtime=runtime, images=[{"names": [name]}])])
        for runtime, name in NO_REGISTRY
    ),
    # A node names its fifty largest images alone.
    (
        {"image": {"registry": ""}},
        [node("a", LABELLED, images=[{"names": [f"other.example.com/{number}:1"]} for number in range(50)])],
    ),
    ({"image": {"registry": "", "pullPolicy": "Never"}}, []),
    ({"affinity": {"podAffinity": {}}}, [node("a", {"kubernetes.io/os": "linux"}, capacity={"nvidia.com/gpu": 1})]),
    ({}, [node("w", {"kubernetes.io/os": "windows"}, capacity={"nvidia.com/gpu": "1"})]),
    ({}, [node("a", {"kubernetes.io/os": "linux"}, capacity={"nvidia.com/gpu": "0"})]),
    (
        {"attribution": {"pods": {"kubeletDir": "/var/lib/k0s/kubelet"}}},
        [node("a", LABELLED, "v1.34.1+k0s")],
    ),
    # A kubelet with a --root-dir of its own, which no label tells.
    ({"attribution": {"pods": {"kubeletDir": "/mnt/kubelet"}}}, [node("a", LABELLED, "v1.34.1+k0s")]),
]


@pytest.mark.parametrize(("given", "objects", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_wrong_cluster_is_one_line_at_install(given: Values, objects: list[Object], said: str) -> None:
    refused = refusal(given, objects)

    assert said in refused
    assert len(refused.splitlines()) == 1


@pytest.mark.parametrize(("given", "objects"), RIGHT, ids=range(len(RIGHT)))
def test_right_cluster_is_let_through(given: Values, objects: list[Object]) -> None:
    assert refusal(given, objects) == ""


def test_kind_that_the_cluster_knows_is_let_through() -> None:
    assert refusal(MONITORED, [], (*api_server.KNOWN, *api_server.OPERATORS)) == ""


@pytest.mark.parametrize(("given", "_objects", "_said"), WRONG, ids=[said for _, _, said in WRONG])
def test_without_a_cluster_to_ask_everything_is_rendered(
    given: Values, _objects: list[Object], _said: str, files: Files
) -> None:
    assert files({**HERE, **given})
