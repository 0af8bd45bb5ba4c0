"""Colours that mean different things can be told apart by everybody, and words fit where they are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
from coloraide import Color

from exporter.ledger import palette
from exporter.ledger.palette import STYLES, stack_order, style_of
from exporter.ledger.states import BUSY, STATES, TABLE

VERDICTS = {name: getattr(palette, name) for name in ("GOOD", "WATCH", "WARN", "BAD", "INFO", "NONE")}
ROOT = Path(__file__).resolve().parents[3]
SIGHTS = ("", "protan", "deutan", "tritan")
"""Full colour vision, and the three kinds of dichromacy (Machado, Oliveira and Fernandes, 2009)."""
DARK, LIGHT = "#181B1F", "#FFFFFF"
"""Panels of Grafana's two themes."""


def _seen(colour: str, sight: str) -> Color:
    return Color(colour).filter(sight, 1, method="machado") if sight else Color(colour)


def _nearest(colours: Mapping[str, str], sight: str) -> tuple[float, str, str]:
    """The two colours that look most alike, by CIEDE2000."""
    seen = {name: _seen(colour, sight) for name, colour in colours.items()}
    return min((seen[a].delta_e(seen[b], method="2000"), a, b) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_states_look_alike(sight: str) -> None:
    distance, one, other = _nearest({state: each.colour for state, each in STYLES.items()}, sight)

    assert distance > 9.5, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_busy_looks_like_no_state_that_is_lost(sight: str) -> None:
    working = {state.name for state in TABLE if state.name in BUSY and state.audience != "oncall"}
    lost = STYLES.keys() - working - {"free", "unobserved", "tensor_cores_unused"}
    busy = _seen(style_of("computing").colour, sight)

    near = {state: busy.delta_e(_seen(style_of(state).colour, sight), method="2000") for state in lost}

    assert min(near.values()) > 15, near


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_verdicts_look_alike(sight: str) -> None:
    distance, one, other = _nearest(VERDICTS, sight)

    assert distance > 14, (one, other)


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_can_be_read_as_text(name: str) -> None:
    colour = Color(VERDICTS[name])

    assert colour.contrast(DARK) > 3
    assert colour.contrast(LIGHT) > (3 if name != "WATCH" else 1.5)


@pytest.mark.parametrize("state", STYLES)
def test_words_can_be_read_in_a_cell_that_a_state_fills(state: str) -> None:
    """Grafana writes dark on what is brighter than 180 of 255, white on all else."""
    colour = Color(STYLES[state].colour)
    red, green, blue = (255 * part for part in colour.coords())
    text = "#202226" if 0.299 * red + 0.587 * green + 0.114 * blue > 180 else "#F7F8FA"

    assert colour.contrast(text) > 3


@pytest.mark.parametrize("page", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_words_can_be_read_on_pages_of_both_themes(page: palette.Page) -> None:
    for text in (page.ink, page.dim, page.link, page.good, page.warn, page.bad, page.none):
        for ground in (page.paper, page.card):
            assert Color(text).contrast(ground) > 4.5, (text, ground)


def test_colours_stand_with_states_and_verdicts_alone() -> None:
    """The drawn dashboards know Grafana's names of colours as well."""
    states = ROOT / "exporter/ledger/states"
    allowed = {"exporter/ledger/palette.py", "deploy/demo/drawing/fields.py"}
    found = {
        str(path.relative_to(ROOT)): hexadecimal
        for folder in ("exporter", "dashboards", "deploy")
        for path in (ROOT / folder).rglob("*.py")
        if states not in path.parents and (hexadecimal := re.findall(r"#[0-9a-fA-F]{6}\b", path.read_text()))
    }
    assert found.keys() == allowed, found


def test_every_state_of_the_ledger_has_a_look_of_its_own() -> None:
    assert set(STATES) <= STYLES.keys()
    assert len({each.title for each in STYLES.values()}) == len(STYLES)


def test_a_state_of_a_newer_exporter_is_shown_by_its_name() -> None:
    assert style_of("wait_tape").title == "Wait tape"


def test_words_fit_into_a_cell() -> None:
    assert max(len(each.title) for each in STYLES.values()) <= 22
    assert max(len(each.step) for each in STYLES.values()) <= 34


def test_a_stack_begins_with_busy_and_ends_with_free_and_unobserved() -> None:
    order = stack_order(STATES)

    assert order[0] == "computing"
    assert order[-2:] == ["free", "unobserved"]


def test_state_of_a_newer_exporter_goes_by_its_own_name_in_grey() -> None:
    assert style_of("wait_for_godot") == ("Wait for godot", "", palette.NONE)
