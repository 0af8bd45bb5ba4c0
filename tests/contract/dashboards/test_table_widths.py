"""Words are not cut off: on 1,600 pixels titles of numbers, and titles and words in tables, fit where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.prometheus.render import ALERTS
from tests.contract.dashboards.reading import NAMES, panels, properties, renamed

_SCREEN, _COLUMNS = 1568, 24
_BORDER, _PADDING, _ARROW = 10, 14, 18
_LEAST = 150
"""Pixels of a column that has no width of its own, by Grafana's own setting: with less, the last column is cut off."""
_NARROW, _WIDE = set("fijlrtI.,:;'|()[]/- 1"), set("mwMW%@")


def pixels(text: str) -> float:
    """Of text as Grafana sets it (Inter, 14 px), to about a twentieth."""
    return sum(4.6 if char in _NARROW else 11.6 if char in _WIDE else 9.0 if char.isupper() else 7.7 for char in text)


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in NAMES:
        yield from ((name, panel) for panel in panels(name) if panel["type"] == "table")


def columns(panel: dict[str, Any]) -> dict[str, float]:
    """Pixels of every column that is shown, by title."""
    (organize,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
    shown = [title for field, title in renamed(panel).items() if field not in organize["excludeByName"]]
    fixed = {title: properties(panel, title).get("custom.width") for title in shown}
    free = panel["gridPos"]["w"] / _COLUMNS * _SCREEN - _BORDER - sum(width or 0 for width in fixed.values())
    flexible = sum(width is None for width in fixed.values())
    return {title: width or free / flexible for title, width in fixed.items()}


TABLES = [pytest.param(panel, id=f"{name} / {panel['title']}") for name, panel in tables()]


@pytest.mark.parametrize("panel", TABLES)
def test_columns_fit_the_table(panel: dict[str, Any]) -> None:
    thin = {title: width for title, width in columns(panel).items() if width < min(_LEAST, pixels(title))}
    flexible = [title for title in columns(panel) if "custom.width" not in properties(panel, title)]

    assert thin == {}
    assert [title for title in flexible if columns(panel)[title] < _LEAST] == []


@pytest.mark.parametrize("panel", TABLES)
def test_titles_fit_their_columns(panel: dict[str, Any]) -> None:
    sorted_by = {each["displayName"] for each in panel["options"]["sortBy"]}
    cut = {
        title: width
        for title, width in columns(panel).items()
        if pixels(title) + _PADDING + (_ARROW if title in sorted_by else 0) > width
    }

    assert cut == {}


@pytest.mark.parametrize("panel", TABLES)
def test_words_fit_their_columns(panel: dict[str, Any]) -> None:
    cut = {
        (title, result["text"]): width
        for title, width in columns(panel).items()
        for mapping in properties(panel, title).get("mappings") or []
        for result in ([mapping["options"]["result"]] if mapping["type"] == "regex" else mapping["options"].values())
        if pixels(result["text"]) + _PADDING > width * _lines(properties(panel, title))
    }

    assert cut == {}


def _lines(column: dict[str, Any]) -> float:
    """Lines that a text may take: two of a sentence, of which the first ends before a word."""
    return 1.85 if column.get("custom.wrapText") and column["custom.cellOptions"]["wrapText"] else 1


@pytest.mark.parametrize("panel", [each for each in TABLES if "Alert" in columns(each.values[0])])
def test_meanings_of_alerts_fit_their_column(panel: dict[str, Any]) -> None:
    width, lines = columns(panel), _lines(properties(panel, "Alert"))

    assert max(pixels(alert.meaning) for alert in ALERTS) + _PADDING <= width.get("Alert", 999) * lines
    assert max(map(pixels, ("slurm:18550400", "gpu-node-0123"))) + _PADDING < width.get("Where", 999)


_UNIT, _AXES, _ROW = 38, 108, 18
"""Pixels of a panel's unit of height; of title, legend and axis; of a row whose name can be read."""
_MANY = {("workload", 12): "What limited each one", ("job", 12): "over time", ("health", 20): "Alerts over time"}
"""Most rows that their queries let through."""


@pytest.mark.parametrize(("board", "rows"), _MANY)
def test_names_of_rows_over_time_do_not_overlap(board: str, rows: int) -> None:
    found = [
        panel["gridPos"]["h"] * _UNIT - _AXES
        for name in NAMES
        if name.startswith(board)
        for panel in panels(name)
        if panel["type"] == "state-timeline" and _MANY[board, rows] in panel["title"]
    ]

    assert found
    assert min(found) >= rows * _ROW


NUMBERS = [
    pytest.param(panel, id=f"{name} / {panel['title']}")
    for name in NAMES
    for panel in panels(name)
    if panel["type"] == "stat"
]
_FRAME = 70
"""Pixels beside a panel's title: the gap to the next, its edges, and the sign that shows its description."""


@pytest.mark.parametrize("panel", NUMBERS)
def test_titles_of_numbers_fit_their_panels(panel: dict[str, Any]) -> None:
    assert pixels(panel["title"]) + _FRAME <= panel["gridPos"]["w"] / _COLUMNS * _SCREEN
