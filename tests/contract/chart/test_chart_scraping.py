"""What Prometheus makes of the chart: labels by its own relabelling, rules by promtool."""

import json
import subprocess
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from deploy.prometheus.overrides import Override
from deploy.prometheus.render import RUNBOOKS, Settings, chart_values, render_recordings
from deploy.prometheus.render import render as render_rules
from tests.contract.chart.conftest import Documents, Files, One, Render, Values
from tests.stack import program

ROOT = Path(__file__).resolve().parents[3]
RULES = {"prometheusRule": {"enabled": True}}
WIKI = {"runbooks": {"baseUrl": "https://wiki/x/"}}
"""So that the rules are those of deploy/prometheus, which know no Service."""
OF_WIKI = "https://wiki/x/{name}"


def groups(documents: Documents, suffix: str) -> Any:
    (rule,) = [
        each for each in documents if each["kind"] == "PrometheusRule" and each["metadata"]["name"].endswith(suffix)
    ]
    return rule["spec"]["groups"]


@pytest.mark.parametrize(
    ("kind", "value", "endpoints"),
    [
        ("ServiceMonitor", "serviceMonitor", "endpoints"),
        ("PodMonitor", "podMonitor", "podMetricsEndpoints"),
    ],
)
def test_monitor_names_the_node_and_leaves_pod_to_the_gpus_user(
    kind: str, value: str, endpoints: str, render: Render, one: One
) -> None:
    spec = one(render({value: {"enabled": True}}), kind)["spec"]
    (endpoint,) = spec[endpoints]

    named = {
        rule["targetLabel"]: rule["sourceLabels"] for rule in endpoint["relabelings"] if rule["action"] == "replace"
    }
    dropped = [rule["regex"] for rule in endpoint["relabelings"] if rule["action"] == "labeldrop"]
    assert named == {"node": ["__meta_kubernetes_pod_node_name"], "instance": ["__meta_kubernetes_pod_node_name"]}
    assert dropped == ["pod|namespace|container"]
    assert endpoint["honorLabels"] is True
    assert spec["jobLabel"] == "app.kubernetes.io/name"


def test_monitor_finds_the_service_by_its_port_and_labels(render: Render, one: One) -> None:
    documents = render({"serviceMonitor": {"enabled": True}})
    service, spec = one(documents, "Service"), one(documents, "ServiceMonitor")["spec"]

    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert spec["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert spec["jobLabel"] in service["metadata"]["labels"]


@pytest.mark.parametrize(("kind", "value"), [("ServiceMonitor", "serviceMonitor"), ("PodMonitor", "podMonitor")])
def test_monitor_names_a_namespace_only_where_it_looks_into_another(
    kind: str, value: str, render: Render, one: One
) -> None:
    here, elsewhere = (
        one(render({value: {"enabled": True, "namespace": namespace}}), kind)["spec"]
        for namespace in ("", "monitoring")
    )

    # Its own is meant without, also once kustomize or a copy has moved all into another.
    assert "namespaceSelector" not in here
    assert elsewhere["namespaceSelector"] == {"matchNames": ["mon"]}


@pytest.mark.parametrize(("kind", "value"), [("ServiceMonitor", "serviceMonitor"), ("PodMonitor", "podMonitor")])
def test_field_of_a_monitor_takes_the_place_of_the_charts_own(kind: str, value: str, render: Render, one: One) -> None:
    own = one(render({value: {"enabled": True}}), kind)["spec"]
    given = {"jobLabel": "team", "sampleLimit": 5000, "namespaceSelector": {"matchNames": ["gpus"]}}
    made = one(render({value: {"enabled": True, "spec": given}}), kind)["spec"]

    assert made == {**own, **given}


@pytest.mark.parametrize(
    ("value", "kind", "endpoints"),
    [
        ("serviceMonitor", "VMServiceScrape", "endpoints"),
        ("podMonitor", "VMPodScrape", "podMetricsEndpoints"),
    ],
)
def test_victoriametrics_operator_gets_kinds_and_fields_of_its_own(
    value: str, kind: str, endpoints: str, render: Render, one: One
) -> None:
    given = {"enabled": True, "attachMetadata": {"node": True}, "metricRelabelings": [{"action": "labeldrop"}]}
    operator = {"monitoring": {"operator": "victoriametrics"}, "prometheusRule": {"enabled": True}}
    made = render({value: given, **operator})
    scrape = one(made, kind)
    (endpoint,) = scrape["spec"][endpoints]

    assert scrape["apiVersion"] == "operator.victoriametrics.com/v1beta1"
    assert [each["targetLabel"] for each in endpoint["relabelConfigs"] if "targetLabel" in each] == ["node", "instance"]
    assert endpoint["metricRelabelConfigs"] == [{"action": "labeldrop"}]
    assert endpoint["attach_metadata"] == {"node": True}
    assert not {"relabelings", "metricRelabelings"} & endpoint.keys()
    assert "attachMetadata" not in scrape["spec"]
    rules = [each for each in made if each["kind"] == "VMRule"]
    assert [each["spec"] for each in rules] == [
        each["spec"] for each in render({"prometheusRule": {"enabled": True}}) if each["kind"] == "PrometheusRule"
    ]
    assert not [each for each in made if each["apiVersion"] == "monitoring.coreos.com/v1"]


@pytest.mark.parametrize(("kind", "value"), [("ServiceMonitor", "serviceMonitor"), ("PodMonitor", "podMonitor")])
def test_monitor_takes_group_job_label_and_metadata(kind: str, value: str, render: Render, one: One) -> None:
    given = {"enabled": True, "jobLabel": "team", "attachMetadata": {"node": True}}
    made = one(render({value: given, "monitoring": {"apiVersion": "azmonitoring.coreos.com/v1"}}), kind)

    assert made["apiVersion"] == "azmonitoring.coreos.com/v1"
    assert made["spec"]["jobLabel"] == "team"
    assert made["spec"]["attachMetadata"] == {"node": True}


def test_service_has_a_port_of_the_node_and_two_families(render: Render, one: One) -> None:
    given = {"type": "NodePort", "nodePort": 30036, "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    spec = one(render({"service": given}), "Service")["spec"]

    assert spec["ports"] == [
        {"name": "metrics", "port": 9836, "targetPort": "metrics", "nodePort": 30036, "protocol": "TCP"}
    ]
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("PreferDualStack", ["IPv6", "IPv4"])


def test_container_takes_host_port_startup_probe_and_lifecycle(render: Render, one: One) -> None:
    hook = {"preStop": {"exec": {"command": ["sleep", "1"]}}}
    given = {"hostPort": 9836, "startupProbe": {"failureThreshold": 60}, "lifecycle": hook}
    container, default = (
        one(render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"][0] for values in (given, {})
    )

    assert container["ports"] == [{"name": "metrics", "containerPort": 9836, "hostPort": 9836, "protocol": "TCP"}]
    assert container["startupProbe"] == {
        "httpGet": {"path": "/-/healthy", "port": "metrics", "scheme": "HTTP"},
        "periodSeconds": 5,
        "failureThreshold": 60,
    }
    assert container["lifecycle"] == hook
    assert not {"startupProbe", "lifecycle"} & default.keys()
    assert "hostPort" not in default["ports"][0]


def promtool(made: Any, tmp_path: Path) -> Any:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": made}))
    command = [program("promtool"), "check", "rules", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("suffix", ["recording", "alerts"])
@pytest.mark.parametrize(
    "given", [{}, {"alerts": {"rules": {"GpuAllocatedIdle": {"min_idle_ratio": 0.5, "window": "2h", "for": "1m"}}}}]
)
def test_promtool_accepts_the_rules(suffix: str, given: Values, render: Render, tmp_path: Path) -> None:
    checked = promtool(groups(render({"prometheusRule": {"enabled": True, **given}}), suffix), tmp_path)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_dashboard_links_begin_with_the_sites_grafana(render: Render) -> None:
    values = {"prometheusRule": {**RULES["prometheusRule"], "alerts": {"grafanaUrl": "https://dash.example.org/"}}}
    found = {
        rule["alert"]: rule["annotations"]["dashboard"]
        for group in groups(render({**RULES, **values}), "alerts")
        for rule in group["rules"]
        if "alert" in rule
    }

    assert found["GpuExportersDown"].startswith("https://dash.example.org/d/gpu-fleet?")
    assert all(link.startswith("https://dash.example.org{{ ") or "org/d/" in link for link in found.values())


def test_no_mark_is_left_in_the_rules(render: Render) -> None:
    text = json.dumps(groups(render(RULES), "alerts"))

    assert "<Gpu" not in text
    assert not any(mark in text for mark in ("<runbooks>", "<interval>", "<slowInterval>"))


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, "http://rel-gpu-exporter.mon.svc:9836/runbooks/gpulost{{ else }}"),
        ({"web": {"tls": {"enabled": True}}}, "https://rel-gpu-exporter.mon.svc:9836/runbooks/gpulost{{ else }}"),
        ({"service": {"enabled": False}}, RUNBOOKS.format(name="gpulost")),
        (WIKI, "https://wiki/x/gpulost"),
    ],
)
def test_runbooks_are_the_exporters_own_unless_a_site_has_others(values: Values, url: str, render: Render) -> None:
    found = {
        rule["alert"]: rule["annotations"]["runbook_url"]
        for group in groups(render({**RULES, **values}), "alerts")
        for rule in group["rules"]
        if "alert" in rule
    }["GpuLost"]

    if "{{" in url:
        assert url in found
        assert found.endswith(f"{{{{ else }}}}{RUNBOOKS.format(name='gpulost')}{{{{ end }}}}")
    else:
        assert found == url


def normal(made: Any) -> Any:
    """Groups as the chart writes them: no interval, labels and annotations as plain maps."""
    return {group["name"]: group["rules"] for group in made["groups"]}


def test_default_rules_are_those_of_deploy_prometheus(render: Render) -> None:
    documents = render({**RULES, **WIKI})

    assert {group["name"]: group["rules"] for group in groups(documents, "recording")} == normal(
        yaml.safe_load((ROOT / "deploy/prometheus/rules/gpu-recording.yaml").read_text())
    )
    assert {group["name"]: group["rules"] for group in groups(documents, "alerts")} == normal(
        render_rules(Settings(runbooks=OF_WIKI))
    )


@pytest.mark.parametrize("off", ["GpuMemoryLeaked", "GpuIncident"])
def test_thresholds_and_switches_are_values(render: Render, off: str) -> None:
    values = {"GpuUnderutilized": {"min_utilization_ratio": 0.5, "for": "1h"}}
    given = {"rules": {**values, off: {"enabled": False}}}
    made = groups(render({"prometheusRule": {"enabled": True, "alerts": given}, **WIKI}), "alerts")

    wanted = render_rules(Settings(values=values, disabled={off}, runbooks=OF_WIKI))
    assert {group["name"]: group["rules"] for group in made} == normal(wanted)


def test_defaults_of_the_alerts_are_values_that_change_nothing(render: Render) -> None:
    """Whoever copies one from the table to change a word of it is not refused."""
    defaults = chart_values()
    made = groups(render({"prometheusRule": {"enabled": True, "alerts": {"rules": defaults}}}), "alerts")

    assert made == groups(render(RULES), "alerts")


def test_thresholds_of_a_namespace_an_account_and_a_class_are_values(render: Render, tmp_path: Path) -> None:
    overrides = (
        ("GpuUnderutilized", 'namespace="lab"', {"min_utilization_ratio": 0.1, "severity": "info"}),
        ("GpuUnderutilized", 'class="service",account=~"a|b"', {"window": "6h"}),
        ("GpuAllocatedIdle", 'namespace="lab"', {"window": "4h", "except": 'user="root"'}),
        ("GpuOwnerWaste", 'account="course"', {"min_gpu_hours": 20}),
        ("GpuOwnerWaste", 'class="interactive"', {"min_idle_ratio": 0.9}),
    )
    given = [{"alert": alert, "where": where, **values} for alert, where, values in overrides]
    alerts = {"rules": {"GpuUnderutilized": {"max_ignored_gpus": 1}, "GpuAllocatedIdle": {"except": 'class="batch"'}}}
    rules = {"enabled": True, "alerts": {**alerts, "overrides": given}}
    made = groups(render({"prometheusRule": rules, **WIKI}), "alerts")

    same = [Override(alert=alert, where=where, values=values) for alert, where, values in overrides]
    wanted = render_rules(Settings(values=alerts["rules"], overrides=same, runbooks=OF_WIKI))
    assert {group["name"]: group["rules"] for group in made} == normal(wanted)
    assert promtool(made, tmp_path).returncode == 0


def test_every_alert_carries_the_given_labels_and_keeps_its_own(render: Render) -> None:
    made = groups(render({"prometheusRule": {"enabled": True, "alerts": {"labels": {"cluster": "one"}}}}), "alerts")

    assert all(
        {"severity", "audience", "cluster"} <= rule["labels"].keys()
        for group in made
        for rule in group["rules"]
        if "alert" in rule
    )
    assert render_recordings()


def test_every_alert_carries_the_given_annotations_and_keeps_its_own(render: Render) -> None:
    given = {"annotations": {"team_page": "https://wiki/gpu", "summary": "mine", "dashboard": "https://grafana/d/gpu"}}
    made, own = (
        [rule for group in groups(render(alerts(**each)), "alerts") for rule in group["rules"] if "alert" in rule]
        for each in (given, {})
    )

    assert all(rule["annotations"]["team_page"] == "https://wiki/gpu" for rule in made)
    for name in ("summary", "dashboard"):
        assert [rule["annotations"][name] for rule in made] == [rule["annotations"][name] for rule in own]


def test_labels_of_alerts_are_prometheus_labels(render: Render, tmp_path: Path) -> None:
    alerts = {"labels": {"team": "GPU platform, {{ $labels.node }}"}}
    made = groups(render({"prometheusRule": {"enabled": True, "alerts": alerts}}), "alerts")

    assert promtool(made, tmp_path).returncode == 0
    rules = (rule for group in made for rule in group["rules"] if "alert" in rule)
    assert all(rule["labels"]["team"] == alerts["labels"]["team"] for rule in rules)


def test_dashboards_are_one_config_map_each(render: Render) -> None:
    maps = [each for each in render({"dashboards": {"enabled": True, "folder": "GPUs"}}) if each["kind"] == "ConfigMap"]
    # Grafana's sidecar writes every chart's into one folder, by these names: "node.json" could be anybody's.
    sources = {f"gpu-exporter-{path.name}": path for path in (ROOT / "dashboards/json").glob("*.json")}

    assert {name for each in maps for name in each["data"]} == set(sources)
    for each in maps:
        ((name, text),) = each["data"].items()
        assert json.loads(text) == json.loads(sources[name].read_text())
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"]["grafana_folder"] == "GPUs"
        assert len(text) < 900_000  # a ConfigMap holds 1 MiB


def test_dashboards_are_chosen_and_labelled(render: Render) -> None:
    given = {"enabled": True, "include": ["fleet", "node"], "labels": {"team": "gpu"}}
    maps = [each for each in render({"dashboards": given}) if each["kind"] == "ConfigMap"]

    assert {name for each in maps for name in each["data"]} == {"gpu-exporter-fleet.json", "gpu-exporter-node.json"}
    assert all({"team": "gpu", "grafana_dashboard": "1"}.items() <= each["metadata"]["labels"].items() for each in maps)


def alerts(**given: Any) -> Values:
    return {"prometheusRule": {"enabled": True, "alerts": given}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"rules": {"GpuAllocatedIdle": {"except": 'user!~"[a"'}}},
            'rules.GpuAllocatedIdle.except: !~"[a" is no regular',
        ),
        (
            {"overrides": [{"alert": "GpuAllocatedIdle", "where": 'a="(",b=~"("', "window": "2h"}]},
            'prometheusRule.alerts.overrides[0].where: =~"(" is no regular expression',
        ),
    ],
)
def test_pattern_that_prometheus_cannot_read_is_refused(given: Values, said: str, files: Files) -> None:
    """One rule with such a pattern keeps all rules from loading."""
    with pytest.raises(helm_python.HelmRenderError) as refused:
        files(alerts(**given))

    assert said in str(refused.value)
    assert len(str(refused.value).strip().splitlines()) == 1


@pytest.mark.parametrize("pattern", ["a-b+c", r"gpu\\.exporter|dcgm", r"a\\(b", r"say\"it"])
def test_pattern_that_prometheus_can_read_is_taken(pattern: str, render: Render) -> None:
    where = {"alert": "GpuAllocatedIdle", "where": f'user=~"{pattern}"', "window": "2h"}

    assert render(alerts(overrides=[where]))
