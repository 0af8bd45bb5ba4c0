"""Every panel reads as the truth: its texts as Grafana's own transformations, overrides and units make them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tests.panels.asked import Answered
from tests.panels.printed import MisprintError, Texts, number_in, printed, why_not
from tests.panels.truth import Shown, Truth, shown

pytestmark = [pytest.mark.xdist_group("panels"), pytest.mark.skipif(bool(why_not()), reason=why_not())]

SHOWN = list(shown())
_EMPTY = {None, "", "-", "0"}
"""Texts of a cell without a value."""
_COARSEST = {"s": 0.06}
"""How far the text of a quantity may be from it, where rounding by Grafana's units could make it another one."""


@pytest.fixture(scope="module")
def texts(answers: dict[tuple[str, str], Answered]) -> dict[tuple[str, str], Texts]:
    panels = [answers[each.board, each.panel] for each in SHOWN]
    found = printed(panels, [each.key for each in SHOWN])
    return {(each.board, each.panel): rows for each, rows in zip(SHOWN, found, strict=True)}


@pytest.mark.parametrize("each", SHOWN, ids=lambda each: f"{each.board} / {each.panel}")
def test_panel_on_known_cluster_reads_as_truth(texts: dict[tuple[str, str], Texts], each: Shown) -> None:
    found = texts[each.board, each.panel]
    if set(each.rows) == {""} and len(found) == 1:
        found = {"": next(iter(found.values()))}

    assert set(found) == set(each.rows)
    wrong = {
        (row, title): (cells.get(title), expected and expected.text)
        for row, cells in found.items()
        for title, expected in each.rows[row].items()
        if not _reads(cells.get(title), expected)
    }
    assert wrong == {}


def _reads(text: str | None, expected: Truth | None) -> bool:
    if expected is None or text is None:
        return expected is None and text in _EMPTY
    if expected.unit == "moment":
        return text == f"{datetime.fromtimestamp(expected.number / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"
    if text == expected.words:
        return True
    try:
        amount, last_digit = number_in(text, expected.unit)
    except (MisprintError, AssertionError):
        return False
    allowed = abs(expected.number) * expected.tolerance + last_digit / 2 * 1.001
    if expected.unit in _COARSEST:
        allowed = min(allowed, abs(expected.number) * max(_COARSEST[expected.unit], expected.tolerance))
    return abs(amount - expected.number) <= allowed + 1e-9


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [("0.1 GPU h", "GPU h", 0.1), ("3,113,670", "none", 3_113_670), ("$1,132", "$", 1132), ("1.36 kW", "W", 1360)],
)
def test_number_in_text_is_read(text: str, unit: str, number: float) -> None:
    assert number_in(text, unit)[0] == pytest.approx(number)


@pytest.mark.parametrize(("text", "unit"), [("0.1  GPU h", "GPU h"), ("13834.1", "none"), ("12", "$"), ("4 W", "%")])
def test_misprint_is_found(text: str, unit: str) -> None:
    with pytest.raises(MisprintError):
        number_in(text, unit)
