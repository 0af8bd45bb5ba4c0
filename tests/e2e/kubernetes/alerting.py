"""Alerts from the AlertmanagerConfig through the operator and a real Alertmanager to a receiver, with our wording."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.e2e.kubernetes import prometheus
from tests.e2e.kubernetes.cluster import ROOT, Cluster
from tests.e2e.kubernetes.waiting import NotYetError, wait_for
from tests.stack import alertmanager, receiver

FOLDER = ROOT / "deploy/kubernetes/alerting"
NAMESPACE = prometheus.NAMESPACE
KEYS = ("pagerduty-key", "slack-url")


OF_TEAM_B: dict[str, Any] = {
    "apiVersion": "monitoring.coreos.com/v1alpha1",
    "kind": "AlertmanagerConfig",
    "metadata": {"name": "own", "namespace": "team-b"},
    "spec": {
        "route": {"receiver": "hook"},
        "receivers": [{"name": "hook", "webhookConfigs": [{"url": "http://127.0.0.1:9/team-b"}]}],
    },
}
"""The configuration of a team that was there before."""


def route_of(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """The route that the operator made of an object, by a part of its receiver's name."""
    (found,) = (each for each in configuration["route"]["routes"] if name in each["receiver"])
    made: dict[str, Any] = found
    return made


@pytest.fixture(scope="module")
def custom_resource() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((FOLDER / "alertmanagerconfig.yaml").read_text())
    return made


@pytest.fixture(scope="module")
def configuration(cluster: Cluster, custom_resource: dict[str, Any]) -> dict[str, Any]:
    """What the operator makes of the object, with the values for kube-prometheus-stack on the Alertmanager."""
    values = yaml.safe_load((FOLDER / "kube-prometheus-stack-values.yaml").read_text())["alertmanager"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gpu-alerts", "namespace": NAMESPACE}}
    # As kube-prometheus-stack makes it: every AlertmanagerConfig of the cluster.
    stack: dict[str, Any] = {"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}}
    spec = {"replicas": 0, "version": "v0.25.0", **stack, **values["alertmanagerSpec"]}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}},
        OF_TEAM_B,
        {**secret, "stringData": dict.fromkeys(KEYS, "http://127.0.0.1:9/slack")},
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "Alertmanager",
            "metadata": {"name": "e2e", "namespace": NAMESPACE},
            "spec": spec,
        },
        custom_resource,
    )
    if "prometheus-operator" not in cluster.processes:
        prometheus.start_operator(cluster)

    def made() -> dict[str, Any]:
        data = cluster.get("secret", "alertmanager-e2e-generated", "-n", NAMESPACE)["data"]
        content = yaml.safe_load(gzip.decompress(base64.b64decode(data["alertmanager.yaml.gz"])))
        names = " ".join(each["name"] for each in content["receivers"])
        if "gpu-exporter" not in names or "team-b" not in names:
            raise NotYetError(content)
        answer: dict[str, Any] = content
        return answer

    return wait_for(made)


def test_operator_takes_every_route_receiver_and_inhibition(
    configuration: dict[str, Any], custom_resource: dict[str, Any]
) -> None:
    route = route_of("gpu-exporter", configuration)

    assert len(route["routes"]) == len(custom_resource["spec"]["route"]["routes"])
    assert len(configuration["inhibit_rules"]) == len(custom_resource["spec"]["inhibitRules"])
    assert not any("namespace" in str(each) and "monitoring" in str(each) for each in route["matchers"])


def test_route_of_another_team_keeps_its_alerts_and_gets_no_others(configuration: dict[str, Any]) -> None:
    route = route_of("team-b", configuration)

    assert route["matchers"] == ['namespace="team-b"']
    assert route_of("gpu-exporter", configuration)["continue"] is True


def test_alert_about_another_namespace_arrives_with_our_words(configuration: dict[str, Any], tmp_path: Path) -> None:
    template = yaml.safe_load((FOLDER / "kube-prometheus-stack-values.yaml").read_text())["alertmanager"]
    for name, text in template["templateFiles"].items():
        (tmp_path / name).write_text(text)
    with receiver() as sink:
        local = {**configuration, "templates": [f"{tmp_path}/*.tmpl"]}
        for each in local["receivers"]:
            for webhook in each.get("webhook_configs", ()):
                webhook["url"] = f"{sink.url}/ticket"
            for chat in each.get("slack_configs", ()):
                chat["api_url"] = f"{sink.url}/chat"
        (tmp_path / "alertmanager.yaml").write_text(re.sub(r"group_wait: \S+", "group_wait: 0s", yaml.safe_dump(local)))
        with alertmanager(tmp_path / "alertmanager.yaml", tmp_path) as url:
            labels = {"audience": "owner", "severity": "warning", "workload_namespace": "ml", "workload": "ml/train-0"}
            texts = {"summary": "train-0 holds 8 GPUs idle", "description": "D.", "runbook_url": "http://r"}
            alert = {
                "labels": {"alertname": "GpuAllocatedIdle", **labels},
                "annotations": texts,
                "startsAt": dt.datetime.now(dt.timezone.utc).isoformat(),
            }
            requests.post(f"{url}/api/v2/alerts", json=[alert], timeout=10).raise_for_status()
            got = sink.first(lambda message: message.path == "/chat", "the message in the chat")

    assert "train-0 holds 8 GPUs idle" in str(got.body)
    assert "ml/train-0" in str(got.body)
