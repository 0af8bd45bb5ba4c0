"""Alert routing for kube-prometheus-stack: the example of deploy/alertmanager, as a custom resource and as values."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm import alerting
from tests.contract.chart import strict_yaml
from tests.contract.chart.conftest import ROOT
from tests.stack import program

FOLDER = ROOT / "deploy/kubernetes/alerting"
EXAMPLE = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yaml").read_text())


def loaded(name: str) -> Any:
    (document,) = strict_yaml.load_all((FOLDER / name).read_text())
    return document


def test_plain_values_are_a_configuration_that_amtool_accepts(tmp_path: Path) -> None:
    values = loaded("kube-prometheus-stack-plain-values.yaml")["alertmanager"]
    for name, text in values["templateFiles"].items():
        (tmp_path / name).write_text(text)
    config = {**values["config"], "templates": [f"{tmp_path}/*.tmpl"]}
    (tmp_path / "alertmanager.yaml").write_text(yaml.safe_dump(config))

    checked = [program("amtool"), "check-config", str(tmp_path / "alertmanager.yaml")]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert values["alertmanagerSpec"]["secrets"] == [alerting.SECRET]
    assert f"/etc/alertmanager/secrets/{alerting.SECRET}/" in yaml.safe_dump(config)


def test_custom_resource_has_every_route_receiver_and_inhibition() -> None:
    spec = loaded("alertmanagerconfig.yaml")["spec"]

    assert len(spec["route"]["routes"]) == len(EXAMPLE["route"]["routes"])
    assert [each["name"] for each in spec["receivers"]] == [each["name"] for each in EXAMPLE["receivers"]]
    assert len(spec["inhibitRules"]) == len(EXAMPLE["inhibit_rules"])
    assert spec["route"]["matchers"] == [{"name": "alertname", "matchType": "=~", "value": "Gpu.+"}]


def test_secrets_are_references() -> None:
    text = (FOLDER / "alertmanagerconfig.yaml").read_text()

    assert "_file" not in text
    assert text.count(f"name: {alerting.SECRET}\n") == sum(
        key.endswith("_file") for key in yaml.safe_dump(EXAMPLE).replace(":", " ").split()
    )


def test_templates_of_the_stack_are_those_of_the_example() -> None:
    for name in ("kube-prometheus-stack-values.yaml", "kube-prometheus-stack-plain-values.yaml"):
        templates = loaded(name)["alertmanager"]["templateFiles"]
        assert templates == {path.name: path.read_text() for path in (ROOT / "deploy/alertmanager").glob("*.tmpl")}


def test_values_let_alerts_of_every_namespace_through() -> None:
    spec = loaded("kube-prometheus-stack-values.yaml")["alertmanager"]["alertmanagerSpec"]
    labels = loaded("alertmanagerconfig.yaml")["metadata"]["labels"]

    assert spec["alertmanagerConfigMatcherStrategy"] == {"type": "None"}
    assert spec["alertmanagerConfigSelector"]["matchLabels"].items() <= labels.items()


def test_odd_matcher_is_named() -> None:
    broken = {**EXAMPLE, "route": {**EXAMPLE["route"], "routes": [{"matchers": ["audience"], "receiver": "x"}]}}

    with pytest.raises(ValueError, match="not a matcher: audience"):
        alerting.alertmanager_config(broken)
