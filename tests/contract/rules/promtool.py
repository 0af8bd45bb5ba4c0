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

Alerts = list[dict[str, dict[str, str]]]


def key(case: Case) -> str:
    return f"{case.alert}: {case.name}"


@functools.cache
def _committed() -> list[dict[str, Any]]:
    """The groups of alerts."""
    groups: list[dict[str, Any]] = yaml.safe_load((RULES / "gpu-alerts.yaml").read_text())["groups"]
    return groups


def only(names: Collection[str]) -> dict[str, Any]:
    """The committed alerts, less those not in `names`: promtool evaluates every rule it is given, every minute."""
    groups = _committed()
    kept = [group | {"rules": [rule for rule in group["rules"] if rule["alert"] in names]} for group in groups]
    return {"groups": [group for group in kept if group["rules"]]}


_LONG = 240
"""Minutes from which on a case is evaluated every five: what lasts for days does not turn within one."""


def steps(cases: Sequence[Case]) -> Mapping[str, Sequence[Case]]:
    """The cases by how often their rules are evaluated: all rules of one file are evaluated alike."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault("5m" if max(map(minutes_of, case.at)) >= _LONG else "1m", []).append(case)
    return found


def minutes_of(at: str) -> float:
    units = {"d": 1440.0, "h": 60.0, "m": 1.0, "s": 1 / 60}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9]+)([dhms])", at))


def document(cases: Sequence[Case], expected: Mapping[str, Alerts], rules: Path, step: str) -> dict[str, Any]:
    """Promtool's test file for `cases`; only a case that fires has expected alerts."""
    return {
        "rule_files": [str(rules)],
        "evaluation_interval": step,
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
    rules.write_text(json.dumps(only({name for case in cases for name in (case.alert, *NEEDS.get(case.alert, ()))})))
    said = ""
    for step, alike in steps(cases).items():
        said += complaint(document(alike, expected, rules, step), folder)
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
