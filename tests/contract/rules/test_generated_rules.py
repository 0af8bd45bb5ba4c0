"""The committed rule files are what the declarations say, in every form they are shipped in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql_parser import parse

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.generate import ROOT, files
from deploy.prometheus.overrides import Override
from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import ALERTS, Settings, chart_values, render, render_recordings
from helm import pack
from tests.contract.rules.promtool import RULES
from tests.stack import program

MAX_ALERTS, MAX_EXPRESSION_LINES, MAX_EXPRESSION, MAX_TEXT = 36, 6, 1100, 4000
MARK = re.compile(r"<(?:(Gpu\w+)\.)?(\w+)>")


def test_committed_files_are_what_the_declarations_say() -> None:
    differ = [str(path) for path, made in files().items() if (ROOT / path).read_text() != made]

    assert differ == [], "run python -m deploy.prometheus.generate"


@pytest.mark.parametrize("path", sorted(RULES.glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_accepts_the_rules(path: Path) -> None:
    done = subprocess.run([program("promtool"), "check", "rules", path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_charts_copy_with_its_default_values_is_the_committed_file() -> None:
    packed = {path.name: text for path, text in pack.files().items()}
    values = yaml.safe_load(packed["alert-values.yaml"])
    shared = {"runbooks": "http://service/", "interval": "1m", "slowInterval": "5m"}

    def value(mark: re.Match[str]) -> str:
        return str(values[mark[1]][mark[2]] if mark[1] else shared[mark[2]])

    text = MARK.sub(value, packed["gpu-alerts.yaml"])

    made = yaml.safe_load(text)
    for rule in (rule for group in made["groups"] for rule in group["rules"] if "alert" in rule):
        if rule["keep_firing_for"] == "0s":
            del rule["keep_firing_for"]  # as the chart's template does

    assert without_runbooks(made) == without_runbooks(yaml.safe_load((RULES / "gpu-alerts.yaml").read_text()))


def without_runbooks(made: dict[str, Any]) -> dict[str, Any]:
    """The chart's lead to its Service."""
    for rule in (rule for group in made["groups"] for rule in group["rules"] if "alert" in rule):
        assert rule["labels"]["runbook"] in rule["annotations"].pop("runbook_url")
    return made


def test_settings_change_threshold_duration_severity_and_switch() -> None:
    values: dict[str, dict[str, float | str]] = {
        "GpuThermalThrottling": {"max_throttled_ratio": 0.5, "for": "1h", "severity": "critical", "keepFiringFor": "2h"}
    }

    rules = {
        rule["alert"]: rule
        for group in render(Settings(values=values, disabled={"GpuLost"}))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }

    changed = rules["GpuThermalThrottling"]
    assert ") > 0.5\n" in changed["expr"]
    assert (changed["for"], changed["keep_firing_for"], changed["labels"]["severity"]) == ("1h", "2h", "critical")
    assert "`0.5` | humanizePercentage" in changed["annotations"]["description"]
    assert set(rules) == {alert.name for alert in ALERTS} - {"GpuLost"}


def test_nodes_are_part_of_no_incident_where_nobody_is_told_of_it() -> None:
    made = render(Settings(disabled={"GpuIncident"}))

    names = {rule["alert"] for group in made["groups"] for rule in group["rules"] if "alert" in rule}
    assert names == {alert.name for alert in ALERTS} - {"GpuIncident", "GpuIncidentNode"}


@pytest.mark.parametrize(
    "settings",
    [Settings(values={"GpuLost": {"limit": 1}}), Settings(values={"Gpu": {"for": "1m"}}), Settings(disabled={"X"})],
)
def test_setting_nobody_knows_is_refused(settings: Settings) -> None:
    with pytest.raises(ValueError, match="unknown"):
        render(settings)


@pytest.mark.parametrize("interval", ["5m", "4m60s", "1h"])
def test_interval_in_which_prometheus_forgets_what_alerts_stood_on_is_refused(interval: str) -> None:
    with pytest.raises(ValueError, match=f"more often than every 5m, and not every {interval}"):
        render(Settings(interval=interval))


def test_interval_up_to_that_is_taken() -> None:
    groups = render(Settings(interval="4m59s"))["groups"]

    assert {group["interval"] for group in groups} == {"4m59s", "5m"}


def test_alerts_are_few_and_all_expressions_can_be_read() -> None:
    rules = [rule for group in (*render()["groups"], *render_recordings()["groups"]) for rule in group["rules"]]

    assert len([rule for rule in rules if "alert" in rule]) <= MAX_ALERTS
    assert [rule for rule in rules if len(rule["expr"].splitlines()) > MAX_EXPRESSION_LINES] == []
    assert [rule for rule in rules if len(rule["expr"]) > MAX_EXPRESSION] == []
    texts = [text for rule in rules for text in rule.get("annotations", {}).values()]
    assert [text for text in texts if len(text) > MAX_TEXT] == []


def test_every_alert_says_in_one_sentence_what_it_means() -> None:
    rules = [rule for group in render()["groups"] for rule in group["rules"] if "alert" in rule]

    assert all(re.fullmatch(r"[A-Z][^.]+\.", rule["annotations"]["meaning"]) for rule in rules)


_OF_UNIT = {
    Unit.RATIO: "_ratio",
    Unit.BYTES: "_bytes",
    Unit.CELSIUS: "_celsius",
    Unit.SECONDS: "_seconds",
    Unit.PER_SECOND: "_per_second",
}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_thresholds_have_their_unit_in_their_name(alert: Alert) -> None:
    assert [param.name for param in alert.params if not param.name.endswith(_OF_UNIT.get(param.unit, ""))] == []


def test_every_alert_has_a_switch_and_its_durations_in_the_charts_values() -> None:
    values = chart_values()

    assert set(values) == {alert.name for alert in ALERTS}
    assert all({"enabled", "severity", "for", "keepFiringFor"} <= set(value) for value in values.values())


def test_names_are_given_once() -> None:
    alerts = [alert.name for alert in ALERTS]
    records = [rule.record for group in GROUPS for rule in group.rules]

    assert len(set(alerts)) == len(alerts)
    assert len(set(records)) == len(records)


@pytest.mark.parametrize("rule", [rule for group in GROUPS for rule in group.rules], ids=lambda rule: rule.record)
def test_recording_rule_is_promql(rule: object) -> None:
    parse(rule.expr)


def alert(**changed: object) -> Alert:
    fields = {
        "name": "GpuTest",
        "audience": Audience.ONCALL,
        "severity": Severity.INFO,
        "expr": "gpu_up == <limit>",
        "meaning": "It means this.",
        "summary": "s",
        "description": "A sentence.",
        "title": "A test",
        "params": (Param("limit", 0, Unit.COUNT, "Limit."),),
    }
    return Alert(**(fields | changed))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"name": "gpu_test"}, "GpuCamelCase"),
        ({"for_": "soon"}, "no duration"),
        ({"keep_firing_for": "5"}, "no duration"),
        ({"expr": "gpu_up == <limits>"}, "does not declare"),
        ({"expr": "gpu_up == 0"}, "does not use"),
        ({"description": "no sentence"}, "sentence"),
        ({"title": "A title of too many words for a row"}, "a title of 4 to 28"),
        ({"meaning": "Two sentences. Or more."}, "one sentence of what it means"),
    ],
)
def test_alert_declared_wrong_is_refused(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        alert(**changed)


def test_owners_can_be_left_alone_by_class_namespace_and_account() -> None:
    owners = [alert for alert in ALERTS if alert.audience is Audience.OWNER]
    only = 'workload_namespace=~"lab|demo"'
    rendered = render(Settings(values={alert.name: {"except": only} for alert in owners}))
    exprs = {rule["alert"]: rule["expr"] for group in rendered["groups"] for rule in group["rules"] if "alert" in rule}

    assert owners
    unless = f"unless on (cluster, workload) last_over_time(gpu_workload_info{{{only}}}[10m])"
    assert [alert.name for alert in owners if unless not in exprs[alert.name]] == []


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (Override(alert="GpuLost", where='class="batch"'), 'GpuLost.where where class="batch"'),
        (
            Override(alert="GpuAllocatedIdle", where='class="batch"', values={"share": 1}),
            "GpuAllocatedIdle.share where class",
        ),
    ],
)
def test_override_of_what_is_not_there_is_refused(override: Override, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        render(Settings(overrides=[override]))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_texts_say_states_as_everything_else_calls_them(alert: Alert) -> None:
    """`Waits for data` and never `wait_data`: the one table of words is the ledger's."""
    shown = re.findall(r"{{-? *(?!if|else|with|range|end)([^}]*)}}", alert.summary + alert.description)

    raw = {"$labels.state", ".Labels.state", "$labels.check", "$labels.action", ".Labels.reason"}
    assert not raw & {words.strip() for words in shown}


DEAR = {"GpuTargetsGone"}
"""They ask for days of every exporter; nobody has lost work by what they tell, and they wait for minutes anyway."""


def test_what_pages_and_what_correlates_it_is_evaluated_every_minute() -> None:
    groups = {rule["alert"]: group for group in render()["groups"] for rule in group["rules"] if "alert" in rule}

    pages = [alert for alert in ALERTS if alert.severity is Severity.CRITICAL]
    assert {alert.name for alert in pages if groups[alert.name]["interval"] != "1m"} == DEAR
    assert {groups[name]["interval"] for name in DEAR} == {"5m"}
    assert {groups[alert.name]["interval"] for alert in ALERTS if alert.for_ == "0s"} == {"1m"}
    assert {groups[name]["interval"] for name in ("GpuAllocatedIdle", "GpuPcieDegraded")} == {"5m"}
    assert {groups[name]["name"] for name in ("GpuRecoveryActionNeeded", "GpuLost", "GpuIncident")} == {
        "gpu-hardware.alerts"
    }


def test_alerts_that_are_evaluated_rarely_miss_nothing_in_between() -> None:
    """What is measured over less than the time between two evaluations is read at each of them only."""
    minutes = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}
    windows = {
        (alert.name, float(str(param.default)[:-1]) * minutes[str(param.default)[-1]])
        for alert in ALERTS
        if alert.slow
        for param in alert.params
        if param.unit is Unit.DURATION
    }

    assert windows
    assert {(name, window) for name, window in windows if window < 5} == set()
