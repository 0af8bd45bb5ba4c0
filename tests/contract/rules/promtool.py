"""Runs cases through promtool, and reads what it says fired instead."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.contract.rules.case import Case
from tests.stack import ROOT, program

RULES = ROOT / "deploy/prometheus/rules"
EXPECTED = Path(__file__).with_name("expected.yaml")

NEEDS = {"GpuIncident": ("GpuIncidentNode",)}
"""Alerts that are made from others."""

COUNT_MINUTES = {"GpuOwnerWaste"}
"""Alerts that add up what is recorded each minute: hours are sums of minutes."""

Alerts = list[dict[str, dict[str, str]]]


def key(case: Case) -> str:
    return f"{case.alert}: {case.name}"


@functools.cache
def _committed() -> list[dict[str, Any]]:
    """The groups of recordings and alerts, in the order in which they depend on each other."""
    return [
        group
        for name in ("gpu-recording.yaml", "gpu-alerts.yaml")
        for group in yaml.safe_load((RULES / name).read_text())["groups"]
    ]


def only(names: Collection[str], given: Collection[str] = ()) -> dict[str, Any]:
    """The committed alerts in `names` and the recordings they need, less the series that are `given`.

    promtool evaluates every rule it is given, every minute.
    """
    wanted = set(names) | _recorded(names, given)
    # Copies: a test may change a rule, and the next one reads the committed rules again.
    groups = [
        group | {"rules": [dict(rule) for rule in group["rules"] if _name(rule) in wanted]} for group in _committed()
    ]
    return {"groups": [group for group in groups if group["rules"]]}


def _recorded(names: Collection[str], given: Collection[str]) -> set[str]:
    """The recordings that these alerts and their texts are made of, and those that these are made of."""
    by_name: dict[str, str] = {}
    for rule in (rule for group in _committed() for rule in group["rules"]):
        by_name[_name(rule)] = by_name.get(_name(rule), "") + _texts(rule)
    found: set[str] = set()
    queue = [text for name, text in by_name.items() if name in names]
    while queue:
        asked = set(_RECORDED.findall(queue.pop())) & by_name.keys() - found - set(given)
        found |= asked
        queue += [by_name[name] for name in asked]
    return found


def _texts(rule: Mapping[str, Any]) -> str:
    return "\n".join((rule["expr"], *rule.get("annotations", {}).values()))


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


def given(case: Case) -> frozenset[str]:
    """The recorded series that a case itself brings."""
    return frozenset(name for series in case.series if ":" in (name := series.partition("{")[0]))


_RECORDED = re.compile(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+")
_LONG = 240
"""Minutes from which on a case is evaluated every five: what lasts for days does not turn within one."""


def steps(cases: Sequence[Case]) -> Mapping[str, Sequence[Case]]:
    """The cases by how often their rules are evaluated: all rules of one file are evaluated alike."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        rarely = max(map(minutes_of, case.at)) >= _LONG and case.alert not in COUNT_MINUTES
        found.setdefault("5m" if rarely else "1m", []).append(case)
    return found


def minutes_of(at: str) -> float:
    units = {"d": 1440.0, "h": 60.0, "m": 1.0, "s": 1 / 60}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9]+)([dhms])", at))


def document(cases: Sequence[Case], expected: Mapping[str, Alerts], rules: Path, step: str) -> dict[str, Any]:
    """Promtool's test file for `cases`; only a case that fires has expected alerts."""
    return {
        "rule_files": [str(rules)],
        "evaluation_interval": step,
        "group_eval_order": [group["name"] for group in json.loads(rules.read_text())["groups"]],
        "tests": [_test(case, expected.get(key(case), [])) for case in cases],
    }


def _test(case: Case, alerts: Alerts) -> dict[str, Any]:
    return {
        "name": key(case),
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {"eval_time": at, "alertname": case.alert, "exp_alerts": alerts if case.fires else []} for at in case.at
        ],
    }


def run(cases: Sequence[Case], expected: Mapping[str, Alerts], folder: Path) -> str:
    """Promtool's complaint about `cases`; empty when it has none."""
    rules = folder / "rules.yaml"
    said = ""
    for recorded in sorted({given(case) for case in cases}, key=sorted):
        alike = [case for case in cases if given(case) == recorded]
        names = {name for case in alike for name in (case.alert, *NEEDS.get(case.alert, ()))}
        rules.write_text(json.dumps(only(names, recorded)))
        for step, timed in steps(alike).items():
            said += complaint(document(timed, expected, rules, step), folder)
    return said


def complaint(test: Mapping[str, Any], folder: Path) -> str:
    """What promtool says of a test file of rules; empty where it passes."""
    path = folder / "test.yaml"
    path.write_text(json.dumps(test))  # JSON is YAML, and written in a tenth of the time
    done = subprocess.run(
        [program("promtool"), "test", "rules", path],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, GOMAXPROCS="1"),
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@functools.cache
def load() -> dict[str, Alerts]:
    """What each case that fires must say."""
    return yaml.safe_load(EXPECTED.read_text()) or {}


_GOT = re.compile(r"got:(.*)", re.DOTALL)
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


def fired(complaint: str) -> Alerts:
    """The alerts promtool says it got, in the form it wants them expected."""
    found = _GOT.search(complaint)
    alerts: Alerts = []
    for line in found[1].splitlines() if found else ():
        pairs = {name: json.loads(text) for name, text in _PAIR.findall(line)}
        if "Labels:" in line:
            pairs.pop("alertname", None)
            alerts.append({"exp_labels": pairs})
        elif "Annotations:" in line:
            alerts[-1]["exp_annotations"] = pairs
    return alerts
