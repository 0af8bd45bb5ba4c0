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
def test_every_state_has_a_section_that_says_what_it_cannot_tell(state: str) -> None:
    _, heading, rest = PAGE.read_text().partition(f"\n### {state}\n")
    section = rest.partition("\n### ")[0].partition("\n## ")[0]

    assert heading
    assert "cannot tell" in " ".join(section.split())


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        SECTIONS[PAGE.name].renewed("# Diagnosis\n")
