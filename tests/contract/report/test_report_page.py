"""docs/report.md has the options and the statuses there are."""

from __future__ import annotations

from pathlib import Path

from exporter.tools.reference.sections import SECTIONS
from exporter.tools.report import client

PAGE = Path(__file__).parents[3] / "docs/report.md"


def test_options_on_the_page_are_those_of_the_command() -> None:
    text = PAGE.read_text()

    assert SECTIONS[PAGE.name].renewed(text) == text, "run `make report-page`"


def test_every_failure_has_its_status_on_the_page() -> None:
    statuses = [kind.status for kind in client.ReportError.__subclasses__()]

    assert len(set(statuses)) == len(statuses)
    assert all(f"\n| {status} | " in PAGE.read_text() for status in statuses)
