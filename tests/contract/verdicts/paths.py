"""The five ways by which people and programs hear of a node's findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from pathlib import Path

import yaml

from deploy.prometheus.alerts_exporter import EXPORTER
from deploy.prometheus.alerts_fabric import FABRIC
from deploy.prometheus.alerts_hardware import HARDWARE
from exporter.exposition.page import Renderer
from exporter.faults.evaluate import STAGES, Report, evaluate
from exporter.faults.rule import Facts, from_blocks, merge_findings
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.reading import from_json, to_json
from exporter.web import status
from exporter.web.config import WebConfig
from exporter.web.history import GpuHistory
from tests.contract.alertmanager.example import CONFIG
from tests.contract.rules.case import NODE
from tests.contract.rules.promtool import complaint, only
from tests.contract.verdicts.node import Node

_SERIES = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_GOT = re.compile(r"\{([^}]*)\}")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
Labels = Mapping[str, str]
_ITEM = re.compile(r"<li><b [^>]*>(?P<verdict>\w+)</b> (?P<summary>.*?)<br>", re.DOTALL)
_AGE = re.compile(r"\d+ (?:s|min|h) ago")
_OF_EXPORTER = {"GpuSampleStale", "GpuDriverUnavailable", "GpuSourceFailing"}
_ALERTS = {alert.name: alert.expr for alert in (*HARDWARE, *FABRIC)}
_ALERTS |= {alert.name: alert.expr for alert in EXPORTER if alert.name in _OF_EXPORTER}
_ASKED = " ".join(_ALERTS.values())
"""Series that no alert asks for are left out: promtool is slow with many."""
_GROWING, _FROZEN = "gpu_exporter_sampling_cycles_total", "gpu_throttled_seconds_total"
"""Counters stand still in the hour that Prometheus sees, but for the first; the second would deny its flag."""


def _evaluated(facts: Facts, rig: Node) -> Report:
    return evaluate(facts, rig.site.limits, STAGES["periodic"].left_out)


def _named(report: Report) -> set[tuple[str, str]]:
    return {(finding.rule, finding.verdict.word) for finding in report.findings}


def text(rig: Node) -> str:
    return Renderer().render(rig.snapshot.blocks, "")[1].decode()


def by_metrics(rig: Node) -> set[tuple[str, str]]:
    """What the exporter publishes."""
    series = from_blocks(rig.snapshot.blocks, rig.now).of("gpu_finding")
    return {(each.labels["finding"], each.labels["severity"]) for each in series}


def by_check(rig: Node) -> set[tuple[str, str]]:
    """What `gpu-exporter check` says by the driver: an exporter of its own, of one cycle, over the same state file."""
    own = rig.restarted(read_only=True)
    own.cycles(1)
    return _named(_evaluated(from_json(to_json(from_blocks(own.snapshot.blocks, own.now)), own.now), rig))


def by_url(rig: Node) -> set[tuple[str, str]]:
    """What `gpu-exporter check --check.url` says."""
    return _named(_evaluated(parse(text(rig), rig.now), rig))


def by_page(rig: Node) -> set[tuple[str, str]]:
    """What the status page shows: its verdict words, by the findings whose sentences they stand before."""
    page = status.render_status_page("n1", WebConfig(), rig.snapshot, GpuHistory())
    shown = {(_AGE.sub("", unescape(item["summary"])), item["verdict"]) for item in _ITEM.finditer(page)}
    findings = _evaluated(parse(text(rig), rig.now), rig).findings
    known = {_AGE.sub("", f.summary): f.rule for f in (*findings, *merge_findings(findings))}
    return {(known.get(summary, summary), verdict) for summary, verdict in shown}


def series_of(page: str) -> Mapping[str, str]:
    """Series of a page over an hour, with the labels of its target."""
    found: dict[str, str] = {}
    for line in page.splitlines():
        match = _SERIES.match(line)
        if match and match["name"] in _ASKED and match["name"] != _FROZEN:
            labels = ",".join(filter(None, (match["labels"], NODE)))
            found[f"{match['name']}{{{labels}}}"] = f"{float(match['value'])!r}{'+12' * (match['name'] == _GROWING)}x60"
    return {**found, f"up{{{NODE}}}": "1x60", f"target:gpu_exporter:last{{{NODE}}}": "1x60"}


def alerts(pages: Mapping[str, str], folder: Path) -> Mapping[str, set[str]]:
    """Return the alerts of which Alertmanager tells on-call, after an hour of each of these pages."""
    rules = folder / "rules.yaml"
    rules.write_text(json.dumps(only(set(_ALERTS))))
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in series_of(page).items()],
            "promql_expr_test": [
                {
                    "expr": 'ALERTS{alertstate="firing"}',
                    "eval_time": "60m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": -1}],
                }
            ],
        }
        for name, page in pages.items()
    ]
    said = complaint({"rule_files": [str(rules)], "evaluation_interval": "4m", "tests": tests}, folder)
    return dict(_by_test(said, pages))


def _by_test(said: str, names: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    for name in names:
        rest = said.partition(f'exp: {{alertname="{name}"}} -1E+00')[2]
        got = rest.partition("got:")[2].partition("\n")[0]
        firing = [dict(_LABEL.findall(labels)) for labels in _GOT.findall(got)]
        yield name, {each["alertname"] for each in firing if not _is_inhibited(each, firing)}


def _is_inhibited(alert: Labels, firing: Iterable[Labels]) -> bool:
    """Return whether the example of Alertmanager's configuration mutes an alert, for what else fires."""
    return any(
        _matches(alert, rule["target_matchers"])
        and _matches(source, rule["source_matchers"])
        and all(alert.get(name) == source.get(name) for name in rule["equal"])
        for rule in yaml.safe_load(CONFIG.read_text())["inhibit_rules"]
        for source in firing
    )


def _matches(alert: Labels, matchers: Iterable[str]) -> bool:
    found = (_MATCHER.fullmatch(each) for each in matchers)
    return all(
        bool(re.fullmatch(each[3] if "~" in each[2] else re.escape(each[3]), alert.get(each[1], "")))
        == (each[2][0] != "!")
        for each in found
        if each
    )
