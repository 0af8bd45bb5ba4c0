"""One dashboard as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from itertools import repeat
from urllib.parse import quote

from deploy.demo.drawing import figures, lines, table, variables
from deploy.demo.drawing.data import Source
from deploy.demo.drawing.document import Dashboard, Panel, Section
from deploy.demo.drawing.variables import ALL, Variable
from deploy.demo.prometheus import Prometheus, QueryError, Span

RANGES: Mapping[str, float] = {"5m": 300.0, "15m": 900.0, "1h": 3600.0, "6h": 21600.0}
_KINDS: Mapping[str, Callable[[Panel, Source], str]] = {
    "stat": figures.stat,
    "bargauge": figures.bars,
    "table": table.draw,
    "timeseries": lines.chart,
    "state-timeline": lines.states,
}
_WORKERS = 6


_HIDDEN = 2
"""`hide` of a variable that Grafana never shows."""


def draw(dashboard: Dashboard, given: Mapping[str, str], prometheus: Prometheus, now: float) -> str:
    """The body of the page: what may be chosen, and the panels, section by section."""
    chosen = given.get("range", "5m")
    seconds = RANGES.get(chosen, RANGES["5m"])
    step = max(5.0, seconds / 180)
    end = now - now % step
    span = Span(end - seconds, end, step)
    resolved = variables.resolve(dashboard, given, prometheus, span)
    source = Source(prometheus, resolved, span, f"range={quote(chosen)}")
    with ThreadPoolExecutor(_WORKERS) as pool:
        sections = [_section(section, source, pool) for section in dashboard.sections]
    hidden = {content["name"] for content in dashboard.variables if content.get("hide") == _HIDDEN}
    return _controls([each for each in resolved if each.name not in hidden], chosen) + "".join(sections)


def _section(section: Section, source: Source, pool: ThreadPoolExecutor) -> str:
    first = min(panel.place[1] for panel in section.panels)
    drawn = pool.map(_panel, section.panels, repeat(source), repeat(first))
    title = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    return f'{title}<div class="grid24">{"".join(drawn)}</div>'


def _panel(panel: Panel, source: Source, first: int) -> str:
    column, row, width, height = panel.place
    place = f"grid-column:{column + 1}/span {width};grid-row:{row - first + 1}/span {height}"
    return (
        f'<section class="panel" style="{place}" title="{escape(panel.description)}">'
        f"<h3>{escape(panel.title)}</h3>{_content(panel, source)}</section>"
    )


def _content(panel: Panel, source: Source) -> str:
    draw_kind = _KINDS.get(panel.kind)
    if draw_kind is None:
        return f'<p class="none">only Grafana draws panels of type {escape(panel.kind)}</p>'
    try:
        return draw_kind(panel, source)
    except QueryError as error:
        return f'<p class="none failed">{escape(str(error))}</p>'


def _controls(resolved: Sequence[Variable], chosen: str) -> str:
    ranges = "".join(f"<option{' selected' if name == chosen else ''}>{name}</option>" for name in RANGES)
    return (
        '<form class="controls">'
        + "".join(_control(variable) for variable in resolved)
        + f'<label>Last<select name="range">{ranges}</select></label><button>Show</button></form>'
    )


def _control(variable: Variable) -> str:
    name, label = escape(f"var-{variable.name}"), escape(variable.label)
    if not variable.choices and variable.chosen != ALL:
        return f'<label>{label}<input name="{name}" value="{escape(variable.chosen)}"></label>'
    choices = [(ALL, "All")] if variable.chosen == ALL or len(variable.choices) > 1 else []
    choices += [(choice, choice) for choice in variable.choices]
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == variable.chosen else ""}>{escape(text)}</option>'
        for value, text in choices
    )
    return f'<label>{label}<select name="{name}">{options}</select></label>'
