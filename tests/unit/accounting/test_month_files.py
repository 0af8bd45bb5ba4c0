"""Files, options and terminals that a month of `report` cannot use, or has to do with."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from exporter.tools.report.accounting.command import DATABASE
from exporter.tools.report.accounting.database import Cursor, Database
from tests import command
from tests.command import Done

ROW = {
    "seq": 1, "allocation": "7", "start": 1_790_899_200.0, "end": 1_790_902_800.0, "hour": 497_472, "model": "A100",
    "facts": {"owner": Owner("slurm:7", "slurm", slurm_job="7", account="日本")}, "profile": "", "used": 0.0,
    "until": 1_790_902_800.0, "joules": 0.0, "states": {"computing": 3600.0},
}  # fmt: skip
"""The first hour of 2 October 2026."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one hour of one job."""
    with contextlib.closing(Database(tmp_path / DATABASE)) as database:
        database.add("gpu01", "gpu01", Cursor("s", 1), (ROW,), 0.0)
    return tmp_path / DATABASE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("4711",), "--month: expected without NAME"),
        (("--user", "ada"), "--month: expected without --user"),
        (("--all",), "--month: expected without --all"),
        (("--changed-at", "2026-10-03"), "--month: expected without --changed-at"),
        (("--format", "short"), "--month: expected without --format short"),
        (("--format", "focus"), "--format focus: expected prices in --prices.file"),
    ],
)
def test_option_that_a_month_would_ignore_is_refused(options: tuple[str, ...], expected: str, file: Path) -> None:
    month = ("report", "--accounting.database", str(file), "--month", "2026-10")

    assert command.run(*month, *options) == Done(2, "", f"gpu-exporter: {expected}\n")


def test_names_are_utf_8_in_files_whatever_the_terminal_is(file: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{per_gpu_hour: 2}]")
    report = (sys.executable, "-m", "exporter", "report", "--accounting.database", str(file), "--month", "2026-10")

    for form in ("csv", "focus"):
        done = subprocess.run(
            (*report, "--prices.file", str(tmp_path / "prices.yaml"), "--format", form),
            env={"PYTHONIOENCODING": "latin-1"}, capture_output=True, check=True,
        )  # fmt: skip
        assert "日本".encode() in done.stdout


def test_copy_in_a_folder_that_nobody_may_write_to_is_read(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes no file beside it, nor tries to."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    before = sorted(tmp_path.iterdir())

    with contextlib.closing(Database(file, reads=True)) as database:
        assert [each.name for each in database.totals("team", 0.0, 1e10)] == ["日本"]
        assert sorted(tmp_path.iterdir()) == before

    assert command.run("report", "--accounting.database", str(file), "--month", "2026-10").returncode == 0


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("PRAGMA user_version = 99; CREATE TABLE cursors (a)", "of version 99, expected 4: of another gpu-exporter"),
        ("PRAGMA user_version = 2; CREATE TABLE cursors (a)", "of version 2, expected 4: of another gpu-exporter"),
        ("CREATE TABLE store (id TEXT); PRAGMA user_version = 1", "not the database of `gpu-exporter accounting`"),
        ("CREATE TABLE jobs (id TEXT)", "not the database of `gpu-exporter accounting`"),
    ],
)
def test_file_of_another_program_or_version_is_named_and_not_changed(content: str, error: str, tmp_path: Path) -> None:
    """A node's store has the same name."""
    file = tmp_path / DATABASE
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.executescript(content)
    before = file.read_bytes()

    done = command.run("report", "--accounting.database", str(file), "--month", "2026-10")

    assert done == Done(2, "", f"gpu-exporter: --accounting.database {file}: {error}\n")
    assert file.read_bytes() == before


def test_service_leaves_the_database_of_a_newer_one_alone(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.executescript("PRAGMA user_version = 99; CREATE TABLE cursors (a)")

    done = command.run("accounting", "--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    error = "of version 99, expected 4: of another gpu-exporter"
    assert done == Done(2, "", f"gpu-exporter: --state.dir {tmp_path}: {error}\n")
