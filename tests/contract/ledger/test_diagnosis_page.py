"""docs/diagnosis.md says what the rules do, of every state."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.ledger.states import TABLE
from exporter.tools.reference.sections import SECTIONS

PAGE = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def test_tables_on_the_page_are_those_of_the_rules() -> None:
    text = PAGE.read_text()

    assert SECTIONS[PAGE.name].renewed(text) == text, "run `make diagnosis`"


@pytest.mark.parametrize("state", [state.name for state in TABLE])
def test_every_state_has_a_row_that_says_what_it_cannot_distinguish(state: str) -> None:
    limits = PAGE.read_text().partition("\n## Limits of each state\n")[2].partition("\n## ")[0]

    assert f"\n| `{state}` | " in limits


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        SECTIONS[PAGE.name].renewed("# Diagnosis\n")
