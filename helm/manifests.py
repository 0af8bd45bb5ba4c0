"""Manifests that the chart renders, for those who do without Helm: `python -m helm.manifests CHART MONITORING`.

Two are committed in deploy/kubernetes. The third contains all rules, and is made for each release.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import yaml

NAMESPACE = "gpu-exporter"
NOTICE = "# Rendered from helm/gpu-exporter by `make chart`; change the chart.\n"
HELM_ONLY = ("helm.sh/chart", "app.kubernetes.io/managed-by")

_WORK = ("ClusterRole", "ClusterRoleBinding", "DaemonSet", "PriorityClass", "Service", "ServiceAccount")
_ALL_OFF: dict[str, Any] = {"attribution": {"processes": {"enabled": False}, "pods": {"enabled": False}}}
_MONITORING: dict[str, Any] = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}

# file, Pod Security level of the namespace it makes (none: it makes no namespace), values, kinds it holds
FILES: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("gpu-exporter.yaml", "privileged", {}, _WORK),
    ("gpu-exporter-restricted.yaml", "restricted", _ALL_OFF, _WORK),
)
MONITORING = Path("build/kubernetes/monitoring.yaml")


def objects(chart: Path, values: Mapping[str, Any], name: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Every object of one render, in the order of the chart's files; notes and tests are left out."""
    with helm_python.Chart.load(str(chart)) as loaded:
        files = loaded.render(dict(values), name=name, namespace=namespace)
    for path, text in sorted(files.items()):
        if not path.endswith("NOTES.txt") and "/tests/" not in path:
            yield from (document for document in yaml.safe_load_all(text) if document)


def files(chart: Path) -> dict[str, str]:
    return {file: _file(chart, level, values, kinds) for file, level, values, kinds in FILES}


def monitoring(chart: Path) -> str:
    return _file(chart, "", _MONITORING, ("ServiceMonitor", "PrometheusRule"))


def _file(chart: Path, level: str, values: Mapping[str, Any], kinds: tuple[str, ...]) -> str:
    made = objects(chart, values, NAMESPACE, NAMESPACE)
    documents = [_namespace(level)] if level else []
    documents += [_without_helm(each) for each in made if each["kind"] in kinds]
    return NOTICE + yaml.safe_dump_all(documents, sort_keys=False, width=120)


def _namespace(level: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _without_helm(made: dict[str, Any]) -> dict[str, Any]:
    labels = {key: value for key, value in made["metadata"]["labels"].items() if key not in HELM_ONLY}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(monitoring(Path(sys.argv[1])))
