"""A dashboard as Grafana would ask for it: variables chosen, every query of every panel sent."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from tests.contract.dashboards.reading import load, panels, renamed
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.tsdb import ask, ask_at

_QUERY = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
_RESULT = re.compile(r"query_result\((?P<expr>.+)\)")


@dataclass(frozen=True)
class Answer:
    """What a panel got: the number of series (or rows) over all its queries."""

    panel: str
    kind: str
    series: int
    says_why: bool
    """Whether it has words for the case that it is empty."""


@dataclass(frozen=True)
class Timing:
    """How long one query of one panel took, and what it answered: series, or why Prometheus refused it."""

    panel: str
    ref: str
    seconds: float
    series: int
    refused: str = ""


@dataclass(frozen=True)
class Reader:
    """`chosen` are the variables the reader sets; the others stay at All, or take the first value there is."""

    url: str
    span: Span
    chosen: Mapping[str, str]
    scrape: int = 0
    """Seconds between two scrapes; 0: the step."""

    def answers(self, name: str) -> Iterator[Answer]:
        """Raises AssertionError, which names the panel, where Prometheus refuses a query."""
        values = self.values(name)
        for panel in panels(name):
            says_why = len(panel["fieldConfig"]["defaults"].get("noValue", "")) > 0
            count = sum(len(self.ask(panel["title"], target, values)) for target in panel["targets"])
            yield Answer(panel["title"], panel["type"], count, says_why)

    def asked(self, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """What every query of a dashboard answers, by panel (its id and title) and query."""
        values = self.values(name)
        for panel in panels(name):
            for target in panel["targets"]:
                yield f"{panel['id']} {panel['title']} / {target['refId']}", self.ask(panel["title"], target, values)

    def timings(self, name: str) -> Iterator[Timing]:
        """Every query of a dashboard, one after the other."""
        values = self.values(name)
        for panel in panels(name):
            for target in panel["targets"]:
                series, refused, started = 0, "", time.monotonic()
                try:
                    series = len(self.ask(panel["title"], target, values))
                except (AssertionError, requests.RequestException) as error:
                    refused = str(error).split("\n", maxsplit=1)[0]
                yield Timing(panel["title"], target["refId"], time.monotonic() - started, series, refused)

    def rows(self, name: str, title: str, ref: str = "A") -> list[dict[str, Any]]:
        """What one query of one panel answers."""
        panel = self._panel(name, title)
        (target,) = (target for target in panel["targets"] if target["refId"] == ref)
        return self.ask(title, target, self.values(name))

    def column(self, name: str, title: str, column: str) -> list[dict[str, Any]]:
        """What the query of one column answers; of a panel that is no table, its first query."""
        panel = self._panel(name, title)
        if panel["type"] != "table":
            return self.rows(name, title)
        (field,) = (field for field, shown in renamed(panel).items() if shown == column)
        return self.rows(name, title, field.removeprefix("Value").removeprefix(" #") or "A")

    def _panel(self, name: str, title: str) -> dict[str, Any]:
        """The first one so called: a number at the top may have its graph below."""
        return next(panel for panel in panels(name) if panel["title"] == title)

    def ask(self, title: str, target: Mapping[str, Any], values: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return what one query of a panel answers."""
        expr = self.filled(target["expr"], values)
        try:
            return ask_at(self.url, expr, self.span.end) if target.get("instant") else ask(self.url, expr, self.span)
        except AssertionError as error:
            raise AssertionError(f"{title} / {target['refId']}: {error}\n{expr}") from error

    def values(self, name: str) -> dict[str, str]:
        """Return the chosen value of each variable of a dashboard."""
        values: dict[str, str] = {}
        for variable in load(name)["templating"]["list"]:
            values[variable["name"]] = self._value(variable, values)
        return values

    def _value(self, variable: Mapping[str, Any], values: Mapping[str, str]) -> str:
        name = variable["name"]
        if name in self.chosen:
            return self.chosen[name]
        if variable["type"] != "query":
            return str(variable["query"])
        if variable["includeAll"] and variable.get("allValue"):
            return str(variable["allValue"])
        if chosen := _RESULT.fullmatch(self.filled(variable["query"]["query"], values)):
            (label,) = re.findall(r"(\w+)=", variable["regex"])
            rows = ask_at(self.url, chosen["expr"], self.span.end)
            return "|".join(re.escape(row["metric"][label]).replace("\\", "\\\\") for row in rows)
        asked = _QUERY.fullmatch(self.filled(variable["query"]["query"], values))
        assert asked, name
        url = f"{self.url}/api/v1/label/{asked['label']}/values"
        times = {"match[]": asked["selector"], "start": str(self.span.start), "end": str(self.span.end)}
        found = requests.get(url, params=times, timeout=60).json()["data"]
        assert found, f"variable {name} of {asked['selector']} has no value"
        return "|".join(found) if variable["includeAll"] else str(found[0])

    def filled(self, text: str, values: Mapping[str, str]) -> str:
        """Return an expression as Grafana would send it."""
        seconds = self.span.end - self.span.start
        text = text.replace("$__range_s", str(seconds)).replace("$__range", f"{seconds}s")
        scrape = self.scrape or self.span.step
        text = text.replace("$__rate_interval", f"{max(4 * scrape, self.span.step + scrape)}s")
        for name in sorted(values, key=len, reverse=True):
            text = re.sub(rf"\${name}\b", lambda _, name=name: values[name], text)
        return text
