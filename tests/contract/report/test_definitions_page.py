"""docs/definitions.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from exporter.tools.reference import definitions_page
from exporter.tools.reference.check_page import renewed

PAGE = Path(__file__).parents[3] / "docs/definitions.md"


def test_definitions_on_the_page_are_those_of_panels_and_report() -> None:
    text = PAGE.read_text()

    assert renewed(text, definitions_page.table(), definitions_page.BEGIN) == text, "run `make definitions`"
