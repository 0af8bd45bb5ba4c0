"""docs/definitions.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from exporter.tools.reference.sections import SECTIONS

PAGE = Path(__file__).parents[3] / "docs/definitions.md"


def test_definitions_on_the_page_are_those_of_panels_and_report() -> None:
    text = PAGE.read_text()

    assert SECTIONS[PAGE.name].renewed(text) == text, "run `make definitions`"
