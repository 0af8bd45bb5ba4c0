"""What is printed after an install holds for that install: every command in it works."""

from __future__ import annotations

import shutil
from pathlib import Path

import helm_python
import pytest
import yaml

from tests.contract.chart.conftest import Files, One, Render, Values, packed

OWN_NODES = [{"key": "sku", "value": "gpu", "effect": "NoExecute"}]


def notes(files: Files, given: Values) -> str:
    return files(given)["gpu-exporter/templates/NOTES.txt"]


@pytest.mark.parametrize("kind", ["RollingUpdate", "OnDelete"])
def test_rollout_is_watched_where_there_is_one(kind: str, files: Files) -> None:
    """`kubectl rollout status` ends with an error of a DaemonSet whose pods are replaced by hand."""
    text = notes(files, {"updateStrategy": {"type": kind}, "nameOverride": "gpus"})

    assert ("rollout status daemonset/rel-gpus" in text) == (kind == "RollingUpdate")
    selector = "-l app.kubernetes.io/name=gpus,app.kubernetes.io/instance=rel"
    assert (f"delete pod --field-selector spec.nodeName=NODE {selector}" in text) == (kind == "OnDelete")


@pytest.mark.parametrize("service", [True, False])
def test_helm_test_is_named_where_there_is_one(*, service: bool, files: Files, render: Render) -> None:
    given = {"service": {"enabled": service}}

    assert ("helm test rel -n mon" in notes(files, given)) == service
    assert any(each["kind"] == "Pod" for each in render(given)) == service


@pytest.mark.parametrize("reader", [{"operator": "victoriametrics"}, {"apiVersion": "azmonitoring.coreos.com/v1"}])
def test_other_operators_get_no_advice_for_the_one_of_prometheus(reader: Values, files: Files) -> None:
    text = notes(files, {"serviceMonitor": {"enabled": True}, "monitoring": reader})

    assert "release=STACK" in notes(files, {"serviceMonitor": {"enabled": True}})
    assert "STACK" not in text
    assert "prometheus-operated" not in text
    assert "Next: query gpu_exporter_build_info" in text


def test_pod_of_helm_test_is_no_part_of_what_is_rendered_without_a_cluster(files: Files, render: Render) -> None:
    """`helm template` and GitOps would apply it as any other pod."""
    given = {"test": {"enabled": "auto"}}

    assert not [each for each in render(given) if each["kind"] == "Pod"]
    assert "helm test" not in notes(files, given)


def test_pod_of_helm_test_starts_where_every_node_has_a_taint(render: Render, one: One) -> None:
    """But not on one that is not ready, which has a taint that evicts."""
    every = {"operator": "Exists", "effect": "NoSchedule"}

    assert one(render(), "Pod")["spec"]["tolerations"] == [every]
    assert one(render({"tolerations": OWN_NODES}), "Pod")["spec"]["tolerations"] == [every, *OWN_NODES]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"resources": {"requests": {"cpu": "10m"}}}, "10m of cpu. On a node without that room it stays Pending"),
        # Kubernetes takes the limit for a request that is absent.
        ({"resources": {"requests": {"memory": None}}}, "256Mi of memory. On a node without that room it stays"),
        (
            {"resources": {"requests": {"cpu": 1}}, "priorityClass": {"preemptionPolicy": "PreemptLowerPriority"}},
            "1 of cpu. On a node without that room it evicts pods of lower priority, running training too.",
        ),
    ],
)
def test_requests_that_a_full_node_lacks_are_named(given: Values, said: str, files: Files) -> None:
    text = notes(files, given)

    assert said in text
    assert ("each pod requests" in text) == bool(said)


def test_version_of_a_build_is_a_label_and_a_tag(tmp_path: Path) -> None:
    """A `+`, which versions may have, is refused in both."""
    made = tmp_path / "gpu-exporter"
    shutil.copytree(packed(), made)
    chart = yaml.safe_load((made / "Chart.yaml").read_text())
    version = "0.2.0-a-b.1+c"
    (made / "Chart.yaml").write_text(yaml.safe_dump({**chart, "version": version, "appVersion": version}))
    with helm_python.Chart.load(str(made)) as loaded:
        texts = loaded.render({}, name="rel", namespace="mon")
    daemonset = yaml.safe_load(next(text for path, text in texts.items() if path.endswith("daemonset.yaml")))
    labels = daemonset["metadata"]["labels"]
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]

    assert container["image"] == "gpu-exporter:0.2.0-a-b.1_c"
    assert labels["app.kubernetes.io/version"] == "0.2.0-a-b.1_c"
    assert labels["helm.sh/chart"] == "gpu-exporter-0.2.0-a-b.1_c"
