"""Stored texts that code must make again, word for word."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 60
"""Of a difference that are shown."""


def compare(stored: Path, made: str, request: pytest.FixtureRequest) -> None:
    """Fail where `made` is not what is stored, and say how the stored text is written anew."""
    if request.config.getoption("--update"):
        stored.write_text(made)
    difference = explain(stored, made, request.node.nodeid)
    if difference:
        pytest.fail(difference, pytrace=False)


def explain(stored: Path, made: str, test: str) -> str:
    """What to do about a difference, and what it is; empty where there is none."""
    before = stored.read_text() if stored.exists() else ""
    if made == before:
        return ""
    name = str(stored.relative_to(ROOT) if stored.is_relative_to(ROOT) else stored)
    advice = f"If the change is meant: pytest {test.partition('::')[0]} --update, and read git diff {name}"
    lines = difflib.unified_diff(before.splitlines(), made.splitlines(), "stored", "made", lineterm="", n=1)
    return "\n".join((f"{name} differs. {advice}", *list(lines)[:MAX_LINES]))
