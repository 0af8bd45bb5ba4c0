"""The three hand-written tables: what is true of the cluster, which panel shows what of it, and in which words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.panels.series import END

TOLERANCE = 0.01
"""Of a number: rates over some scrapes are not exact."""
_NUMBER = re.compile(r"(?P<amount>[-+.\de]+)(?: (?P<prefix>[MG]i))?(?: ~ (?P<percent>\d+)%)?")
_PREFIXES = {None: 1, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class Truth:
    """One value. As text it is what a label says; `unit` is that of its quantity."""

    text: str
    unit: str

    @property
    def number(self) -> float:
        if self.text.startswith("end - "):
            return (END - float(self.text[6:])) * 1000
        found = _NUMBER.fullmatch(self.text)
        assert found, f"not a number: {self.text}"
        return float(found["amount"]) * _PREFIXES[found["prefix"]]

    @property
    def tolerance(self) -> float:
        found = _NUMBER.fullmatch(self.text)
        percent = found and found["percent"]
        return float(percent) / 100 if percent else TOLERANCE

    @property
    def words(self) -> str:
        """What a person reads in place of the text."""
        return _table("words").get(self.unit, {}).get(self.text, self.text)


@dataclass(frozen=True)
class Shown:
    """What one panel shows: its rows by name, each with its cells by title; None for a cell that is empty.

    A panel that is no table has one column, `value`. A row without a name is the only one of its panel.
    """

    board: str
    panel: str
    key: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Truth | None]]


def truth(quantity: str, thing: str) -> Truth | None:
    values = _table("quantities")[quantity]
    return Truth(str(values[thing]), values["unit"]) if thing in values else None


def named() -> set[str]:
    """The quantities of which there is a truth."""
    return set(_table("quantities"))


def choices() -> Mapping[str, Mapping[str, str]]:
    """The variables that each board is opened with, where they are not left alone."""
    found: Mapping[str, Mapping[str, str]] = _table("panels")["choices"]
    return found


def shown() -> Iterator[Shown]:
    for board, panels in _table("panels").items():
        if board != "choices":
            yield from (_shown(board, panel, what) for panel, what in panels.items())


def reported(subject: str) -> Mapping[str, str]:
    """The quantities of a report's numbers, by their paths."""
    found: Mapping[str, str] = _table("report")[subject]
    return found


def quantities_used() -> set[str]:
    tables = [panels for board, panels in _table("panels").items() if board != "choices"]
    written = (what for each in (*tables, *_table("report").values()) for what in each.values())
    return {each.partition(" @ ")[0] for what in written for each in _references(what)} - {"empty", "unreachable"}


def _references(what: str | Mapping[str, Any]) -> list[str]:
    return [what] if isinstance(what, str) else [each for key, each in what.items() if key not in {"rows", "key"}]


def _shown(board: str, panel: str, what: str | Mapping[str, Any]) -> Shown:
    if what == "empty":
        return Shown(board, panel, (), {})
    if what == "unreachable":
        return Shown(board, panel, (), {"": {"value": Truth("unreachable", "words")}})
    if isinstance(what, str):
        return Shown(board, panel, (), {"": {"value": _at(what)}})
    if "rows" not in what:
        return Shown(board, panel, (), {series: {"value": _at(each)} for series, each in what.items()})
    things = what["rows"] if isinstance(what["rows"], dict) else {name: name for name in what["rows"]}
    columns = {title: quantity for title, quantity in what.items() if title not in {"rows", "key"}}
    rows = {row: {title: truth(columns[title], thing) for title in columns} for row, thing in things.items()}
    key = tuple(what["key"].split("/")) if "key" in what else ()
    return Shown(board, panel, key, rows)


def _at(reference: str) -> Truth:
    quantity, _, thing = reference.partition(" @ ")
    found = truth(quantity, thing)
    assert found, f"no truth of {reference}"
    return found


@cache
def _table(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text())
    return found
