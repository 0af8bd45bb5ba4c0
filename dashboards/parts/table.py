"""Tables with one row per thing: its name with a link onward, gauge cells for fractions, words for states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import common as shared
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

from dashboards.parts import link, states, style
from dashboards.parts.job_names import JOB_NAME, JOB_NAMES, with_job_names
from dashboards.parts.link import Onward
from dashboards.parts.query import CLUSTER, RANGE, SOURCE, rows, with_text

Config = model.DynamicConfigValue
_FILLED = {"type": "color-background", "mode": "basic"}
_TITLE, _NAME_WIDTH = "Job name", 82
STATE_WIDTH, STEP_WIDTH, RUNBOOK_WIDTH = 170, 245, 90
"""Pixels that the longest of these words take: tests/unit/dashboards measures them."""


@dataclass(frozen=True, slots=True)
class Key:
    """A label that names the row. A hidden one is there for links."""

    label: str
    title: str
    links: tuple[Onward, ...] = ()
    width: int | None = None
    hidden: bool = False
    mappings: tuple[model.ValueMapping, ...] = ()
    filled: bool = False
    """True if the colour of its mapping fills the cell: colours of states are made for areas, not for text."""


@dataclass(frozen=True, slots=True)
class Value:
    """A column of numbers: `expr` is reduced to one number per row by `by`."""

    title: str
    expr: str
    unit: str = style.COUNT
    steps: style.Steps | None = None
    """Colours the text; with `gauge`, the bar."""
    gauge: bool = False
    ceiling: float | None = None
    decimals: int | None = None
    mappings: tuple[model.ValueMapping, ...] = ()
    empty: str = "-"
    width: int | None = None
    reduce: str = "max"
    links: tuple[Onward, ...] = ()
    wrap: str = ""
    """A function around the reduced numbers of the first column, as `topk(20, {})`: it chooses the table's rows."""


@dataclass(frozen=True, slots=True)
class Text:
    """A column whose cells are the label `label` of the row's largest series of `expr`."""

    title: str
    expr: str
    label: str
    mappings: tuple[model.ValueMapping, ...] = ()
    width: int | None = None
    links: tuple[Onward, ...] = ()
    filled: bool = False
    alias: str = ""
    """Another name for the label, where two columns show the same one."""
    wrapped: bool = False
    """True if its texts take two lines."""
    beside: str = ""
    """The key that it explains: the column stands there, and not behind the keys."""
    jobs: str = ""
    """Set where cells may be workloads, to series of each row: the name of each job stands beside it."""


Column = Value | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    title: str
    description: str
    keys: tuple[Key, ...]
    columns: tuple[Column, ...]
    sort: str
    ascending: bool = False
    then: str = ""
    """The column that orders what the first leaves equal or empty."""
    then_ascending: bool = True
    size: tuple[int, int] = (24, 10)
    empty: str = ""
    rows: str = ""
    """Series with the labels of each row, where those of the first column are more than the job's name needs."""
    order: tuple[str, ...] = field(default=())
    """Titles of columns that come first, behind the keys."""

    def build(self) -> table.Panel:
        width, height = self.size
        panel = table.Panel().title(self.title).description(self.description).datasource(SOURCE)
        wrapped = any(isinstance(column, Text) and column.wrapped for column in self.columns)
        lines = shared.TableCellHeight.LG if wrapped else shared.TableCellHeight.SM
        panel.span(width).height(height).cell_height(lines).show_header(True)
        panel.sort_by(
            [
                _sorted(self.sort, down=not self.ascending),
                *([_sorted(self.then, down=not self.then_ascending)] if self.then else []),
            ]
        )
        if self.empty:
            panel.no_value(self.empty)
        for ref, column in self._refs():
            panel.with_target(rows(self._expr(column)).ref_id(ref))
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=self._organize()))
        for key in self.keys:
            _override(panel, key.title, _key_config(key))
        for column in self._shown:
            _override(panel, column.title, _value_config(column) if isinstance(column, Value) else _text_config(column))
            if _names_jobs(column):
                _override(panel, _TITLE, [Config("noValue", "-"), Config("custom.width", _NAME_WIDTH)])
        return panel

    @property
    def _shown(self) -> tuple[Column, ...]:
        """The columns, and the name that its owner gave a job beside its number."""
        labels = {key.label for key in self.keys}
        if "workload" not in labels or "job_name" in labels:
            return self.columns
        by = ", ".join(key.label for key in self.keys)
        rows_of = self.rows or next(column.expr for column in self.columns if isinstance(column, Value))
        if 'kind!="slurm"' in rows_of:  # pods have no other name
            return self.columns
        job = "cluster, workload" if "cluster" in labels else "workload"
        names = f"max by ({job}, job_name) (last_over_time({JOB_NAMES}{{{CLUSTER}}}[{RANGE}]))"
        named = f"0 * (max by ({by}) ({rows_of})) + on ({job}) group_left (job_name) topk by ({job}) (1, {names})"
        return (*self.columns, Text(_TITLE, named, JOB_NAME, width=_NAME_WIDTH))

    def _refs(self) -> list[tuple[str, Column]]:
        return [(chr(ord("A") + index), column) for index, column in enumerate(self._shown)]

    def _expr(self, column: Column) -> str:
        by = ", ".join(key.label for key in self.keys)
        first = self.columns[0]
        among = f" and on ({by}) {_wrapped(first, by)}" if isinstance(first, Value) and first.wrap else ""
        if isinstance(column, Value):
            return _wrapped(column, by) + (among if column is not first else "")
        labels, expr = column.label, column.expr
        if column.alias:
            expr = f'label_replace({expr}, "{column.alias}", "$1", "{labels}", "(.*)")'
            labels = column.alias
        if _names_jobs(column):
            labels, expr = f"{labels}, {JOB_NAME}", with_job_names(expr, column.jobs)
        return f"topk by ({by}) (1, max by ({by}, {labels}) ({expr})){among}"

    def _names(self) -> list[tuple[str, str]]:
        """(field of the merged table, title) of every column, in order of appearance."""
        names = [pair for key in self.keys for pair in ((key.label, key.title), *self._beside(key))]
        found: list[tuple[str, str]] = []
        for ref, column in self._refs():
            name = (column.alias or column.label) if isinstance(column, Text) else f"Value #{ref}"
            if (name, column.title) not in names:
                found.append((name, column.title))
            if _names_jobs(column):
                found.append((JOB_NAME, _TITLE))
        job = (_TITLE,) if "workload" in {key.label for key in self.keys} else ()
        first = [pair for title in (*job, *self.order) for pair in found if pair[1] == title]
        return names + first + [pair for pair in found if pair not in first]

    def _beside(self, key: Key) -> list[tuple[str, str]]:
        texts = (column for column in self.columns if isinstance(column, Text))
        return [(text.label, text.title) for text in texts if text.beside == key.label]

    def _organize(self) -> dict[str, object]:
        single = len(self._shown) == 1
        hidden = ["Time", *(f"Value #{ref}" for ref, column in self._refs() if isinstance(column, Text))]
        hidden += ["Value"] if single and isinstance(self.columns[0], Text) else []
        hidden += [key.label for key in self.keys if key.hidden and not key.links]
        names = [("Value" if single and name == "Value #A" else name, title) for name, title in self._names()]
        return {
            "excludeByName": dict.fromkeys(hidden, True),
            "indexByName": {name: index for index, (name, _) in enumerate(names)},
            "renameByName": dict(names),
        }


def _names_jobs(column: Column) -> bool:
    return isinstance(column, Text) and (column.label == "workload" or bool(column.jobs))


def _sorted(title: str, *, down: bool = False) -> common.TableSortByFieldState:
    return common.TableSortByFieldState().display_name(title).desc(down)


def gauge(title: str, expr: str, steps: style.Steps, *, width: int | None = None, reduce: str = "max") -> Value:
    """A fraction of 1, as a bar in the cell."""
    return Value(title, expr, units.PercentUnit, steps, gauge=True, ceiling=1, decimals=0, width=width, reduce=reduce)


def cause(title: str) -> Key:
    """The state as what names the row, with the way to the whole advice."""
    return Key("state", title, (link.DIAGNOSIS,), STATE_WIDTH, mappings=tuple(states.by_name()), filled=True)


def target_ratio(expr: str, width: int = 92) -> Value:
    """Utilization as a fraction of the target of its class of work."""
    return gauge("Target ratio", expr, style.TARGET_RATIO, width=width)


def lost_state(title: str, expr: str) -> Text:
    """The state in which the row lost most."""
    return Text(title, expr, "state", tuple(states.by_name()), STATE_WIDTH, (link.DIAGNOSIS,), filled=True)


def step(title: str, expr: str) -> Text:
    """The first thing to do about the state in which the row lost most."""
    return Text(title, expr, "state", tuple(states.step_by_name()), STEP_WIDTH, (link.DIAGNOSIS,), alias="step")


def meaning(fires: str, *links: Onward, wrapped: bool = False) -> Text:
    """The sentence of what an alert means, in place of its name."""
    return Text("Alert", f"{fires} {with_text('meaning')}", "meaning", links=links, wrapped=wrapped, beside="alertname")


def runbook(expr: str) -> Text:
    """The page of an alert, which its label names."""
    every = model.RegexMap(
        options=model.DashboardRegexMapOptions(
            pattern=".+", result=model.ValueMappingResult(text="Runbook", color="text")
        )
    )
    return Text("What to do", expr, "runbook", (every,), RUNBOOK_WIDTH, (link.RUNBOOK,))


def _wrapped(column: Value, by: str) -> str:
    reduced = column.expr if _is_sum(column.expr, by) else f"{column.reduce} by ({by}) ({column.expr})"
    return column.wrap.format(reduced) if column.wrap else reduced


def _is_sum(expr: str, by: str) -> bool:
    """Return whether the whole expression is one sum by these labels, which there is one of for each row."""
    begin, depth = f"sum by ({by}) (", 0
    for at, letter in enumerate(expr):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")" and at > len(begin):
            return expr.startswith(begin) and at == len(expr) - 1
    return False


def _override(panel: table.Panel, title: str, config: Sequence[Config]) -> None:
    if config:
        panel.override_by_name(title, list(config))


def _common(width: int | None, links: tuple[Onward, ...], mappings: tuple[model.ValueMapping, ...]) -> list[Config]:
    config: list[Config] = []
    if width is not None:
        config.append(Config("custom.width", width))
    if links:
        config.append(Config("links", [link.value() for link in links]))
    if mappings:
        config.append(Config("mappings", list(mappings)))
    return config


def _key_config(key: Key) -> list[Config]:
    config = [Config("noValue", "-"), *_common(key.width, key.links, key.mappings)]
    if key.mappings:
        config.append(Config("custom.cellOptions", _FILLED if key.filled else {"type": "color-text"}))
    return config


def _text_config(column: Text) -> list[Config]:
    config = [Config("noValue", "-"), *_common(column.width, column.links, column.mappings)]
    if column.filled:
        config += [Config("custom.cellOptions", _FILLED), Config("thresholds", style.thresholds_value(style.NO_FILL))]
    if column.wrapped:  # Grafana 11 reads it of the cell, newer ones of the column
        config += [
            Config("custom.cellOptions", {"type": "auto", "wrapText": True}),
            Config("custom.wrapText", True),
        ]
    return config


def _value_config(column: Value) -> list[Config]:
    config = [Config("unit", column.unit), Config("noValue", column.empty)]
    config += _common(column.width, column.links, column.mappings)
    if column.decimals is not None or column.unit == style.COUNT:
        config.append(Config("decimals", column.decimals or 0))
    if column.ceiling is not None:
        config += [Config("min", 0), Config("max", column.ceiling)]
    if column.steps is not None:
        config.append(Config("thresholds", style.thresholds_value(column.steps)))
    if column.gauge:
        config.append(Config("custom.cellOptions", {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}))
    elif column.steps is not None or column.mappings:
        config.append(Config("custom.cellOptions", {"type": "color-text"}))
    return config
