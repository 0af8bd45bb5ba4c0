"""A real Prometheus, configured by the real Prometheus operator from the objects in the cluster.

Debian builds Prometheus without Kubernetes discovery ("field kubernetes_sd_configs not found"). So this asks the API
server in its place and hands over the same `__meta_kubernetes_...` labels in a file; the rest is the operator's.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubernetes import settings
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

NAME = "e2e"
NAMESPACE = "monitoring"


def start_operator(cluster: Cluster) -> None:
    """The operator, and a Prometheus object without replicas: its configuration is made all the same."""
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "api", "namespace": NAMESPACE}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {**token, "stringData": {"token": settings.TOKEN}},
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "Prometheus",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "replicas": 0,
                "version": "v2.42.0",
                "scrapeInterval": "1s",
                "evaluationInterval": "1s",
                "serviceMonitorSelector": {"matchLabels": {"release": "stack"}},
                "serviceMonitorNamespaceSelector": {},
                "podMonitorSelector": {"matchLabels": {"release": "stack"}},
                "podMonitorNamespaceSelector": {},
                "ruleSelector": {"matchLabels": {"release": "stack"}},
                "ruleNamespaceSelector": {},
                "apiserverConfig": {
                    "host": f"https://{settings.GATEWAY}:{cluster.ports.api}",
                    "authorization": {"credentialsFile": str(cluster.home / "token")},
                    "tlsConfig": {"caFile": str(cluster.home / "ca.crt")},
                },
            },
        },
    )
    (cluster.home / "token").write_text(settings.TOKEN)
    cluster.start("prometheus-operator", f"--web.listen-address=127.0.0.1:{cluster.ports.operator}")  # by KUBECONFIG


def configuration(cluster: Cluster) -> str:
    """What the operator made, with the places of the pod it would run in replaced by ours."""
    secret = cluster.get("secret", f"prometheus-{NAME}", "-n", NAMESPACE)
    text = gzip.decompress(base64.b64decode(secret["data"]["prometheus.yaml.gz"])).decode()
    text = text.replace("$(POD_NAME)", "e2e-0").replace("$(SHARD)", "0")
    return text.replace("/etc/prometheus/", f"{cluster.home}/prometheus/")


def without_discovery(cluster: Cluster) -> str:
    """The configuration with a file of targets where the operator asks for Kubernetes discovery."""
    content = yaml.safe_load(configuration(cluster))
    for job in content["scrape_configs"]:
        if job.pop("kubernetes_sd_configs", None):
            job["file_sd_configs"] = [{"files": [f"{cluster.home}/prometheus/targets.json"]}]
    return yaml.safe_dump(content)


def targets(cluster: Cluster) -> list[dict[str, Any]]:
    """Each address of each EndpointSlice with the labels of Prometheus' roles `endpointslice` and `endpoints`."""
    found = []
    for piece in cluster.get("endpointslices", "-A")["items"]:
        namespace, service = piece["metadata"]["namespace"], piece["metadata"]["labels"]["kubernetes.io/service-name"]
        for endpoint in piece["endpoints"] or ():
            if endpoint.get("targetRef", {}).get("kind") == "Pod":
                pod = cluster.get("pod", endpoint["targetRef"]["name"], "-n", namespace)
                labels = _labels(cluster.get("service", service, "-n", namespace), pod)
                for port in piece["ports"]:
                    address = f"{endpoint['addresses'][0]}:{port['port']}"
                    found.append({"targets": [address], "labels": labels | _port_labels(port["name"])})
    return found


def _port_labels(name: str) -> dict[str, str]:
    return {f"__meta_kubernetes_{kind}_port_name": name for kind in ("endpoint", "endpointslice")}


def _labels(service: dict[str, Any], pod: dict[str, Any]) -> dict[str, str]:
    made = {
        "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
        "__meta_kubernetes_service_name": service["metadata"]["name"],
        "__meta_kubernetes_pod_name": pod["metadata"]["name"],
        "__meta_kubernetes_pod_ip": pod["status"]["podIP"],
        "__meta_kubernetes_pod_container_name": pod["spec"]["containers"][0]["name"],
        "__meta_kubernetes_pod_node_name": pod["spec"]["nodeName"],
        "__meta_kubernetes_pod_phase": pod["status"]["phase"],
        "__meta_kubernetes_pod_ready": "true",
        "__meta_kubernetes_endpoint_address_target_kind": "Pod",
        "__meta_kubernetes_endpoint_address_target_name": pod["metadata"]["name"],
        "__meta_kubernetes_endpointslice_address_target_kind": "Pod",
        "__meta_kubernetes_endpointslice_address_target_name": pod["metadata"]["name"],
    }
    for kind, labels in (("service", service["metadata"]["labels"]), ("pod", pod["metadata"]["labels"])):
        for name, value in labels.items():
            safe = re.sub(r"[^a-zA-Z0-9_]", "_", name)
            made[f"__meta_kubernetes_{kind}_label_{safe}"] = value
            made[f"__meta_kubernetes_{kind}_labelpresent_{safe}"] = "true"
    return made


def write(cluster: Cluster) -> None:
    """Files of Prometheus as they stand in the cluster now."""
    folder = cluster.home / "prometheus"
    for each in cluster.get("configmaps", "-n", NAMESPACE)["items"]:
        if "rulefiles" in each["metadata"]["name"]:
            _put(folder / "rules" / each["metadata"]["name"], each["data"])
    for each in cluster.get("secrets", "-n", NAMESPACE)["items"]:
        if "tls-assets" in each["metadata"]["name"]:
            data = {key: base64.b64decode(value).decode() for key, value in each.get("data", {}).items()}
            _put(folder / "certs", data)
    _put(folder, {"prometheus.yaml": without_discovery(cluster), "targets.json": json.dumps(targets(cluster))})


def _put(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def start(cluster: Cluster, holds: Sequence[str]) -> None:
    """Prometheus, once the operator's configuration names what it should."""

    def made() -> None:
        text = configuration(cluster)
        if not all(re.search(each, text) for each in holds):
            raise NotYetError(text)

    wait_for(made)
    write(cluster)
    run(cluster, cluster.home / "prometheus")


def run(cluster: Cluster, folder: Path) -> None:
    """Prometheus with the configuration of a folder, in place of the one before."""
    if "prometheus" in cluster.processes:
        cluster.stop("prometheus")
    cluster.start(
        "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url(cluster).removeprefix('http://')}",
        program="prometheus",
    )
    wait_for(lambda: ask(cluster, "/-/ready"))


def url(cluster: Cluster) -> str:
    """Return the address for this machine and for pods."""
    return f"http://{settings.GATEWAY}:{cluster.ports.prometheus}"


def ask(cluster: Cluster, path: str, **parameters: str) -> str:
    asked = f"{url(cluster)}{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - http, as above
        text: str = answer.read().decode()
    return text


def query(cluster: Cluster, expression: str) -> list[dict[str, Any]]:
    """The vector, once it is not empty. Raises NotYetError at the deadline."""

    def answered() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(ask(cluster, "/api/v1/query", query=expression))["data"]["result"]
        if not found:
            raise NotYetError(f"nothing for {expression}")
        return found

    return wait_for(answered, 60)
