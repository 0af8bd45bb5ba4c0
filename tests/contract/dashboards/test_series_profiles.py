"""What panels say where the exporters show the series of the profile `lean` alone: never that nothing is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.exposition.series_profile import NONE, Profile, Selection
from exporter.sampling.families import families
from tests.contract.dashboards.reading import NAMES, panels

LEAN = Selection(Profile.LEAN)
HIDDEN = {family.name for family in families() if LEAN.part(family.name) is NONE}


def hidden(query: str) -> set[str]:
    return HIDDEN & set(re.findall(r"[a-z0-9_:]+", query))


def queries(panel: dict[str, Any]) -> Iterator[str]:
    return (target["expr"] for target in panel.get("targets", []))


@pytest.mark.parametrize("name", NAMES)
def test_panel_that_lean_leaves_empty_does_not_say_that_nothing_is_there(name: str) -> None:
    empty = [panel for panel in panels(name) if all(map(hidden, queries(panel))) and panel.get("targets")]

    words = {panel["title"]: str(panel["fieldConfig"]["defaults"]["noValue"]) for panel in empty}
    assert {title: said for title, said in words.items() if not re.search("series profile|not shown", said)} == {}
    assert [panel["title"] for panel in empty if "series profile `lean`" not in panel["description"]] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_zero_stands_for_what_lean_does_not_show(name: str) -> None:
    """A 0 in green beside an alert that fires."""
    zeros = [
        (panel["title"], sorted(found))
        for panel in panels(name)
        for query in queries(panel)
        if re.search(r"\bor (vector\(0\)|0 \*)", query) and (found := hidden(query))
    ]

    assert zeros == []
