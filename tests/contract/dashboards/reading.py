"""The committed dashboards as tests read them: panels, queries, links, variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "dashboards" / "json"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def _constants() -> dict[str, str]:
    """Return the texts that expressions name by a hidden text box."""
    boards = (json.loads((FOLDER / f"{name}.json").read_text()) for name in NAMES)
    variables = (each for board in boards for each in board["templating"]["list"])
    return {each["name"]: each["query"] for each in variables if each["type"] == "textbox" and each.get("hide")}


CONSTANTS = _constants()

DOCS = "${docs}"
_STAND_INS = (
    (re.compile(r"\$__(rate_interval|interval)\b"), "5m"),
    (re.compile(r"\$__range_s\b"), "21600"),
    (re.compile(r"\$__range\b"), "6h"),
    (re.compile(r"\$changed"), "24"),
    *((re.compile(rf"\${name}\b"), text) for name, text in CONSTANTS.items()),
)
_VARIABLE = re.compile(r"\$(?:\{)?(?!__)([a-z_]+[a-z0-9_]*)")


@dataclass(frozen=True)
class Query:
    dashboard: str
    panel: str
    ref: str
    expr: str
    legend: str
    unit: str
    """Of the panel, or of the column that this query fills."""
    instant: bool

    @property
    def promql(self) -> str:
        """With durations and numbers in place of Grafana's variables; those inside quotes are text already."""
        return stand_in(self.expr)

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel} / {self.ref}: {self.expr}"


def stand_in(expr: str) -> str:
    for pattern, text in _STAND_INS:
        expr = pattern.sub(text, expr)
    return expr


@cache
def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def panels(name: str) -> Iterator[dict[str, Any]]:
    """All panels but the rows."""
    for panel in load(name)["panels"]:
        inside = panel.get("panels") or []
        yield from (each for each in (panel, *inside) if each["type"] != "row")


def queries(name: str) -> list[Query]:
    return [query for panel in panels(name) for query in _of_panel(name, panel)]


def every_query() -> list[Query]:
    return [query for name in NAMES for query in queries(name)]


def _of_panel(name: str, panel: dict[str, Any]) -> Iterator[Query]:
    for target in panel.get("targets") or []:
        unit = column_unit(panel, target["refId"]) if panel["type"] == "table" else default_unit(panel)
        yield Query(
            name,
            panel["title"],
            target["refId"],
            target["expr"],
            target.get("legendFormat", ""),
            unit,
            target.get("instant") is True,
        )


def default_unit(panel: dict[str, Any]) -> str:
    return str(panel["fieldConfig"]["defaults"].get("unit", ""))


def column_unit(panel: dict[str, Any], ref: str) -> str:
    """The unit of the column a query fills; empty where it only gives a label."""
    names = renamed(panel)
    title = names.get(f"Value #{ref}") or (names.get("Value") if ref == "A" else None)
    return str(properties(panel, title).get("unit", "")) if title else ""


def renamed(panel: dict[str, Any]) -> dict[str, str]:
    """The titles of a table's columns, by the field each shows."""
    found: dict[str, str] = {}
    for transformation in panel.get("transformations") or []:
        found |= transformation["options"].get("renameByName") or {}
    return found


def properties(panel: dict[str, Any], title: str) -> dict[str, Any]:
    """The overrides of one field."""
    return {
        each["id"]: each["value"]
        for override in panel["fieldConfig"].get("overrides") or []
        if override["matcher"] == {"id": "byName", "options": title}
        for each in override["properties"]
    }


def links(panel: dict[str, Any]) -> list[str]:
    """The URLs of all data links of a panel."""
    found = list(panel["fieldConfig"]["defaults"].get("links") or [])
    for override in panel["fieldConfig"].get("overrides") or []:
        found += [link for each in override["properties"] if each["id"] == "links" for link in each["value"]]
    return [link["url"] for link in found]


def board_links(panel: dict[str, Any]) -> list[str]:
    """Those that lead to other dashboards; the rest leads to the documentation."""
    return [url for url in links(panel) if not url.startswith(DOCS)]


def variables(name: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in load(name)["templating"]["list"]}


def variables_used(text: str) -> set[str]:
    return set(_VARIABLE.findall(text))
