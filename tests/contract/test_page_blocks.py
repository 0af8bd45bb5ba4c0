"""Every shell block of a user page is run somewhere, or listed with the reason why it is not."""

from __future__ import annotations

import re

import pytest

from tests.contract.test_readme import MAKEFILES
from tests.walk.blocks import listed, user_pages, written

TARGETS = {
    f"make {name}" for file in MAKEFILES for name in re.findall(r"^([a-z0-9-]+):", file.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("path", list(user_pages()))
def test_shell_blocks_of_a_page_are_listed(path: str) -> None:
    blocks = written(path)
    rows = listed()[path].blocks if path in listed() else []

    assert len(blocks) == len(rows)
    assert [
        text.splitlines()[0] for text, row in zip(blocks, rows, strict=True) if not text.startswith(row.starts)
    ] == []


def test_listed_blocks_are_run_or_have_a_reason() -> None:
    rows = [(path, row) for path, page in listed().items() for row in page.blocks]

    assert [(path, row.starts) for path, row in rows if bool(row.runs) == bool(row.not_run)] == []
    assert {row.runs for _, row in rows if row.runs} <= {"bare", "serve"} | TARGETS
