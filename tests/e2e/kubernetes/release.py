"""The chart's release in the cluster: put it there, find its pod, read its metrics."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from helm import pack
from tests.e2e.kubernetes import settings
from tests.e2e.kubernetes.cluster import ROOT, Cluster
from tests.e2e.kubernetes.waiting import NotYetError

SOURCE = ROOT / pack.SOURCE
CHART = str(pack.pack(ROOT / pack.PACKED))
PROFILES = {
    **{path.stem: path for path in sorted((SOURCE / "presets").glob("*.yaml"))},
    **{path.name.removesuffix("-values.yaml"): path for path in sorted((SOURCE / "ci").glob("*.yaml"))},
}
"""Every preset and every fixture of the chart, by its name."""
NAMESPACE = "gpu-exporter"
RELEASE = "gpu-exporter"
SELECTOR = f"app.kubernetes.io/instance={RELEASE}"
UNKNOWN_HERE = ("SecurityContextConstraints", "VerticalPodAutoscaler", "GrafanaDashboard")
"""Kinds whose definitions this cluster does not have."""


def deploy(cluster: Cluster, values: Path, *more: str) -> None:
    arguments = ("-n", NAMESPACE, "-f", str(values), "--wait", "--timeout", "120s", *more)
    cluster.helm("upgrade", "--install", RELEASE, CHART, *arguments)


def places(cluster: Cluster) -> dict[str, Any]:
    """Values that name where this cluster keeps its files, and its API server: there is no kube-proxy."""
    home = cluster.home
    pods = {"kubeletDir": f"{home}/kubelet", "logsDir": f"{home}/pod-logs"}
    server = {"KUBERNETES_SERVICE_HOST": settings.GATEWAY, "KUBERNETES_SERVICE_PORT": str(cluster.ports.api)}
    return {
        "attribution": {"pods": pods},
        "state": {"hostPath": f"{home}/state"},
        "extraEnv": [{"name": name, "value": value} for name, value in server.items()],
    }


def default_values(cluster: Cluster) -> Path:
    """The default install, but for where this cluster keeps its files and its image; the namespace is made for it."""
    own = {
        "image": {"registry": "localhost", "tag": "e2e"},
        "runtimeClass": {"name": "nvidia", "create": True},
        "terminationGracePeriodSeconds": 1,
    }
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": level}})
    file = cluster.home / "default.yaml"
    file.write_text(yaml.safe_dump({**own, **places(cluster)}))
    return file


def refused(cluster: Cluster, values: Path, *more: str) -> str:
    """What Helm says of an install that the chart refuses."""
    try:
        cluster.helm("install", RELEASE, CHART, "-n", NAMESPACE, "-f", str(values), "--wait", *more)
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    raise AssertionError("it was installed")


def exporter(cluster: Cluster) -> dict[str, Any]:
    found = [
        each
        for each in cluster.get("pods", "-n", NAMESPACE, "-l", f"{SELECTOR},app.kubernetes.io/name=gpu-exporter")[
            "items"
        ]
        if "deletionTimestamp" not in each["metadata"]
    ]
    if len(found) != 1:  # between two pods of the DaemonSet
        raise NotYetError([each["metadata"]["name"] for each in found])
    made: dict[str, Any] = found[0]
    return made


def metrics(cluster: Cluster) -> str:
    url = f"http://{exporter(cluster)['status']['podIP']}:9836/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, flags=re.MULTILINE)
    return [(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)), float(value)) for labels, value in found]


def secret(cluster: Cluster) -> dict[str, str]:
    data: dict[str, str] = cluster.get("secret", f"{RELEASE}-web", "-n", NAMESPACE)["data"]
    return data
