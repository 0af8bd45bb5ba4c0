"""What a person reads: panels printed by Grafana's own code, and the numbers in its texts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.prometheus.render import ALERTS
from tests.panels.asked import Answered
from tests.stack import ROOT

MODULES = ROOT / ".cache/grafana-data/node_modules"
"""`make setup-panels` puts Grafana's library there."""
Texts = dict[str, dict[str, str]]
_NUMBER = re.compile(r"(?P<sign>-?)(?P<dollar>\$?)(?P<digits>[\d,]+(?:\.(?P<decimals>\d+))?)(?P<unit>.*)", re.DOTALL)
_UNITS = {
    "none": {"": 1},
    "$": {"": 1},
    "%": {"%": 0.01},
    "GPU h": {" GPU h": 1},
    "kWh": {" kWh": 1},
    "°C": {" °C": 1},
    "W": {" W": 1, " kW": 1e3},
    "J": {" mJ": 1e-3, " J": 1, " kJ": 1e3},
    "Hz": {" MHz": 1e6, " GHz": 1e9},
    "B": {" B": 1, " MiB": 2**20, " GiB": 2**30},
    "B/s": {" B/s": 1, " MB/s": 1e6, " GB/s": 1e9},
    "s": {" ms": 1e-3, " s": 1, " mins": 60, " min": 60, " hours": 3600, " hour": 3600},
    "/s": {"": 1, " c/s": 1, " ops/s": 1, "K ops/s": 1e3},
}
"""How Grafana writes the units of quantities, with what one of it is worth."""
_UNGROUPED = 1000
_NAMES = {alert.meaning: alert.name for alert in ALERTS}


class MisprintError(Exception):
    """A text that is no number of the unit."""


def why_not() -> str:
    """Why panels cannot be printed here; empty where they can."""
    if shutil.which("node") is None:
        return "node is missing: what Grafana makes of the answers is not tested"
    return "" if MODULES.is_dir() else f"{MODULES} is missing: run make setup-panels"


def printed(panels: Sequence[Answered], keys: Sequence[tuple[str, ...]]) -> list[Texts]:
    """The text of each cell, by row and title; rows are named by the values of the key's columns, not by its texts."""
    command = ["node", str(Path(__file__).with_name("print.cjs"))]
    asked = json.dumps([_asked(each) for each in panels])
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return [_texts(rows, key or ("name",)) for rows, key in zip(json.loads(done.stdout), keys, strict=True)]


def _texts(rows: list[dict[str, tuple[str, str]]], key: tuple[str, ...]) -> Texts:
    return {
        "/".join(_value(row, title) for title in key): {each: text for each, (_, text) in row.items()} for row in rows
    }


def _value(row: dict[str, tuple[str, str]], title: str) -> str:
    """The value of a key's column. The name of an alert is hidden: the sentence beside it stands for it."""
    return row[title][0] if title in row else _NAMES[row["Alert"][0]]


def _asked(each: Answered) -> dict[str, Any]:
    series = {
        ref: [
            {
                "labels": row["metric"],
                "legend": each.legend(ref, row["metric"]),
                "points": [[float(at), float(value)] for at, value in row.get("values") or [row["value"]]],
            }
            for row in rows
        ]
        for ref, rows in each.series.items()
    }
    return {"panel": each.panel, "series": series}


def number_in(text: str, unit: str) -> tuple[float, float]:
    """The number that a text says, and how much its last digit is worth. Raises MisprintError."""
    found = _NUMBER.fullmatch(text)
    worth = found and _UNITS[unit].get(found["unit"])
    if found is None or worth is None or (unit == "$") != bool(found["dollar"]):
        raise MisprintError(f"{text!r} is no number in {unit}")
    amount = float(found["digits"].replace(",", ""))
    if not worth or (unit in {"none", "/s"} and amount >= _UNGROUPED and "," not in found["digits"]):
        raise MisprintError(f"{text!r} has no groups of digits")
    return (-amount if found["sign"] else amount) * worth, worth * 10 ** -len(found["decimals"] or "")
