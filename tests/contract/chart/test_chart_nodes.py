"""Which nodes get a pod: every GPU node whatever its taints, and none that the GPU Operator is working on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.contract.chart.conftest import Documents, One, Render, Values

CLIENT, DCGM = "nvidia.com/gpu.deploy.client", "nvidia.com/gpu.deploy.dcgm-exporter"
GPU = {"nvidia.com/gpu.present": "true"}
PAUSES = ("paused-for-driver-upgrade", "paused-for-mig-change", "paused-for-vgpu-change")


def pod_spec(documents: Documents, one: One) -> Any:
    return one(documents, "DaemonSet")["spec"]["template"]["spec"]


def holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """As the scheduler and the DaemonSet's controller read it."""
    value = labels.get(expression["key"])
    return {
        "In": value in expression.get("values", ()),
        "NotIn": value not in expression.get("values", ()),
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def fits(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(all(holds(each, labels) for each in term["matchExpressions"]) for term in required["nodeSelectorTerms"])


@pytest.mark.parametrize(
    "labels",
    [
        GPU,
        {"feature.node.kubernetes.io/pci-10de.present": "true"},
        {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
        {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
        {"k8s.amazonaws.com/accelerator": "nvidia-tesla-a100"},
        {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"},
        {"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"},
        {"kubernetes.azure.com/accelerator": "nvidia"},
        GPU | {CLIENT: "true", DCGM: "true"},
        GPU | {DCGM: "false"},
    ],
)
def test_gpu_node_gets_a_pod(labels: dict[str, str], render: Render, one: One) -> None:
    assert fits(pod_spec(render(), one), labels)


@pytest.mark.parametrize(
    "labels", [{}, {"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}, GPU | {CLIENT: "false"}]
)
def test_other_node_gets_none(labels: dict[str, str], render: Render, one: One) -> None:
    assert not fits(pod_spec(render(), one), labels)


OWN_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "Exists"}]}]
        }
    }
}


@pytest.mark.parametrize("given", [{}, {"affinity": OWN_AFFINITY}, {"gpuNodesOnly": False}])
@pytest.mark.parametrize("label", [CLIENT, DCGM])
@pytest.mark.parametrize("value", [*PAUSES, f"{PAUSES[1]}_{PAUSES[0]}", f"{PAUSES[2]}_{PAUSES[0]}"])
def test_pause_of_the_gpu_operator_takes_the_pod_away(
    given: Values, label: str, value: str, render: Render, one: One
) -> None:
    spec = pod_spec(render(given), one)

    assert fits(spec, GPU | {label: "true"})
    assert not fits(spec, GPU | {label: value})
    assert fits(pod_spec(render({**given, "gpuOperator": {"followPauses": False}}), one), GPU | {label: value})


def test_pauses_stand_once_in_the_default_affinity(render: Render) -> None:
    assert json.dumps(render()).count(f'"{CLIENT}"') == 1


def test_own_affinity_is_kept_beside_the_pauses(render: Render, one: One) -> None:
    spread = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    spec = pod_spec(render({"affinity": {**OWN_AFFINITY, **spread}}), one)

    assert spec["affinity"]["podAntiAffinity"] == spread["podAntiAffinity"]
    assert not fits(spec, {"kubernetes.azure.com/accelerator": "nvidia"})


@pytest.mark.parametrize(
    ("given", "tolerations"),
    [
        ({}, [{"operator": "Exists"}]),
        ({"gpuNodesOnly": False}, [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ({"affinity": OWN_AFFINITY}, [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ({"tolerations": [{"key": "sku", "operator": "Exists"}]}, [{"key": "sku", "operator": "Exists"}]),
    ],
)
def test_every_taint_is_tolerated_where_only_gpu_nodes_are_selected(
    given: Values, tolerations: list[dict[str, str]], render: Render, one: One
) -> None:
    assert pod_spec(render(given), one)["tolerations"] == tolerations


def test_default_priority_never_preempts(render: Render, one: One) -> None:
    documents = render()
    made = one(documents, "PriorityClass")

    assert made["preemptionPolicy"] == "Never"
    assert pod_spec(documents, one)["priorityClassName"] == made["metadata"]["name"]
    assert made["value"] == 1_000_000_000  # the highest that is not the system's, which GKE keeps to kube-system


def test_preemption_is_one_value_with_a_class_of_another_name(render: Render, one: One) -> None:
    """The API server refuses a change of preemptionPolicy: an upgrade needs a new object."""
    made = one(render({"priorityClass": {"preemptionPolicy": "PreemptLowerPriority"}}), "PriorityClass")

    assert made["preemptionPolicy"] == "PreemptLowerPriority"
    assert made["metadata"]["name"] == "mon-rel-gpu-exporter"
    assert one(render(), "PriorityClass")["metadata"]["name"] == "mon-rel-gpu-exporter-nonpreempting"


@pytest.mark.parametrize("given", [{}, {"gpuOperator": {"waitForToolkit": True}}])
def test_default_requests_fit_on_a_full_node(given: Values, render: Render, one: One) -> None:
    """A request that is absent would become the limit; one above zero leaves the pod pending on a full node."""
    documents = render(given)
    specs = (pod_spec(documents, one), one(documents, "Pod")["spec"])
    containers = [each for spec in specs for each in (*spec.get("initContainers", ()), *spec["containers"])]

    assert [each["resources"]["requests"] for each in containers] == [{"cpu": "0", "memory": "0"}] * len(containers)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"priorityClassName": "system-node-critical"}, "system-node-critical"),
        ({"priorityClass": {"create": False}}, None),
    ],
)
def test_given_priority_takes_its_place(given: Values, name: str | None, render: Render, one: One) -> None:
    documents = render(given)

    assert pod_spec(documents, one).get("priorityClassName") == name
    assert "PriorityClass" not in {each["kind"] for each in documents}


def test_pod_waits_for_the_toolkit_where_told(render: Render, one: One) -> None:
    spec = pod_spec(render({"gpuOperator": {"waitForToolkit": True}, "initContainers": [{"name": "own"}]}), one)
    waiting, own = spec["initContainers"]

    assert own == {"name": "own"}
    assert "/run/nvidia/validations/toolkit-ready" in waiting["args"][0]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in waiting["env"]  # it holds no device meanwhile
    assert [each["name"] for each in waiting["volumeMounts"]] == ["validations"]
    compile(waiting["args"][0], "args", "exec")


def test_missing_kubelet_directory_does_not_stop_the_pod(render: Render, one: One) -> None:
    paths = {each["name"]: each["hostPath"] for each in pod_spec(render(), one)["volumes"] if "hostPath" in each}

    assert paths["pod-resources"]["type"] == paths["pod-logs"]["type"] == "DirectoryOrCreate"


def test_missing_folder_of_the_prolog_does_not_stop_the_pod(render: Render, one: One) -> None:
    """Below /run it is gone after a boot, and on a node without slurmd nobody ever makes it."""
    made = pod_spec(render({"attribution": {"slurm": {"mappingHostPath": "/run/gpu-exporter/jobs"}}}), one)
    (volume,) = [each for each in made["volumes"] if each["name"] == "slurm-mapping"]

    assert volume["hostPath"] == {"path": "/run/gpu-exporter/jobs", "type": "DirectoryOrCreate"}


def test_default_install_sees_the_names_of_all_pods(render: Render, one: One) -> None:
    container = pod_spec(render(), one)["containers"][0]

    assert {"name": "pod-logs", "mountPath": "/var/log/pods", "readOnly": True} in container["volumeMounts"]


def test_host_network_keeps_the_names_of_the_cluster(render: Render, one: One) -> None:
    spec = pod_spec(render({"hostNetwork": True}), one)

    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_priority_class_of_a_namespace_called_system_is_not_the_clusters(render: Render, one: One) -> None:
    documents = render(namespace="system-monitoring")
    name = one(documents, "PriorityClass")["metadata"]["name"]

    # Kubernetes keeps names that begin so to its own.
    assert not name.startswith("system-")
    assert one(documents, "DaemonSet")["spec"]["template"]["spec"]["priorityClassName"] == name


@pytest.mark.parametrize("surge", [1, "10%"])
def test_pods_that_surge_are_not_taken_away_first(surge: Any, render: Render, one: One) -> None:
    daemonset = one(render({"updateStrategy": {"rollingUpdate": {"maxSurge": surge}}}), "DaemonSet")

    # The API server takes either the one or the other, and the default has a share that may be away.
    assert daemonset["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": 0}


def test_pod_of_the_test_goes_to_no_windows_node(render: Render, one: One) -> None:
    assert one(render(), "Pod")["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    chosen = render({"test": {"podSpec": {"nodeSelector": {"pool": "tools"}}}})
    assert one(chosen, "Pod")["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "tools"}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, False),
        ({"attribution": {"slurm": {"mode": "on", "mappingHostPath": "/run/gpu-exporter/jobs"}}}, False),
        ({"config": {"attribution": {"slurm": {"gres-conf": "/host/gres.conf"}}}}, False),
        ({"config": {"slurm": {"scontrol": "/opt/slurm/bin/scontrol"}}}, True),
        ({"extraEnv": [{"name": "GPU_EXPORTER_SLURM_SCONTROL", "value": "scontrol"}]}, True),
    ],
)
def test_scontrol_is_asked_only_where_one_is_given(given: Values, asked: bool, render: Render, one: One) -> None:  # noqa: FBT001 - a parameter
    """The image has none: a Slurm in pods fired GpuSourceFailing twice on each of its nodes."""
    args = pod_spec(render(given), one)["containers"][0]["args"]

    assert ("--slurm.scontrol=" not in args) == asked


@pytest.mark.parametrize(
    "given", [{"nodeAffinity": None}, {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}]
)
def test_affinity_with_an_empty_part_gets_the_pauses(given: Values, render: Render, one: One) -> None:
    """An umbrella chart writes this to take back the affinity of another one."""
    spread = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    made = pod_spec(render({"affinity": {**given, **spread}}), one)["affinity"]
    (term,) = made["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert made["podAntiAffinity"] == spread["podAntiAffinity"]
    assert {each["operator"] for each in term["matchExpressions"]} == {"NotIn"}
