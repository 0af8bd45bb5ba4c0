"""What `monitoring.enabled` creates with and without the Prometheus operator, and what the notes say about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import helm_python
import pytest

from tests.contract.chart import api_server, strict_yaml
from tests.contract.chart.conftest import PRESETS, ROOT, Documents, Files, Render, Values, packed
from tests.contract.chart.test_chart_pages import given as values_of
from tests.readme import line

MONITOR = ("/apis/monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors")
POD_MONITOR = ("/apis/monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
RULE = ("/apis/monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules")
OPERATOR = (MONITOR, POD_MONITOR, RULE)
OWN = {"kind": "Namespace", "metadata": {"name": "mon"}}
DASHBOARDS = len([*(ROOT / "dashboards/json").glob("*.json")])
ALL = {"ServiceMonitor": 1, "PrometheusRule": 2, "ConfigMap": DASHBOARDS}
STACK = {"labels": {"release": "stack"}}


@dataclass(frozen=True, slots=True)
class Installed:
    """Objects and notes of an install."""

    documents: Documents
    notes: str


def install(given: Values, kinds: Sequence[tuple[str, str, str]], objects: Sequence[Any] = ()) -> Installed:
    """Return what `helm install --dry-run=server` makes on a cluster that knows these kinds beside Kubernetes' own."""
    known = (*api_server.KNOWN, *api_server.APPLIED, *kinds)
    with (
        api_server.serving(api_server.answers([OWN, *objects], known)) as kubeconfig,
        helm_python.Config(kubeconfig_content=kubeconfig, namespace="mon", storage_driver="memory") as config,
    ):
        values = {"image": {"registry": "registry.example.com"}, **given}
        made = config.install(str(packed()), "rel", values, namespace="mon", dry_run="server")
    return Installed(list(strict_yaml.load_all(made["manifest"])), made["notes"])


def monitoring(documents: Documents) -> dict[str, int]:
    """Return the number of objects of each kind that Prometheus or Grafana reads."""
    found = [
        each["kind"]
        for each in documents
        if each["apiVersion"] == "monitoring.coreos.com/v1" or "grafana_dashboard" in each["metadata"]["labels"]
    ]
    return {kind: found.count(kind) for kind in found}


def told(notes: str) -> dict[str, str]:
    """Return the three lines about the monitoring."""
    return dict(re.findall(r"^(Monitoring on|Monitoring off|Next): +(.+)$", notes, re.MULTILINE))


def test_line_of_the_readme_installs_monitor_rules_and_dashboards() -> None:
    given = values_of(line("helm install").split())

    assert monitoring(install(given, OPERATOR).documents) == ALL


CASES: list[tuple[Values, Sequence[tuple[str, str, str]], dict[str, int]]] = [
    ({}, [], {}),
    ({}, [MONITOR], {"ServiceMonitor": 1, "ConfigMap": DASHBOARDS}),
    ({}, [RULE], {"PrometheusRule": 2}),
    ({"monitoring": {"enabled": False}}, OPERATOR, {}),
    ({"dashboards": {"enabled": False}}, OPERATOR, {"ServiceMonitor": 1, "PrometheusRule": 2}),
    ({"monitoring": {"enabled": False}, "prometheusRule": {"enabled": True}}, OPERATOR, {"PrometheusRule": 2}),
    ({"podMonitor": {"enabled": True}}, OPERATOR, {"PodMonitor": 1, "PrometheusRule": 2, "ConfigMap": DASHBOARDS}),
    ({"service": {"enabled": False}}, OPERATOR, {"PodMonitor": 1, "PrometheusRule": 2, "ConfigMap": DASHBOARDS}),
    ({"service": {"enabled": False}, "serviceMonitor": {"enabled": False}}, [MONITOR], {"ConfigMap": DASHBOARDS}),
]


@pytest.mark.parametrize(("given", "kinds", "made"), CASES, ids=range(len(CASES)))
def test_auto_follows_the_kinds_that_the_cluster_knows(
    given: Values, kinds: Sequence[tuple[str, str, str]], made: dict[str, int]
) -> None:
    assert monitoring(install(given, kinds).documents) == made


def test_renderer_without_a_cluster_needs_the_explicit_switch(render: Render) -> None:
    assert monitoring(render()) == {}
    assert monitoring(render({"monitoring": {"enabled": True}})) == ALL


def test_missing_operator_is_refused_where_monitoring_is_asked_for() -> None:
    with pytest.raises(helm_python.HelmReleaseError, match=r"serviceMonitor\.enabled: the cluster does not know"):
        install({"monitoring": {"enabled": True}}, [])


GUIDE = "https://github.com/gpu-exporter/gpu-exporter/blob/main/docs/how-to/prometheus-grafana.md#without-the-operator"
PASSWORD: Values = {"web": {"existingSecret": "web", "basicAuth": {"enabled": True}}}
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "9836", "prometheus.io/path": "/metrics"}


@pytest.mark.parametrize(
    ("given", "kinds", "annotations"),
    [
        ({}, [], SCRAPED),
        (
            {"service": {"annotations": {"prometheus.io/scrape": "false"}}},
            [],
            SCRAPED | {"prometheus.io/scrape": "false"},
        ),
        ({}, OPERATOR, None),
        ({"monitoring": {"enabled": False}}, [], None),
        ({"serviceMonitor": {"enabled": False}}, OPERATOR, None),
        ({"podMonitor": {"enabled": True}}, OPERATOR, None),
        (PASSWORD, [], None),
    ],
)
def test_service_has_scrape_annotations_where_there_is_no_operator(
    given: Values, kinds: Sequence[tuple[str, str, str]], annotations: dict[str, str] | None
) -> None:
    (service,) = (each for each in install(given, kinds).documents if each["kind"] == "Service")

    assert service["metadata"].get("annotations") == annotations


@pytest.mark.parametrize(
    ("given", "kinds", "on", "next_"),
    [
        ({}, [], "scrape annotations of the Service", f"add rules and dashboards: {GUIDE}"),
        (PASSWORD, [], "nothing", f"add a scrape job: {GUIDE}"),
        ({"monitoring": {"enabled": False}}, OPERATOR, "nothing", "monitoring.enabled=true"),
        ({"monitoring": {"enabled": False}, "serviceMonitor": {"enabled": False}}, OPERATOR, "nothing",
         "monitoring.enabled=true,serviceMonitor.enabled=auto"),
        ({"service": {"enabled": False}, "podMonitor": {"enabled": False}, "monitoring": {"enabled": False}}, OPERATOR,
         "nothing", "monitoring.enabled=true,podMonitor.enabled=auto"),
    ],
)  # fmt: skip
def test_notes_without_a_monitor_give_a_next_step_that_works(
    given: Values, kinds: Sequence[tuple[str, str, str]], on: str, next_: str
) -> None:
    lines = told(install(given, kinds).notes)
    upgrade = "helm upgrade rel CHART -n mon --reset-then-reuse-values --set "

    assert lines == {
        "Monitoring on": on,
        "Monitoring off": "monitor, rules, dashboards",
        "Next": next_ if GUIDE in next_ else f"{upgrade}{next_}",
    }


def test_notes_without_a_cluster_give_the_switch(files: Files) -> None:
    (notes,) = (text for path, text in files().items() if path.endswith("NOTES.txt"))

    assert told(notes) == {
        "Monitoring on": "scrape annotations of the Service",
        "Monitoring off": "monitor, rules, dashboards",
        "Next": "helm upgrade rel CHART -n mon --reset-then-reuse-values --set monitoring.enabled=true",
    }


def test_notes_name_the_label_that_is_missing() -> None:
    lines = told(install({"serviceMonitor": STACK}, OPERATOR).notes)

    assert lines["Monitoring on"] == "ServiceMonitor, rules (without label release), dashboards"
    assert lines["Monitoring off"] == "nothing"
    assert "--reset-then-reuse-values --set-string 'prometheusRule.labels.release=STACK' " in lines["Next"]


def test_notes_name_what_is_off_of_the_rules() -> None:
    rules = {"recordings": False, "alerts": {"enabled": False}}

    assert told(install({"prometheusRule": rules}, OPERATOR).notes)["Monitoring off"] == "recordings, alerts"
    assert (
        told(install({"prometheusRule": rules, "monitoring": {"enabled": False}}, OPERATOR).notes)["Monitoring off"]
        == "monitor, rules, dashboards"
    )


def _pod(name: str, node: str, phase: str = "Running", memory: str = "0", instance: str = "job") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "labels": {"app.kubernetes.io/instance": instance}}
    containers = [{"name": "main", "resources": {"requests": {"memory": memory, "cpu": "500m"}}}, {"name": "sidecar"}]
    return {
        "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": phase},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "crowded"),
    [
        ({}, "full"),
        ({"requests": {"memory": "50Mi"}}, "full, large"),
        ({"limits": {"memory": "50Mi"}, "requests": {"memory": None}}, "full, large"),
        ({"requests": {"cpu": "10m"}}, "full"),
    ],
)
def test_notes_name_the_nodes_without_room(resources: dict[str, dict[str, str | None]], crowded: str) -> None:
    gpus = {"labels": {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}}
    room = {"full": ("2", "64Gi"), "large": ("110", "1Gi"), "own": ("1", "64Gi"), "ended": ("1", "64Gi")}
    nodes = [
        {"kind": "Node", "metadata": {"name": name, **gpus},
         "status": {"allocatable": {"pods": pods, "memory": memory, "cpu": "8"}}}
        for name, (pods, memory) in room.items()
    ]  # fmt: skip
    pods = [
        _pod("a", "full"), _pod("b", "full"), _pod("c", "large", memory="1000Mi"), _pod("d", "own", instance="rel"),
        _pod("e", "ended", "Succeeded", "64Gi"), _pod("f", ""),
    ]  # fmt: skip

    notes = install({"resources": resources}, [], [*nodes, *pods]).notes

    assert f"have no room for a pod of this release: {crowded}\n" in notes
    assert "have no room" not in install({}, [], nodes).notes
    others = [{"kind": "Node", "metadata": {"name": f"cpu{number}"}} for number in range(200)]
    assert "have no room" not in install({"resources": resources}, [], [*nodes, *others, *pods]).notes


def test_notes_of_the_preset_for_the_stack_lead_to_prometheus() -> None:
    given = strict_yaml.load_all(PRESETS["kube-prometheus-stack"].read_text())
    lines = told(install(next(iter(given)), OPERATOR).notes)

    assert lines["Monitoring on"] == "ServiceMonitor, rules, dashboards"
    assert lines["Next"].startswith("kubectl -n NAMESPACE port-forward service/prometheus-operated 9090 ")
    assert lines["Next"].endswith("for gpu_exporter_build_info")
