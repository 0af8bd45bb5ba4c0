"""The chart below an umbrella chart, and as tools that fetch charts by themselves see it."""

from __future__ import annotations

import shutil
from pathlib import Path

import helm_python
import pytest
import yaml

from tests.contract.chart import strict_yaml
from tests.contract.chart.conftest import ROOT, Documents, One, Render, Values, packed

UMBRELLA = {
    "apiVersion": "v2",
    "name": "platform",
    "version": "1.0.0",
    "dependencies": [{"name": "gpu-exporter", "version": "*", "condition": "gpu-exporter.enabled"}],
}


@pytest.fixture(scope="module")
def umbrella(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("platform") / "platform"
    (made / "templates").mkdir(parents=True)
    (made / "Chart.yaml").write_text(yaml.safe_dump(UMBRELLA))
    shutil.copytree(packed(), made / "charts/gpu-exporter", symlinks=True)
    return made


def rendered(umbrella: Path, given: Values) -> Documents:
    with helm_python.Chart.load(str(umbrella)) as chart:
        files = chart.render(given, name="rel", namespace="mon")
    return [each for path, text in files.items() if not path.endswith(".txt") for each in strict_yaml.load_all(text)]


def test_condition_of_an_umbrella_chart_switches_it(umbrella: Path, one: One) -> None:
    assert one(rendered(umbrella, {"gpu-exporter": {"enabled": True}}), "DaemonSet")
    assert rendered(umbrella, {"gpu-exporter": {"enabled": False}}) == []


def test_global_registry_and_pull_secrets_are_used(umbrella: Path, one: One) -> None:
    given = {"imageRegistry": "mirror.example.com:5000", "imagePullSecrets": ["pull", {"name": "own"}], "other": 1}
    own = {
        "imagePullSecrets": [{"name": "own"}],
        "image": {"registry": "else.example.com"},
        "test": {"enabled": True},
    }
    documents = rendered(umbrella, {"global": given, "gpu-exporter": own})

    for spec in (one(documents, "DaemonSet")["spec"]["template"]["spec"], one(documents, "Pod")["spec"]):
        assert spec["containers"][0]["image"].startswith("mirror.example.com:5000/gpu-exporter:")
        assert spec["imagePullSecrets"] == [{"name": "own"}, {"name": "pull"}]


@pytest.mark.parametrize(
    "given", [None, {}, {"imageRegistry": None, "imagePullSecrets": None, "storageClass": "x"}], ids=repr
)
def test_umbrella_chart_may_leave_its_globals_empty(given: Values | None, umbrella: Path, one: One) -> None:
    spec = one(rendered(umbrella, {"global": given}), "DaemonSet")["spec"]["template"]["spec"]

    assert spec["containers"][0]["image"].startswith("gpu-exporter:")


def test_no_link_in_the_chart() -> None:
    assert [path for path in packed().rglob("*") if path.is_symlink()] == []


def test_dashboards_are_there_in_a_copy_without_links(umbrella: Path) -> None:
    maps = [
        each
        for each in rendered(umbrella, {"gpu-exporter": {"dashboards": {"enabled": True}}})
        if each["kind"] == "ConfigMap"
    ]

    assert len(maps) == len(list((ROOT / "dashboards/json").glob("*.json")))


def test_hooks_leave_nothing_behind(render: Render, one: One) -> None:
    annotations = one(render(), "Pod")["metadata"]["annotations"]
    policies = set(annotations["helm.sh/hook-delete-policy"].split(","))

    assert policies == {"before-hook-creation", "hook-succeeded", "hook-failed"}
    assert annotations["helm.sh/hook-output-log-policy"] == "hook-failed"


def test_grafana_operator_reads_the_same_config_maps(render: Render) -> None:
    given = {"enabled": True, "folder": "GPUs", "namespace": "grafana", "grafanaOperator": {"enabled": True}}
    documents = render({"dashboards": given})
    maps = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ConfigMap"}
    shown = [each for each in documents if each["kind"] == "GrafanaDashboard"]

    assert len(shown) == len(maps)
    for each in shown:
        reference = each["spec"]["configMapRef"]
        assert reference["key"] in maps[reference["name"]]["data"]
        assert each["metadata"]["namespace"] == maps[reference["name"]]["metadata"]["namespace"] == "grafana"
        assert each["spec"]["folder"] == "GPUs"
        assert each["spec"]["instanceSelector"]["matchLabels"] == {"dashboards": "grafana"}
