"""The reference in docs/ is what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.reference.pages import PAGES
from exporter.sampling.families import families

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_page_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run `make reference`"


def test_no_family_is_declared_twice() -> None:
    names = [family.name for family in families()]

    assert sorted(set(names)) == sorted(names)
