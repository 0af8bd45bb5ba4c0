"""Every relative link in the documentation leads to a file, and the index leads to every page for users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
]
_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert missing == []


def test_index_leads_to_each_page_for_users() -> None:
    index = ROOT / "docs/index.md"
    listing = [index, *(ROOT / "docs" / name / "README.md" for name in ("kubernetes", "slurm-sites"))]
    linked = {(page.parent / link).resolve() for page in listing for link in _LINK.findall(page.read_text())}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in {"dev", "runbooks"}}

    assert sorted(pages - linked - {index}) == []
