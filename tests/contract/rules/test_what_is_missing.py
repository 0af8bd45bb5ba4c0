"""What the generators say of an alert that has no runbook or no case yet: one line with the file to write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deploy.prometheus import generate, pages
from tests.contract.rules import golden

ROOT = Path(__file__).resolve().parents[3]
PAGE = Path("docs/runbooks/gpulost.md")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the generator reads, in a folder of its own."""
    shutil.copytree(ROOT / "docs/runbooks", tmp_path / "docs/runbooks")
    (tmp_path / generate.README).parent.mkdir(parents=True)
    shutil.copy(ROOT / generate.README, tmp_path / generate.README)
    (tmp_path / pages.SERVED).parent.mkdir(parents=True)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    return tmp_path


def test_generator_writes_what_is_there_already(tree: Path) -> None:
    assert generate.main() == 0
    assert (tree / PAGE).read_text() == (ROOT / PAGE).read_text()


def test_missing_runbook_is_one_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / PAGE).unlink()

    assert generate.main() == 2
    assert capsys.readouterr().err == (
        "docs/runbooks/gpulost.md: missing, and alert GpuLost leads to it: copy another runbook and change it\n"
    )
    assert not (tree / "deploy/prometheus/rules").exists()


def test_runbook_without_its_marks_is_one_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / PAGE).write_text("# GpuLost\n")

    assert generate.main() == 2
    assert capsys.readouterr().err == (
        "docs/runbooks/gpulost.md: expected the lines <!-- rule: generated --> and <!-- rule: end -->, once each\n"
    )


def test_alert_without_a_case_is_one_line() -> None:
    assert golden.without_case(["GpuLost", "GpuNewAlert"]) == [
        "GpuNewAlert: no case fires it: add one to tests/contract/rules/cases_*.py"
    ]
