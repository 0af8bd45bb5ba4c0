"""Columns of panels on the known cluster, as the tests of what they say read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader

END = 1_789_999_200 - 120
SPAN = Span(END - 3600, END, 60)


def rows(url: str, board: str, panel: str, column: str, *keys: str, **chosen: str) -> dict[tuple[str, ...], float]:
    """A column of a table (or a number, whose key is empty) by what names its rows."""
    found = Reader(url, SPAN, chosen).column(board, panel, column)
    return {tuple(row["metric"].get(key, "") for key in keys): value_of(row) for row in found}


def value_of(row: Mapping[str, Any]) -> float:
    return float(row["value"][1] if "value" in row else row["values"][-1][1])
