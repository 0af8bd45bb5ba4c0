"""A stored text that code no longer makes: the failure says how to write it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import compare


def test_failure_says_what_differs_and_how_to_update(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    stored = tmp_path / "page.txt"
    stored.write_text("gpu_up 1\n")

    with pytest.raises(pytest.fail.Exception) as failed:
        compare(stored, "gpu_up 0\n", request)

    said = str(failed.value)
    assert "pytest tests/contract/passes/test_golden.py --update, and read git diff" in said
    assert {"-gpu_up 1", "+gpu_up 0"} <= set(said.splitlines())
    assert stored.read_text() == "gpu_up 1\n"


def test_missing_text_is_a_difference(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"\+gpu_up 0"):
        compare(tmp_path / "page.txt", "gpu_up 0\n", request)
