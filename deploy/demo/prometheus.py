"""Asking the demo's Prometheus: an instant, a range, the values of a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

_DEADLINE = 10.0


class QueryError(Exception):
    """One line on why there is no answer."""


@dataclass(frozen=True, slots=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a range; (Unix seconds, value) in order, without what is not known."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Span:
    """The time a page shows."""

    start: float
    end: float
    step: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The HTTP API below `url`. Every method raises QueryError."""

    url: str

    def instant(self, expression: str, time: float | None = None) -> Sequence[Sample]:
        asked = {"query": expression} | ({} if time is None else {"time": f"{time:.3f}"})
        data = self._ask("query", asked)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(item["metric"], float(item["value"][1])) for item in data["result"]]

    def range(self, expression: str, span: Span) -> Sequence[Line]:
        asked = {
            "query": expression,
            "start": f"{span.start:.3f}",
            "end": f"{span.end:.3f}",
            "step": f"{span.step:.3f}",
        }
        found = self._ask("query_range", asked)["result"]
        return [Line(item["metric"], [(float(t), float(v)) for t, v in item["values"]]) for item in found]

    def label_values(self, label: str, selector: str) -> Sequence[str]:
        asked = {"match[]": selector} if selector else {}
        return sorted(str(value) for value in self._ask(f"label/{label}/values", asked))

    def _ask(self, path: str, asked: Mapping[str, str]) -> Any:
        try:
            answer = requests.get(f"{self.url}/api/v1/{path}", params=asked, timeout=_DEADLINE)
            content: Any = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise QueryError(f"Prometheus does not answer: {error.__class__.__name__}") from None
        if content.get("status") != "success":
            raise QueryError(str(content.get("error", "no reason given")))
        return content["data"]
