"""A stored text that code no longer makes: the failure says how to write it anew."""

from __future__ import annotations

from pathlib import Path

from tests.golden import explain

TEST = "tests/contract/test_captures.py::test_samples_of_all_captures_are_the_expected_ones"


def test_failure_says_what_differs_and_how_to_update(tmp_path: Path) -> None:
    stored = tmp_path / "page.txt"
    stored.write_text("gpu_up 1\n")

    said = explain(stored, "gpu_up 0\n", TEST).splitlines()

    assert said[0].endswith(f"pytest tests/contract/test_captures.py --update, and read git diff {stored}")
    assert {"-gpu_up 1", "+gpu_up 0"} <= set(said)
    assert explain(stored, "gpu_up 1\n", TEST) == ""


def test_missing_text_is_a_difference(tmp_path: Path) -> None:
    assert "+gpu_up 0" in explain(tmp_path / "page.txt", "gpu_up 0\n", TEST)
