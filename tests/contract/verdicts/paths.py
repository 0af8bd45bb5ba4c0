"""The five ways by which people and programs hear of a node's findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from pathlib import Path

from deploy.prometheus.alerts_exporter import EXPORTER
from deploy.prometheus.alerts_fabric import SWITCH
from deploy.prometheus.alerts_hardware import HARDWARE
from exporter.exposition.page import Renderer
from exporter.faults.evaluate import STAGES, Report, evaluate
from exporter.faults.rule import Facts, Limits, from_blocks, merged
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.reading import from_json, to_json
from exporter.web import status
from exporter.web.config import WebConfig
from exporter.web.history import GpuHistory
from tests.contract.rules.case import NODE
from tests.contract.rules.promtool import complaint, only
from tests.contract.verdicts.node import Node

_SERIES = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_GOT = re.compile(r"alertname=\"(\w+)\"")
_ITEM = re.compile(r"<li><b [^>]*>(?P<verdict>\w+)</b> (?P<summary>.*?)<br>", re.DOTALL)
_AGE = re.compile(r"\d+ (?:s|min|h) ago")
_OF_EXPORTER = {"GpuSampleStale", "GpuDriverUnavailable", "GpuSourceFailing"}
_ALERTS = {alert.name: alert.expr for alert in (*HARDWARE, SWITCH)}
_ALERTS |= {alert.name: alert.expr for alert in EXPORTER if alert.name in _OF_EXPORTER}
_ASKED = " ".join(_ALERTS.values())
"""Series that no alert asks for are left out: promtool is slow with many."""
_GROWING, _FROZEN = "gpu_exporter_sampling_cycles_total", "gpu_throttled_seconds_total"
"""Counters stand still in the hour that Prometheus sees, but for the first; the second would deny its flag."""


def _evaluated(facts: Facts) -> Report:
    return evaluate(facts, Limits(), STAGES["periodic"].left_out)


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
    return _named(_evaluated(from_json(to_json(from_blocks(own.snapshot.blocks, own.now)), own.now)))


def by_url(rig: Node) -> set[tuple[str, str]]:
    """What `gpu-exporter check --check.url` says."""
    return _named(_evaluated(parse(text(rig), rig.now)))


def by_page(rig: Node) -> set[tuple[str, str]]:
    """What the status page shows: its verdict words, by the findings whose sentences they stand before."""
    page = status.render_status_page("n1", WebConfig(), rig.snapshot, GpuHistory())
    shown = {(_AGE.sub("", unescape(item["summary"])), item["verdict"]) for item in _ITEM.finditer(page)}
    findings = _evaluated(parse(text(rig), rig.now)).findings
    known = {_AGE.sub("", f.summary): f.rule for f in (*findings, *merged(findings))}
    return {(known.get(summary, summary), verdict) for summary, verdict in shown}


def series_of(rig: Node) -> Mapping[str, str]:
    """What Prometheus has of the page for an hour, with the labels of its target."""
    found: dict[str, str] = {}
    for line in text(rig).splitlines():
        match = _SERIES.match(line)
        if match and match["name"] in _ASKED and match["name"] != _FROZEN:
            labels = ",".join(filter(None, (match["labels"], NODE)))
            found[f"{match['name']}{{{labels}}}"] = f"{float(match['value'])!r}{'+12' * (match['name'] == _GROWING)}x60"
    return {**found, f"up{{{NODE}}}": "1x60", f"target:gpu_exporter:last{{{NODE}}}": "1x60"}


def alerts(nodes: Mapping[str, Node], folder: Path) -> Mapping[str, set[str]]:
    """Return the alerts to on-call that fire after an hour on each of these nodes."""
    rules = folder / "rules.yaml"
    rules.write_text(json.dumps(only(set(_ALERTS))))
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in series_of(rig).items()],
            "promql_expr_test": [
                {"expr": query, "eval_time": "60m", "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": -1}]}
            ],
        }
        for name, rig in nodes.items()
    ]
    said = complaint({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}, folder)
    return dict(_by_test(said, nodes))


def _by_test(said: str, nodes: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    for name in nodes:
        rest = said.partition(f'exp: {{alertname="{name}"}} -1E+00')[2]
        yield name, set(_GOT.findall(rest.partition("got:")[2].partition("\n")[0]))
