"""`gpu-exporter summaries --list` reads what the worker made, and makes nothing itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.tools.report.summaries.store import MADE, Store
from tests.command import run


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "typo"
    done = run("summaries", "--list", "--state.dir", str(folder))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpu-exporter: --state.dir {folder}: No such file or directory\n"
    assert not folder.exists()


def test_the_file_is_neither_changed_nor_locked(tmp_path: Path) -> None:
    file = tmp_path / "summaries.sqlite"
    worker = Store(file)
    worker.ended([("7", 1.0)], 0.0)
    worker.done("7", MADE, 2.0, name="train", user="ada", summary={"job": "7"})
    before = file.read_bytes()
    done = run("summaries", "--list", "--format", "json", "--since", "36500d", "--state.dir", str(tmp_path))

    assert (done.returncode, done.stdout) == (0, '{"job": "7"}\n')
    assert file.read_bytes() == before
    worker.ended([("8", 1.0)], 0.0)  # nobody holds it
    worker.close()


def test_a_store_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Store(tmp_path / "none", reads=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("size", [5000, 100_000])
def test_a_file_that_is_none_is_one_line(tmp_path: Path, size: int) -> None:
    (tmp_path / "summaries.sqlite").write_bytes(os.urandom(size))
    done = run("summaries", "--list", "--state.dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (2, f"gpu-exporter: --state.dir {tmp_path}: file is not a database\n")


def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()  # root, as which tests may run, may write anywhere else

    done = run("summaries", "--state.dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (2, f"gpu-exporter: --state.dir {tmp_path}: lock: Is a directory\n")
