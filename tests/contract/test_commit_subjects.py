"""The git hook that refuses a commit subject which is not `area: imperative` in at most 72 characters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / ".ci/hooks/commit-msg"


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("slurm: ignore the extern step's placeholder process\n\nWhy it is so.\n", True),
        ("# a comment of git\nmerge: one judge of faults\n", True),
        pytest.param("docs: add a page\n" + "+ a line\n" * 100_000, True, id="git commit -v"),
        ("Fix things\n", False),
        ("ledger: Capital letters are no imperative of ours\n", False),
        (f"docs: {'a' * 66}\n", True),
        (f"docs: {'a' * 67}\n", False),
    ],
)
def test_hook_accepts_an_area_and_72_characters(tmp_path: Path, message: str, accepted: bool) -> None:  # noqa: FBT001 - a case
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message)

    ended = subprocess.run([HOOK, file], capture_output=True, text=True, check=False)

    assert (ended.returncode == 0) is accepted
    assert ended.stderr == "" if accepted else ended.stderr.startswith("commit subject: expected ")
