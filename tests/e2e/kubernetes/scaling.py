"""A real HorizontalPodAutoscaler follows the recorded utilization through prometheus-adapter: `make e2e-kubernetes`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import prometheus, release, settings
from tests.e2e.kubernetes.cluster import ROOT, TOOLS, Cluster
from tests.e2e.kubernetes.conftest import EXCLUSIVE, GPUS, pod
from tests.e2e.kubernetes.release import NAMESPACE, RELEASE, deploy, exporter, metrics, samples
from tests.e2e.kubernetes.waiting import NotYetError, wait_for
from tests.fake_nvml import scenario

FILES = ROOT / "deploy/kubernetes/autoscaling"
RULES = ROOT / "deploy/prometheus/rules/gpu-recording.yaml"
GROUP = "external.metrics.k8s.io"
RECORD = "workload:gpu_utilization:ratio_rate1m"
SERVICE, TEAM = "chat", "serving"
SCALE_OUT_SECONDS, CROSS_SECONDS = 90, 60


@pytest.fixture(scope="module")
def gpu(cluster: Cluster, plugins: dict[str, list[str]], driver: scenario.Scenario) -> Iterator[int]:
    """The GPU of the only pod of a Deployment, under a Prometheus and prometheus-adapter with 15 s everywhere."""
    del plugins
    deploy(cluster, release.default_values(cluster))
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}, _deployment())
    found = wait_for(lambda: _gpu(cluster))
    name = cluster.get("pods", "-n", TEAM)["items"][0]["metadata"]
    rows: dict[str, scenario.Value] = {
        f"gpu{found}.process.9": f"{_pid(name['uid'])} C {scenario.GIB} 95 10 0 0",
        f"gpu{found}.utilization": 0,
    }
    driver.set(rows)
    _start_prometheus(cluster)
    _start_adapter(cluster)
    (scaler,) = yaml.safe_load_all((FILES / "hpa.yaml").read_text())
    cluster.apply(scaler)
    wait_for(lambda: _seen_by_the_scaler(cluster), 180)
    yield found
    driver.remove(*rows)
    cluster.kubectl("delete", "namespace", TEAM)
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")


def _deployment() -> dict[str, Any]:
    made = pod(SERVICE, EXCLUSIVE, 1)
    labels = {"app": SERVICE}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": SERVICE, "namespace": TEAM},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
        },
    }


def _gpu(cluster: Cluster) -> int:
    shares = samples(metrics(cluster), "gpu_allocation_ratio")
    found = [labels["uuid"] for labels, _ in shares if labels["workload"] == f"{TEAM}/Deployment/{SERVICE}"]
    if not found:
        raise NotYetError(shares)
    return GPUS.index(found[0])


def _pid(uid: str) -> int:
    pids = [
        int(pid)
        for procs in Path("/sys/fs/cgroup/pids/kubepods").glob(f"**/pod{uid}/*/cgroup.procs")
        for pid in procs.read_text().split()
    ]
    return max(pids, key=lambda pid: Path(f"/proc/{pid}/comm").read_text().startswith("python"))


def _start_prometheus(cluster: Cluster) -> None:
    folder = cluster.home / "scaling"
    folder.mkdir()
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = {"groups": [group for group in groups if group["name"] == "gpu-autoscale"]}
    target = f"{exporter(cluster)['status']['podIP']}:9836"
    config = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "gpus", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
    }
    for name, content in (("rules", rules), ("prometheus", config)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    prometheus.run(cluster, folder)
    prometheus.query(cluster, RECORD)


def _start_adapter(cluster: Cluster) -> None:
    """Without a proxy's certificate the API server asks it as nobody, who therefore gets the right."""
    (cluster.home / "adapter.yaml").write_text(yaml.safe_dump(_adapter_rules()))
    kubeconfig = cluster.home / "kubeconfig"
    cluster.start(
        "prometheus-adapter",
        *(f"--{use}-kubeconfig={kubeconfig}" for use in ("lister", "authentication", "authorization")),
        "--authentication-skip-lookup",
        f"--prometheus-url={prometheus.url(cluster)}",
        f"--config={cluster.home / 'adapter.yaml'}",
        "--metrics-relist-interval=15s",
        f"--bind-address={settings.GATEWAY}",
        f"--secure-port={cluster.ports.adapter}",
        f"--cert-dir={cluster.home / 'adapter'}",
    )
    named = {"name": "adapter", "namespace": "kube-system"}
    ports = [{"name": "https", "port": 443, "targetPort": cluster.ports.adapter}]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "external-metrics"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**named, "labels": {"kubernetes.io/service-name": "adapter"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": cluster.ports.adapter, "protocol": "TCP"}],
            "endpoints": [{"addresses": [settings.GATEWAY], "conditions": {"ready": True}}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{GROUP}"},
            "spec": {
                "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": True, "service": named,
            },
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "external-metrics"},
            "rules": [
                {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list"]},
                {"nonResourceURLs": [f"/apis/{GROUP}/*"], "verbs": ["get"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "external-metrics"},
            "roleRef": role,
            "subjects": [subject],
        },
    )  # fmt: skip


def _adapter_rules() -> dict[str, Any]:
    """What prometheus-adapter's chart makes of its values."""
    return {"externalRules": yaml.safe_load((FILES / "prometheus-adapter.yaml").read_text())["rules"]["external"]}


def _seen_by_the_scaler(cluster: Cluster) -> str:
    status = cluster.get("hpa", SERVICE, "-n", TEAM).get("status", {})
    found = [each for each in status.get("currentMetrics") or () if each.get("external", {}).get("current")]
    if not found:
        raise NotYetError(json.dumps(status))
    value: str = found[0]["external"]["current"]["value"]
    return value


def _recorded(cluster: Cluster) -> float:
    (row,) = prometheus.query(cluster, RECORD)
    assert row["metric"]["owner_name"] == SERVICE
    return float(row["value"][1])


def _seconds_until(holds: Callable[[], bool], limit: float) -> float:
    began = time.monotonic()

    def held() -> None:
        if not holds():
            raise NotYetError("not yet")

    wait_for(held, limit)
    return time.monotonic() - began


def test_scaler_follows_a_step_of_utilization(cluster: Cluster, gpu: int, driver: scenario.Scenario) -> None:
    assert _seen_by_the_scaler(cluster) == "0"
    began = time.monotonic()
    driver.set({f"gpu{gpu}.utilization": 95})
    crossed = _seconds_until(lambda: _recorded(cluster) > 0.5, CROSS_SECONDS)
    _seconds_until(
        lambda: cluster.get("deployment", SERVICE, "-n", TEAM)["spec"]["replicas"] > 1, SCALE_OUT_SECONDS - crossed
    )
    scaled = time.monotonic() - began
    driver.set({f"gpu{gpu}.utilization": 0})
    fell = _seconds_until(lambda: _recorded(cluster) < 0.25, CROSS_SECONDS)
    print(f"recorded above 50 % after {crossed:.0f} s, scaled out after {scaled:.0f} s, fell after {fell:.0f} s")  # noqa: T201


def test_scaled_object_is_valid_by_the_definition_of_keda(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(TOOLS / "kinds/keda.sh_scaledobjects.json"))
    cluster.kubectl("create", "namespace", "serving-keda")
    (made,) = yaml.safe_load_all((FILES / "keda.yaml").read_text())
    made["metadata"]["namespace"] = "serving-keda"

    def accepted() -> str:
        return cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=json.dumps(made))

    assert "scaledobject.keda.sh/chat created" in wait_for(accepted, 60)
