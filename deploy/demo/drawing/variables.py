"""A dashboard's variables: what the reader may choose, and what a query or a link says with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from deploy.demo.drawing.document import Dashboard, Json, mapping
from deploy.demo.prometheus import Prometheus, QueryError, Span

ALL = "$__all"
_QUERY = re.compile(r"label_values\((?:(?P<selector>.+), *)?(?P<label>\w+)\)", re.DOTALL)
_SPECIAL = re.compile(r"[\\^$*+?.()|\[\]{}]")
_NAME = re.compile(r"\$\{(?P<braced>[^}]+)\}|\$(?P<plain>\w+)")


@dataclass(frozen=True, slots=True)
class Variable:
    """`value` is what a query gets, `chosen` what the reader picked (`$__all` for all)."""

    name: str
    label: str
    choices: Sequence[str]
    chosen: str
    value: str


def resolve(dashboard: Dashboard, given: Mapping[str, str], prometheus: Prometheus, span: Span) -> Sequence[Variable]:
    """All variables in order: each may use those before it."""
    made: list[Variable] = []
    for content in dashboard.variables:
        made.append(_variable(content, given.get(f"var-{content['name']}", ""), made, prometheus, span))
    return made


def _variable(content: Json, given: str, before: Sequence[Variable], prometheus: Prometheus, span: Span) -> Variable:
    name, label = str(content["name"]), str(content.get("label") or content["name"])
    if content.get("type") != "query":
        current = given or str(mapping(content.get("current")).get("value") or content.get("query") or "")
        return Variable(name, label, (), current, current)
    choices = _choices(str(mapping(content.get("query")).get("query", "")), before, prometheus, span)
    every = bool(content.get("includeAll"))
    chosen = given or (ALL if every else next(iter(choices), ""))
    if chosen == ALL:
        known = "|".join(_literal(choice) for choice in choices)
        return Variable(name, label, choices, ALL, str(content.get("allValue") or f"({known})"))
    return Variable(name, label, choices, chosen, _literal(chosen))


def _literal(text: str) -> str:
    """`text` as a regular expression inside a PromQL string that matches it and nothing else."""
    return _SPECIAL.sub(r"\\\\\g<0>", text)


def _choices(query: str, before: Sequence[Variable], prometheus: Prometheus, span: Span) -> Sequence[str]:
    found = _QUERY.fullmatch(query)
    if not found:
        return ()
    try:
        return prometheus.label_values(found["label"], expression(found["selector"] or "", before, span))
    except QueryError:
        return ()


def expression(text: str, variables: Sequence[Variable], span: Span) -> str:
    """A query with its variables filled in."""
    known = {variable.name: variable.value for variable in variables} | {
        "__rate_interval": f"{max(60.0, span.step * 4):.0f}s",
        "__interval": f"{span.step:.0f}s",
        "__range": f"{span.seconds:.0f}s",
        "__range_s": f"{span.seconds:.0f}",
    }

    def fill(found: re.Match[str]) -> str:
        name = (found["braced"] or found["plain"]).partition(":")[0]
        return known.get(name, found[0])

    return _NAME.sub(fill, text)


@dataclass(frozen=True, slots=True)
class Clicked:
    """The text under a link, its value, the cells of its row and the labels of its series."""

    text: str
    raw: str = ""
    cells: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def link(url: str, variables: Sequence[Variable], time: str, clicked: Clicked) -> str:
    """A link of a panel, filled in as Grafana does it: of an address nothing is escaped that an address may hold."""
    chosen = {variable.name: variable.chosen for variable in variables}

    def fill(found: re.Match[str]) -> str:
        name, _, how = (found["braced"] or found["plain"]).partition(":")
        if name == "__url_time_range":
            return time
        if name.startswith("__data.fields"):
            return quote(clicked.cells.get(name.partition('"')[2].rpartition('"')[0], ""), safe=_kept(how))
        if name.startswith("__field.labels."):
            return quote(clicked.labels.get(name.removeprefix("__field.labels."), ""), safe=_kept(how))
        if name in {"__value.text", "__value.raw"}:
            return quote(clicked.text if name == "__value.text" else clicked.raw, safe=_kept(how))
        if how == "queryparam":
            return f"var-{name}={quote(chosen[name], safe='')}" if name in chosen else ""
        return quote(chosen[name], safe=_kept(how)) if name in chosen else found[0]

    return re.sub(r"&{2,}", "&", _NAME.sub(fill, url)).replace("?&", "?")


def _kept(how: str) -> str:
    """Characters that are not escaped."""
    return "" if how == "percentencode" else ";,/?:@&=+$!*'()#"
