"""The chart on a cluster that is not as it should be: `make e2e-kubernetes`, after the cases of a right one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import release, settings
from tests.e2e.kubernetes.cluster import Cluster, start_kubelet
from tests.e2e.kubernetes.conftest import EXCLUSIVE, GPUS, offer, pod
from tests.e2e.kubernetes.release import CHART, NAMESPACE, RELEASE, SELECTOR, deploy, exporter, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

DCGM, CLIENT = "nvidia.com/gpu.deploy.dcgm-exporter", "nvidia.com/gpu.deploy.client"


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Path:
    return release.default_values(cluster)


@pytest.fixture(scope="module")
def pci(cluster: Cluster) -> Path:
    """A /sys that shows one H100: this machine has none."""
    folder = cluster.home / "sys/bus/pci/devices/0000:1b:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    return cluster.home / "sys"


def names(cluster: Cluster) -> list[str]:
    found = cluster.get("pods", "-n", NAMESPACE, "-l", f"{SELECTOR},app.kubernetes.io/name=gpu-exporter")["items"]
    return [each["metadata"]["name"] for each in found]


def label(cluster: Cluster, *pairs: str) -> None:
    cluster.kubectl("label", "node", settings.NODE, "--overwrite", *pairs)


def ready(cluster: Cluster) -> dict[str, Any]:
    found = exporter(cluster)
    if not all(each["ready"] for each in found["status"].get("containerStatuses", [{"ready": False}])):
        raise NotYetError(found["status"])
    return found


def test_first_attributed_process_on_a_shared_gpu(
    cluster: Cluster, values: Path, workloads: dict[str, list[int]]
) -> None:
    began = time.monotonic()
    deploy(cluster, values)
    installed = time.monotonic() - began

    def attributed() -> set[str]:
        found = {labels["pod"] for labels, _ in samples(metrics(cluster), "gpu_process_memory_bytes")}
        if not {"first", "second"} <= found:
            raise NotYetError(found)
        return found

    assert "" not in wait_for(attributed, 60)
    taken = time.monotonic() - began
    sys.stdout.write(f"\ninstalled after {installed:.1f} s, processes of the shared GPU named after {taken:.1f} s\n")
    assert workloads


@pytest.mark.parametrize("key", [DCGM, CLIENT])
@pytest.mark.parametrize("pause", ["paused-for-driver-upgrade", "paused-for-mig-change"])
def test_pause_of_the_gpu_operator_takes_the_pod_away_and_brings_it_back(
    cluster: Cluster, values: Path, key: str, pause: str
) -> None:
    deploy(cluster, values)
    label(cluster, f"{key}=true")
    (before,) = names(cluster)

    label(cluster, f"{key}={pause}")

    def gone() -> None:
        if left := names(cluster):
            raise NotYetError(left)

    wait_for(gone, 60)
    label(cluster, f"{key}=true")
    assert wait_for(lambda: ready(cluster), 60)["metadata"]["name"] != before
    label(cluster, f"{key}-")


@pytest.mark.parametrize(
    "taint", ["sku=gpu:NoSchedule", "dedicated=ml:NoExecute", "cloud.google.com/gke-spot=true:NoSchedule"]
)
def test_taints_keep_nobody_from_watching_the_gpus(cluster: Cluster, values: Path, taint: str) -> None:
    deploy(cluster, values)
    cluster.kubectl("taint", "node", settings.NODE, taint, "--overwrite")
    try:
        cluster.kubectl("delete", "pod", "-n", NAMESPACE, *names(cluster))
        assert wait_for(lambda: ready(cluster), 60)
    finally:
        cluster.kubectl("taint", "node", settings.NODE, f"{taint}-")


def test_pod_that_fills_the_node_later_runs_beside_the_exporter(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)
    before = wait_for(lambda: ready(cluster))["metadata"]["uid"]
    (node,) = cluster.get("nodes")["items"]
    everything = {"requests": {"cpu": node["status"]["allocatable"]["cpu"]}}
    greedy = pod("greedy", EXCLUSIVE, 0)
    greedy["spec"]["containers"][0]["resources"] = everything
    greedy["spec"]["priorityClassName"] = "high"
    cluster.apply(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
        greedy,
    )
    try:
        cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pod/greedy", "--timeout=120s")
        assert ready(cluster)["metadata"]["uid"] == before
    finally:
        cluster.kubectl("delete", "pod", "greedy", "-n", "team-a")


def test_node_whose_pods_fill_it_keeps_them(cluster: Cluster, values: Path) -> None:
    """A pod of priority 0 that requests the whole node runs before and after the install, and so does the exporter."""
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--ignore-not-found")
    (node,) = cluster.get("nodes")["items"]
    whole = pod("whole-node", EXCLUSIVE, 0)
    whole["spec"]["containers"][0]["resources"] = {
        "requests": {each: node["status"]["allocatable"][each] for each in ("cpu", "memory")}
    }
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}, whole)
    try:
        cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pod/whole-node", "--timeout=120s")
        before = cluster.get("pod", "whole-node", "-n", "team-a")

        deploy(cluster, values)

        after = cluster.get("pod", "whole-node", "-n", "team-a")
        assert (before["spec"]["priority"], after["metadata"]["uid"]) == (0, before["metadata"]["uid"])
        assert "deletionTimestamp" not in after["metadata"]
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert wait_for(lambda: ready(cluster))
    finally:
        cluster.kubectl("delete", "pod", "whole-node", "-n", "team-a")


def test_missing_kubelet_directory_costs_attribution_alone(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values, "--set", f"attribution.pods.kubeletDir={cluster.home}/elsewhere")

    def told() -> str:
        text = metrics(cluster)
        if 'gpu_exporter_attribution_success{source="kubernetes"} 0' not in text:
            raise NotYetError(text)
        return text

    text = wait_for(told, 60)
    assert sorted(labels["uuid"] for labels, _ in samples(text, "gpu_info")) == sorted(GPUS)


@pytest.mark.usefixtures("workloads")
def test_device_of_an_unknown_kind_is_counted(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)
    offer(cluster, "nvidia.com/odd", ["card7"])
    cluster.apply(pod("odd", "nvidia.com/odd", 1))
    cluster.kubectl("wait", "-n", "team-a", "--for=condition=Ready", "pod/odd", "--timeout=120s")

    def counted() -> None:
        found = samples(metrics(cluster), "gpu_exporter_attribution_unresolved_devices")
        if ({"source": "kubernetes", "reason": "unknown_id"}, 1.0) not in found:
            raise NotYetError(found)

    wait_for(counted, 60)
    cluster.kubectl("delete", "pod", "odd", "-n", "team-a")


def test_pod_that_came_before_the_driver_gets_it_by_itself(cluster: Cluster, values: Path, pci: Path) -> None:
    withheld = cluster.home / "driver-withheld"
    withheld.touch()
    more = {
        "driver": {"exitAfter": "3s"},
        "extraArgs": ["--path.sysfs=/run/sys"],
        "extraVolumes": [{"name": "sys", "hostPath": {"path": str(pci), "type": "Directory"}}],
        "extraVolumeMounts": [{"name": "sys", "mountPath": "/run/sys", "readOnly": True}],
    }
    (cluster.home / "healing.yaml").write_text(yaml.safe_dump(more))
    given = ("-n", NAMESPACE, "-f", str(values), "-f", str(cluster.home / "healing.yaml"))
    cluster.helm("upgrade", "--install", RELEASE, CHART, *given)  # not `--wait`: it does not come up, that is the case

    def ended() -> str:
        statuses = exporter(cluster)["status"].get("containerStatuses", [])
        message: str = next((each["lastState"].get("terminated", {}).get("message", "") for each in statuses), "")
        if not message:
            raise NotYetError(statuses)
        return message

    assert "LIBRARY_NOT_FOUND: the driver's library is not in this container" in wait_for(ended, 60)
    withheld.unlink()

    def healed() -> None:
        text = metrics(cluster)
        if "gpu_exporter_driver_error{" in text or len(samples(text, "gpu_info")) != len(GPUS):
            raise NotYetError(text)

    wait_for(healed, 120)


def test_failed_helm_test_leaves_nothing_and_prints_what_its_pod_said(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values, "--set-json", 'test.podSpec={"activeDeadlineSeconds": 5}')
    with pytest.raises(subprocess.CalledProcessError):
        cluster.helm("test", RELEASE, "-n", NAMESPACE, "--timeout", "60s")

    def nothing() -> None:
        left = cluster.kubectl("get", "pod", f"{RELEASE}-test", "-n", NAMESPACE, "--ignore-not-found", "-o", "name")
        if left:
            raise NotYetError(left)

    wait_for(nothing, 60)


def test_two_releases_stand_side_by_side(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)
    other = ("-n", NAMESPACE, "-f", str(values), "--set", "runtimeClass.create=false", "--wait", "--timeout", "120s")
    cluster.helm("install", "second", CHART, *other)
    statuses = {
        each["metadata"]["name"]: each["status"] for each in cluster.get("daemonsets", "-n", NAMESPACE)["items"]
    }

    assert {name: status["numberReady"] for name, status in statuses.items()} == {RELEASE: 1, "second-gpu-exporter": 1}
    cluster.helm("uninstall", "second", "-n", NAMESPACE, "--wait")
    assert ready(cluster)


def test_upgrade_without_a_change_changes_nothing(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)

    def generations() -> dict[str, Any]:
        listed = cluster.get("daemonsets,services,serviceaccounts,priorityclasses", "-n", NAMESPACE, "-l", SELECTOR)
        return {
            f"{each['kind']}/{each['metadata']['name']}": each["metadata"].get("generation") for each in listed["items"]
        }

    before = generations()
    deploy(cluster, values)
    assert generations() == before
    assert {each.split("/")[0] for each in before} == {"DaemonSet", "Service", "ServiceAccount", "PriorityClass"}


def test_upgrade_from_the_first_chart_with_changed_values_and_back(cluster: Cluster, values: Path) -> None:
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
    given = yaml.safe_load(values.read_text())
    given["attribution"]["pods"].pop("logsDir")
    # The first chart's option for the kubelet's socket is none of today's program.
    given["attribution"]["pods"]["enabled"] = False
    given.pop("state")
    given["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    (cluster.home / "first.yaml").write_text(yaml.safe_dump(given))
    first = str(Path(__file__).parent / "gpu-exporter-0.1.0-first.tgz")
    wait = ("--wait", "--timeout", "120s")
    try:
        cluster.helm("install", RELEASE, first, "-n", NAMESPACE, "-f", str(cluster.home / "first.yaml"), *wait)
        old = exporter(cluster)["spec"]

        changed = f"config.sample.interval=2s,state.hostPath={cluster.home}/state,attribution.pods.enabled=true"
        cluster.helm("upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reset-then-reuse-values", "--set", changed, *wait)
        new = exporter(cluster)["spec"]
        assert new["priorityClassName"]
        assert {"key": "nvidia.com/gpu", "operator": "Exists"} in new["tolerations"]  # the user's own is kept

        cluster.helm("rollback", RELEASE, "1", "-n", NAMESPACE, *wait)
        assert exporter(cluster)["spec"].get("priorityClassName") == old.get("priorityClassName")
        wait_for(lambda: metrics(cluster), 60)
    finally:
        cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--ignore-not-found")


WRONG = [
    (("--set", "runtimeClass.create=false,runtimeClass.name=absent"), "the cluster has no such RuntimeClass"),
    (("--set", "priorityClassName=absent"), "the cluster has no such PriorityClass"),
    (("--set", "image.registry="), "image.registry is empty and no node has gpu-exporter:e2e"),
    (("--set", "verticalPodAutoscaler.enabled=true"), "the cluster does not know autoscaling.k8s.io/v1/Vertical"),
    (("--set", "resources.limit=1"), "at '/resources'"),
]


@pytest.mark.parametrize(("more", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_work_here_is_one_line_at_once(
    cluster: Cluster, values: Path, more: tuple[str, ...], said: str
) -> None:
    assert said in release.refused(cluster, values, *more)
    assert cluster.get("daemonsets", "-n", NAMESPACE)["items"] == []


@pytest.mark.usefixtures("plugins")
def test_node_with_gpus_and_no_label_is_named(cluster: Cluster, values: Path) -> None:
    upgrade = ("upgrade", "--install", RELEASE, CHART, "-n", NAMESPACE, "-f", str(values))
    assert f"Nodes with a GPU label now: 1 ({settings.NODE})" in cluster.helm(*upgrade)
    label(cluster, "nvidia.com/gpu.present-")
    try:
        named = f"kubectl label node {settings.NODE} nvidia.com/gpu.present=true"
        assert f"have no GPU label, so they get no pod:\n   {named}" in cluster.helm(*upgrade)
        cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
        assert named in release.refused(cluster, values)
    finally:
        label(cluster, "nvidia.com/gpu.present=true")


def test_tools_that_only_render_ask_nothing(cluster: Cluster) -> None:
    assert "kind: DaemonSet" in cluster.helm("template", RELEASE, CHART, "--set", "runtimeClass.name=absent")


def test_node_that_was_not_ready_for_a_while_keeps_its_exporter(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values)
    before = wait_for(lambda: ready(cluster))["metadata"]["uid"]
    cluster.stop("kubelet")
    cluster.kubectl("wait", f"node/{settings.NODE}", "--for=condition=Ready=Unknown", "--timeout=180s")
    assert "gpu_info{" in metrics(cluster)  # served on, with no kubelet
    start_kubelet(cluster)
    cluster.kubectl("wait", f"node/{settings.NODE}", "--for=condition=Ready", "--timeout=120s")
    assert wait_for(lambda: ready(cluster), 60)["metadata"]["uid"] == before
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
