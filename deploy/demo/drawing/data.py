"""The answers to a panel's queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deploy.demo.drawing.document import Json, Panel, mapping
from deploy.demo.drawing.variables import Variable, expression
from deploy.demo.prometheus import Line, Prometheus, Sample, Span

_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one number where the query asks for now only."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def last(self) -> float | None:
        return self.points[-1][1] if self.points else None


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a page's numbers."""

    prometheus: Prometheus
    variables: Sequence[Variable]
    span: Span
    time: str
    """The time range as a link carries it on."""

    def instant(self, target: Json) -> Sequence[Sample]:
        return self.prometheus.instant(self._expression(target), self.span.end)

    def lines(self, target: Json) -> Sequence[Line]:
        return self.prometheus.range(self._expression(target), self.span)

    def _expression(self, target: Json) -> str:
        return expression(str(target.get("expr", "")), self.variables, self.span)


def series(panel: Panel, source: Source) -> Sequence[Series]:
    """All series of a panel, in the order the panel wants them."""
    found: list[Series] = []
    for target in panel.targets:
        legend = str(target.get("legendFormat") or "")
        if target.get("instant"):
            answers = source.instant(target)
            found += [Series(_name(legend, a.labels), a.labels, [(source.span.end, a.value)]) for a in answers]
        else:
            found += [Series(_name(legend, a.labels), a.labels, a.points) for a in source.lines(target)]
    order = mapping(mapping(panel.transformation("organize")).get("indexByName"))
    return sorted(found, key=lambda one: int(order.get(one.name, len(order))))


def _name(legend: str, labels: Mapping[str, str]) -> str:
    if not legend or legend == "__auto":
        return ", ".join(value for label, value in labels.items() if label != "__name__") or "value"
    return _LABEL.sub(lambda found: labels.get(found[1], ""), legend)
