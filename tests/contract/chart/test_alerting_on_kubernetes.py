"""Alert routing for kube-prometheus-stack: the example of deploy/alertmanager, as a custom resource and as values."""

from __future__ import annotations

import re
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
OURS = {"name": "alertname", "matchType": "=~", "value": "Gpu.+"}
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
    assert spec["route"]["matchers"] == [OURS]


def test_custom_resource_mutes_no_alert_of_another_team() -> None:
    rules = loaded("alertmanagerconfig.yaml")["spec"]["inhibitRules"]

    assert [rule["targetMatch"] for rule in rules if OURS not in rule["targetMatch"]] == []


def test_secrets_are_references() -> None:
    text = (FOLDER / "alertmanagerconfig.yaml").read_text()

    assert "_file" not in text
    secret = [name for name in ("pagerduty_configs", "slack_configs") for each in EXAMPLE["receivers"] if name in each]
    assert text.count(f"name: {alerting.SECRET}\n") == len(secret)


def test_templates_of_the_stack_are_those_of_the_example() -> None:
    for name in ("kube-prometheus-stack-values.yaml", "kube-prometheus-stack-plain-values.yaml"):
        templates = loaded(name)["alertmanager"]["templateFiles"]
        assert templates == {path.name: path.read_text() for path in (ROOT / "deploy/alertmanager").glob("*.tmpl")}


def test_stack_values_change_nothing_but_the_matcher_strategy() -> None:
    """Of the AlertmanagerConfigs of other teams: those stay selected, and each keeps to the alerts of its namespace."""
    spec = loaded("kube-prometheus-stack-values.yaml")["alertmanager"]["alertmanagerSpec"]

    assert spec == {"alertmanagerConfigMatcherStrategy": {"type": "OnNamespaceExceptForAlertmanagerNamespace"}}


SHIPPED = sorted(
    path
    for folder in ("docs", "deploy", "helm")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".md", ".yaml", ".tmpl", ".txt", ".tpl"}
)


def test_shipped_files_take_no_routes_of_other_teams_away() -> None:
    text = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *SHIPPED)}
    replaced = re.compile(r"alertmanagerConfigSelector\s*[:=.]|alertmanagerConfigMatcherStrategy\W+(type\W+)?None\b")

    assert [name for name, each in text.items() if replaced.search(each)] == []


def test_odd_matcher_is_named() -> None:
    broken = {**EXAMPLE, "route": {**EXAMPLE["route"], "routes": [{"matchers": ["audience"], "receiver": "x"}]}}

    with pytest.raises(ValueError, match="not a matcher: audience"):
        alerting.alertmanager_config(broken)
