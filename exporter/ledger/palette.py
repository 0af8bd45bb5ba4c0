"""Colours of verdicts and pages, and the states' words and colours: of dashboards, status page, report and alerts.

The colours keep apart for red-green and blue-yellow blindness too; tests/unit/ledger/test_palette.py computes it.
Among the states' colours, greys have no owner, warm, purple and dark ones are lost, blue and light green ones are busy
and could be better. Green is busy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.ledger.states import TABLE

GOOD, WATCH, WARN, BAD = "#0E8A66", "#F2CC0C", "#DB7301", "#CC1A30"
"""Verdicts on a number, from well to broken, as dashboards and edges show them; `Page` has them as text."""
INFO, NONE = "#7A8CFA", "#8A9199"
"""A number without a verdict; without an owner, or not known."""


class Page(NamedTuple):
    """The colours of our own pages around those of verdicts and states."""

    ink: str
    dim: str
    paper: str
    card: str
    line: str
    link: str
    good: str
    warn: str
    bad: str
    none: str
    """A verdict as text."""


LIGHT = Page(
    "#1D2329", "#5D6770", "#F6F7F9", "#FFFFFF", "#DDE2E7", "#1F60C4", "#0B7456", "#A85500", "#C0182D", "#5D6770"
)
DARK = Page(
    "#E5E9ED", "#9AA4AE", "#14181C", "#1D2329", "#333C45", "#7FB0F5", "#35BC92", "#EE9A45", "#FF7884", "#9AA4AE"
)


class StateStyle(NamedTuple):
    title: str
    step: str
    """The first thing to do about it, short enough for a cell; the table of states has the whole advice."""
    colour: str


STYLES: Mapping[str, StateStyle] = {state.name: StateStyle(state.title, state.step, state.colour) for state in TABLE}


def page_colours() -> str:
    """CSS variables by the names of `Page`, for the theme the reader's browser asks for."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in each._asdict().items()) for each in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def style_of(state: str) -> StateStyle:
    """Return the style; for a state of a newer exporter its name in grey."""
    return STYLES.get(state) or StateStyle(state.replace("_", " ").capitalize(), "", NONE)


def stack_order(states: Iterable[str]) -> list[str]:
    """Return the states in the order of a stack or bar, from computing to free."""
    return list(reversed(list(states)))
