"""The prices of the site and the accounting service, as the chart makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from exporter.tools.report.accounting.prices import read, rules
from tests.contract.chart.conftest import Render, Values

PRICES: Values = {
    "currency": "EUR",
    "prices": [
        {"model": "NVIDIA H100 80GB HBM3", "per_gpu_hour": 3, "to": "2026-10-16"},
        {"model": "NVIDIA H100 80GB HBM3", "per_gpu_hour": 2.6, "from": "2026-10-16"},
        {"model": "NVIDIA A100-SXM4-80GB", "pool": "spot", "per_gpu_hour": 0.6},
        {"model": "NVIDIA A100-SXM4-80GB", "profile": "1g.10gb", "cluster": "west", "per_gpu_hour": 1.4},
        {"per_gpu_hour": 0.5, "from": "2026-01-01"},
    ],
    "budgets": {"vision": 5000},
    "teams": {"vision": ["physics", "cv-prod"], "language": ["speech"]},
    "budget_thresholds": [0.85, 1],
}
ON: Values = {"accounting": {"enabled": True}, "web": {"basicAuth": {"enabled": True}}}


def test_chart_records_the_prices_that_the_report_reads(render: Render, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump(PRICES))

    made = [
        each["spec"]
        for each in render({"prices": PRICES, "prometheusRule": {"enabled": True}})
        if each["metadata"]["name"].endswith("-prices")
    ]

    assert made == [yaml.safe_load(rules(read(file)))]


def test_chart_alerts_at_the_thresholds_that_the_report_has_by_default(render: Render, tmp_path: Path) -> None:
    values: Values = {name: value for name, value in PRICES.items() if name != "budget_thresholds"}
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump(values))

    (made,) = (
        each["spec"]
        for each in render({"prices": values, "prometheusRule": {"enabled": True}})
        if each["metadata"]["name"].endswith("-prices")
    )

    assert made == yaml.safe_load(rules(read(file)))


def test_chart_without_prices_records_none(render: Render) -> None:
    assert "gpu:price_per_hour\n" not in yaml.safe_dump_all(
        each for each in render({"prometheusRule": {"enabled": True}}) if each["metadata"]["name"].endswith("-prices")
    )


def test_accounting_is_one_pod_that_no_selector_of_the_exporters_finds(render: Render) -> None:
    documents = render({**ON, "accounting": {"enabled": True, "cluster": "west"}, "prices": PRICES})
    made = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    (daemonset,) = (each for each in documents if each["kind"] == "DaemonSet")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (service,) = (name for kind, name in made if kind == "Service")
    (config,) = (each for each in documents if each["kind"] == "ConfigMap" and "prices.yaml" in each["data"])

    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert not daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert f"--nodes=http://{service}:9836" in container["args"]
    assert {"name": "GPU_EXPORTER_CLUSTER", "value": "west"} in container["env"]
    assert made["Service", service]["spec"]["clusterIP"] == "None"
    assert yaml.safe_load(config["data"]["prices.yaml"]) == PRICES
    assert ("PersistentVolumeClaim", deployment["metadata"]["name"]) in made


def test_accounting_is_scraped_and_may_read_the_exporters(render: Render) -> None:
    """Budgets are alerts of its metrics, and a policy that lets only Prometheus in would keep its pod out."""
    peers = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    values = {
        **ON,
        "serviceMonitor": {"enabled": True, "labels": {"release": "stack"}},
        "networkPolicy": {"enabled": True, "from": peers},
    }
    made = {(each["kind"], each["metadata"]["name"]): each for each in render(values)}
    (monitor,) = (each for (kind, _), each in made.items() if kind == "PodMonitor")
    (deployment,) = (each for (kind, _), each in made.items() if kind == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    policy = made["NetworkPolicy", "rel-gpu-exporter"]
    own = made["NetworkPolicy", deployment["metadata"]["name"]]["spec"]
    (egress,) = own["egress"]

    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert monitor["spec"]["selector"]["matchLabels"] == labels
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "metrics"}]
    assert {"podSelector": {"matchLabels": labels}} in policy["spec"]["ingress"][0]["from"]
    assert (own["podSelector"]["matchLabels"], own["ingress"][0]["from"]) == (labels, peers)
    assert [(each["port"], each["protocol"]) for each in egress["ports"]][:3] == [
        (9836, "TCP"),
        (53, "UDP"),
        (53, "TCP"),
    ]


def test_accounting_is_off_by_default(render: Render) -> None:
    assert not [each for each in render({}) if each["kind"] in ("Deployment", "PersistentVolumeClaim")]


def test_accounting_sorts_where_it_can_write(render: Render) -> None:
    """SQLite sorts more than about 4,000 rows in a file, and fails where it finds no folder for it."""
    (deployment,) = (each for each in render(ON) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (folder,) = (each["value"] for each in container["env"] if each["name"] == "SQLITE_TMPDIR")

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert folder in {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}


def test_accounting_starts_anew_with_another_password(render: Render) -> None:
    def annotations(password: str) -> Values:
        auth = {"enabled": True, "password": password, "passwordHash": "$2y$10$" + password[0] * 53}
        given = {"basicAuth": auth}
        (made,) = (each for each in render({**ON, "web": given}) if each["kind"] == "Deployment")
        found: Values = made["spec"]["template"]["metadata"]["annotations"]
        return found

    assert annotations("one") == annotations("one") != annotations("two")


def test_accounting_pulls_with_the_secrets_of_an_umbrella_chart(render: Render) -> None:
    values = {**ON, "global": {"imagePullSecrets": ["all"]}, "imagePullSecrets": [{"name": "own"}]}
    (deployment,) = (each for each in render(values) if each["kind"] == "Deployment")

    assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "own"}, {"name": "all"}]


@pytest.mark.parametrize("service", [{"type": "NodePort"}, {"clusterIP": "10.0.0.9"}, {"enabled": False}])
def test_accounting_without_a_headless_service_is_refused(service: Values, render: Render) -> None:
    with pytest.raises(Exception, match="expected a headless service"):
        render({**ON, "service": service})


def test_accounting_without_a_password_is_refused(render: Render) -> None:
    with pytest.raises(Exception, match=r"expected web\.basicAuth\.enabled"):
        render({"accounting": {"enabled": True}})


@pytest.mark.parametrize(
    ("name", "given"), [("2027", {}), ("1e5", {}), ("true", {}), ("1.5", {}), ("rel", {"nameOverride": "n" * 63})]
)
def test_accounting_has_labels_that_kubernetes_takes(name: str, given: Values, render: Render) -> None:
    """A release may be named by a number, and the chart's own name may have all the length of a label."""
    documents = render({**ON, **given}, name=name)
    (deployment,) = (each["spec"] for each in documents if each["kind"] == "Deployment")
    (daemonset,) = (each["spec"] for each in documents if each["kind"] == "DaemonSet")
    labels = deployment["template"]["metadata"]["labels"]

    assert labels["app.kubernetes.io/instance"] == name
    assert len(labels["app.kubernetes.io/name"]) <= 63
    assert deployment["selector"]["matchLabels"] == labels
    assert not daemonset["selector"]["matchLabels"].items() <= labels.items()


def test_accounting_runs_on_linux_only(render: Render) -> None:
    """Windows nodes of AKS have no taint, and no image of this chart runs there."""
    (deployment,) = (each["spec"] for each in render(ON) if each["kind"] == "Deployment")

    assert deployment["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
