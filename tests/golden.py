"""Stored texts that code must make again, word for word."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 60
"""Of a difference that are shown."""


def compare(stored: Path, made: str, request: pytest.FixtureRequest) -> None:
    """Fail where `made` is not what is stored, and say how the stored text is written anew."""
    if request.config.getoption("--update"):
        stored.write_text(made)
    before = stored.read_text() if stored.exists() else ""
    if made != before:
        lines = difflib.unified_diff(before.splitlines(), made.splitlines(), "stored", "made", lineterm="", n=1)
        name = stored.relative_to(ROOT) if stored.is_relative_to(ROOT) else stored
        pytest.fail("\n".join((difference(str(name), request.node.nodeid), *list(lines)[:MOST_LINES])), pytrace=False)


def difference(name: str, test: str) -> str:
    return (
        f"{name} differs. If the change is meant: pytest {test.partition('::')[0]} --update, and read git diff {name}"
    )
