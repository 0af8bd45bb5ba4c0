"""Every alert has its runbook, at the address the alert gives, with all its parts and queries that can be asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from promql_parser import parse

from deploy.prometheus.declaration import Alert, Unit
from deploy.prometheus.recordings_common import STATE_INDEX
from deploy.prometheus.render import ALERTS, RUNBOOKS, Settings, render
from deploy.prometheus.states import LOST
from exporter.collectors.xid_catalogue import class_of
from tests.contract.dashboards.inference import labels, selectors
from tests.contract.dashboards.vocabulary import METRICS
from tests.contract.rules import promtool
from tests.stack import ROOT

PAGES = ROOT / "docs/runbooks"
SECTIONS = ["Check", "Repair", "Details", "Escalate"]
"""Repair is left out where the first line of the page says all of it."""
MAX_WORDS_BEFORE_QUERY = 150
QUERY = re.compile(r"```promql\n(.*?)```|`([^`\n]*\b(?:gpu_|ALERTS|up\{)[^`\n]*)`", re.DOTALL)
LINK = re.compile(r"\]\(([a-z]+\.md)\)")


_ALERTS = {"ALERTS", "ALERTS_FOR_STATE"}
"""Their labels differ by alert."""
FIGURE = re.compile(r"\b(\d+ (?:%|minute|hour|day))")
FIXED = {
    "GpuDriverSkew": {"15 minute"},  # last_over_time(gpu_driver_info[15m])
    "GpuDriverUnavailable": {"2 minute"},  # helm/gpu-exporter/values.yaml: driver.exitAfter
    "GpuExportersDown": {"15 minute"},  # place:gpu_exporters_down:count
    "GpuIncident": {"15 minute"},  # node:gpu_critical_new:last
    "GpuNetworkPortDegraded": {"5 minute"},  # exporter/host/network_ports.py
    "GpuNodeMaintenance": {"30 minute"},  # node:gpu_kube_node_new:last
    "GpuPerformanceLimited": {"90 %"},  # exporter/faults/reference.py
    "GpuSampleStale": {"3 minute"},  # exporter/faults/latch.py
    "GpuXidWorkflow": {"6 hour"},  # exporter/faults/causes.py
}
"""Figures that no parameter of the alert sets, and where each is set."""


def page(name: str) -> str:
    return (PAGES / f"{name.lower()}.md").read_text()


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS])
def test_runbook_has_every_part_in_order_and_none_is_empty(name: str) -> None:
    head, *parts = re.split(r"^## ", page(name), flags=re.MULTILINE)

    assert head.startswith(f"# {name}\n\n**Fix first**: ")
    before, query = head.split("<details><summary>Query and parameters</summary>\n")
    assert before.index("**Fix first**") < before.index("**Meaning**")
    assert len(before.split()) <= MAX_WORDS_BEFORE_QUERY
    assert "```promql\n" in query
    found = [part.splitlines()[0] for part in parts]
    assert found == [section for section in SECTIONS if section != "Repair" or section in found]
    assert all("".join(part.splitlines()[1:]).strip() for part in parts)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_figures_of_a_page_are_those_of_its_rule(alert: Alert) -> None:
    text = page(alert.name)
    said = text.partition("**Meaning**")[2].partition("\n")[0] + text.partition("## Details")[2].partition("## ")[0]
    values = [f"{param.default}" for param in alert.params if param.unit is Unit.DURATION]
    known = {value.replace("m", " minute").replace("h", " hour").replace("d", " day") for value in values}
    known |= {f"{param.default:.0%}".replace("%", " %") for param in alert.params if param.unit is Unit.RATIO}

    assert set(FIGURE.findall(said)) - known == FIXED.get(alert.name, set())


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS])
def test_address_in_an_alert_is_that_of_its_page(name: str) -> None:
    url = texts(name, Settings())["runbook_url"]

    assert RUNBOOKS.format(name=name.lower()) in url
    assert f"http://{{{{ $labels.instance }}}}/runbooks/{name.lower()}{{{{ else }}}}" in url


def test_alert_leads_to_its_exporter_unless_that_is_down_or_has_no_port(tmp_path: Path) -> None:
    """The exporter at c:9836 fell silent with a lost GPU; n1 is an instance that was relabelled to a node."""
    rules = promtool.only({"GpuLost"})
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        rule["annotations"] = {"runbook_url": rule["annotations"]["runbook_url"]}
    (tmp_path / "rules.yaml").write_text(json.dumps(rules))
    series = {}
    for instance, up in {"a:9836": "1x20", "n1": "1x20", "c:9836": "1x10 0x10"}.items():
        target = f'job="j", cluster="c", instance="{instance}"'
        fault = f'{{{target}, uuid="U", gpu="0", fault="lost", action="restart"}}'
        series |= {f"up{{{target}}}": up, f"gpu_exporter_build_info{{{target}}}": up.replace("0x10", "_x10")}
        series |= {f"gpu_fault_timestamp_seconds{fault}": up.replace("0x10", "_x10")}
    asked = {"eval_time": "18m", "alertname": "GpuLost", "exp_alerts": []}
    case = {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()]}

    said = promtool.complaint(
        {
            "rule_files": [str(tmp_path / "rules.yaml")],
            "group_eval_order": [group["name"] for group in rules["groups"]],
            "tests": [case | {"alert_rule_test": [asked]}],
        },
        tmp_path,
    )

    assert {
        alert["exp_labels"]["instance"]: alert["exp_annotations"]["runbook_url"] for alert in promtool.fired(said)
    } == {
        "a:9836": "http://a:9836/runbooks/gpulost",
        "n1": RUNBOOKS.format(name="gpulost"),
        "c:9836": RUNBOOKS.format(name="gpulost"),
    }


def texts(name: str, settings: Settings) -> Mapping[str, str]:
    """The annotations of an alert."""
    rules = (rule for group in render(settings)["groups"] for rule in group["rules"])
    return next(rule["annotations"] for rule in rules if rule.get("alert") == name)


def test_address_can_be_a_site_s_own() -> None:
    annotations = texts("GpuThermalThrottling", Settings(runbooks="https://wiki.example.org/{name}"))

    assert annotations["runbook_url"] == "https://wiki.example.org/gputhermalthrottling"


def test_there_is_no_page_without_an_alert() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {alert.runbook for alert in ALERTS}


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_queries_parse_and_links_lead_somewhere(path: Path) -> None:
    text = path.read_text()

    for block, span in QUERY.findall(text):
        parse(block or span)
    assert all((PAGES / link).is_file() for link in LINK.findall(text))


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_queries_ask_for_labels_that_series_have(path: Path) -> None:
    checks = path.read_text().partition("<!-- rule: end -->")[2]
    nodes = [parse(block or span) for block, span in QUERY.findall(checks)]

    for node in (node for node in nodes if {each.name for each in selectors(node)} <= METRICS.keys() - _ALERTS):
        labels(node)


def _codes(cell: str) -> set[int]:
    """XIDs a table's cell names: `46`, or `144-151`."""
    found: set[int] = set()
    for first, last in re.findall(r"\b([0-9]{1,3})(?:-([0-9]{1,3}))?\b", re.sub(r"NVLink [0-9]", "", cell)):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_classes_in_the_runbook_are_those_of_the_catalogue() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page("GpuRecoveryActionNeeded"), re.MULTILINE)

    named = {(xid, class_) for class_, cell in rows for xid in _codes(cell)}

    assert len(named) > 30
    assert {(xid, class_of(xid)) for xid, _ in named} == named


@pytest.mark.parametrize("state", LOST)
def test_low_utilization_has_advice_for_every_lost_state(state: str) -> None:
    asked = texts("GpuUnderutilized", Settings())["description"]
    words = [labels for labels, _ in STATE_INDEX.rules if labels["state"] == state]

    assert f"|{state}|" in re.sub('[~"]', "|", asked)
    assert [set(labels) for labels in words if labels["title"] and labels["advice"]] == [{"state", "title", "advice"}]
    assert f"| `{state}` |" in page("GpuUnderutilized")
