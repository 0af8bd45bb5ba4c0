"""Programs that only `make` starts still fit the code they measure: each can be imported."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("bench", "mutation", "planted", "replay", "scale", "soak")
PROGRAMS = sorted(f"tests.{folder}.{file.stem}" for folder in FOLDERS for file in (TESTS / folder).glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_can_be_imported(name: str) -> None:
    assert importlib.import_module(name)
