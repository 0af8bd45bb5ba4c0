"""What Prometheus answers to the queries of each panel, as rows and cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.contract.dashboards.reading import panels, properties, renamed
from tests.e2e.dashboards.reader import Reader

Cell = str | float
Rows = dict[str, dict[str, Cell]]
_LABEL = re.compile(r"{{\s*(\w+)\s*}}")


@dataclass(frozen=True)
class Answered:
    """A panel, and the series that each of its queries (by refId) gave."""

    board: str
    title: str
    panel: dict[str, Any]
    series: Mapping[str, list[dict[str, Any]]]

    def rows(self, key: tuple[str, ...]) -> Rows:
        return self._table(key) if self.panel["type"] == "table" else self._lines()

    def legend(self, ref: str, labels: Mapping[str, str]) -> str:
        (target,) = (each for each in self.panel["targets"] if each["refId"] == ref)
        text = _LABEL.sub(lambda found: labels.get(found[1], ""), target.get("legendFormat", ""))
        return " ".join(text.split())

    def columns(self) -> list[str]:
        """Titles of the columns of a table that a person sees."""
        (organize,) = (each["options"] for each in self.panel["transformations"] if each["id"] == "organize")
        return [title for field, title in organize["renameByName"].items() if field not in organize["excludeByName"]]

    def _lines(self) -> Rows:
        by_name = self.panel["options"].get("textMode") == "name"
        found: Rows = {}
        for ref, series in self.series.items():
            for each in series:
                name = self.legend(ref, each["metric"])
                value = _mapped(self.panel["fieldConfig"]["defaults"], last(each))
                shown = properties(self.panel, name).get("displayName", name)
                found[name] = {"value": shown if by_name else value}
        return found

    def _table(self, key: tuple[str, ...]) -> Rows:
        titles = renamed(self.panel)
        shown = self.columns()
        found: Rows = {}
        for ref, series in self.series.items():
            column = titles.get(f"Value #{ref}") or titles.get("Value")
            for each in series:
                cells: dict[str, Cell] = {
                    titles[label]: _mapped(properties(self.panel, titles[label]), text)
                    for label, text in each["metric"].items()
                    if label in titles
                }
                row = found.setdefault("/".join(each["metric"].get(self._label(title), "") for title in key), {})
                if column in shown:
                    cells[column] = _mapped(properties(self.panel, column), last(each))
                row.update(cells)
        return found

    def _label(self, title: str) -> str:
        return next(label for label, shown in renamed(self.panel).items() if shown == title)


def answered(reader: Reader, board: str, name: str) -> Iterator[Answered]:
    """Panels of one title are told apart by a number. `board` is `name`, or says what else it was opened on."""
    seen: dict[str, int] = {}
    given: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for place, series in reader.asked(name):
        where, _, ref = place.rpartition(" / ")
        given.setdefault(where, {})[ref] = series
    for panel in panels(name):
        count = seen[panel["title"]] = seen.get(panel["title"], 0) + 1
        title = panel["title"] if count == 1 else f"{panel['title']} ({count})"
        yield Answered(board, title, panel, given[f"{panel['id']} {panel['title']}"])


def last(series: Mapping[str, Any]) -> float:
    return float(series["value"][1] if "value" in series else series["values"][-1][1])


def _mapped(config: Mapping[str, Any], value: Cell) -> Cell:
    """The word that the panel has for the value, if it has one."""
    raw = value if isinstance(value, str) else f"{value:g}"
    for mapping in config.get("mappings") or []:
        if mapping["type"] == "regex" and re.search(mapping["options"]["pattern"], raw):
            return str(mapping["options"]["result"]["text"])
        if raw in mapping["options"]:
            return str(mapping["options"][raw]["text"])
    return value
