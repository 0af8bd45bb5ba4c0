"""Reports by file, in a folder that everybody may write to."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from exporter.progress.folder_source import FolderSource
from exporter.progress.protocol import LARGEST
from exporter.progress.reporters import Reporters

PROC = Path("/proc")


def folder(tmp_path: Path) -> tuple[FolderSource, Reporters]:
    reporters = Reporters()
    return FolderSource(tmp_path, reporters, PROC, lambda: 0.0), reporters


def test_file_counts_for_the_process_it_names_once(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps({"pid": os.getpid(), "samples": 7}))
    source.read_changed()
    source.read_changed()

    assert [each.process.pid for each in reporters.all()] == [os.getpid()]
    assert reporters.results()["accepted"] == 1


def test_file_for_somebody_elses_process_is_refused(tmp_path: Path) -> None:
    """This test's user is not that of the process, or the process calls itself otherwise."""
    procfs, reporters = tmp_path / "proc", Reporters()
    files = tmp_path / "files"
    files.mkdir()
    for pid, user, names in ((71, os.getuid() + 1, "71"), (72, os.getuid(), "72\t5")):
        (procfs / str(pid)).mkdir(parents=True)
        (procfs / str(pid) / "stat").write_text(f"{pid} (python3) S 1 {' '.join(['0'] * 17)} 100 0 0 0")
        (procfs / str(pid) / "status").write_text(f"Uid:\t{user}\t0\t0\t0\nNSpid:\t{names}\n")
        (files / f"{pid}.json").write_text(json.dumps({"pid": pid, "samples": 7}))
    FolderSource(files, reporters, procfs, lambda: 0.0).read_changed()

    assert reporters.all() == ()
    assert reporters.results()["not_this_process"] == 2


def test_users_files_beyond_the_quota_silence_nobody(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    for number in range(1100):
        (tmp_path / f"{number:04d}.json").write_text("")
    mine = tmp_path / "zzz.json"
    mine.write_text(json.dumps({"pid": os.getpid(), "samples": 7}))
    if os.getuid() == 0:
        os.chown(mine, 4242, 4242)
    source.read_changed()

    results = reporters.results()
    assert results["over_quota"] == 1
    assert results["malformed"] <= 256
    if os.getuid() == 0:  # another user's report is looked at all the same: it names a process of root
        assert results["not_this_process"] == 1


def test_files_left_behind_take_no_place_of_those_that_report(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    for number in range(400):
        file = tmp_path / f"{number:04d}.json"
        new = number % 20 == 0
        file.write_text(json.dumps({"pid": os.getpid() if new else 1 << 22, "samples": 7}))
        if not new:
            os.utime(file, (1e9 + number, 1e9 + number))
    source.read_changed()

    assert reporters.results()["accepted"] == 20


def test_folder_full_of_one_users_files_silences_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.progress.folder_source._ENTRIES", 20)
    source, reporters = folder(tmp_path)
    for number in range(90):
        (tmp_path / f"{number}.json").write_text("")
        (tmp_path / f"{number}.other").write_text("")
    for number in range(10):
        (tmp_path / f"mine{number}.json").write_text(json.dumps({"pid": os.getpid(), "samples": 7}))
    for _ in range(5):
        source.read_changed()

    assert reporters.results()["accepted"] == 10
    assert "more than 20 entries" in source.error

    for number in range(10):
        os.utime(tmp_path / f"mine{number}.json", (1e9, 1e9))
    source.read_changed()
    assert reporters.results()["accepted"] == 20


def test_links_pipes_and_large_files_are_refused(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    (tmp_path / "link.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "large.json").write_text(" " * (LARGEST + 1))
    source.read_changed()

    assert reporters.results()["malformed"] == 3
    assert source.error == ""


def test_folder_whose_files_may_not_be_looked_at_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    source, _ = folder(tmp_path)
    (tmp_path / "mine.json").write_text("{}")
    monkeypatch.setattr(Path, "lstat", refused)
    source.read_changed()

    assert "Permission denied" in source.error


def test_missing_folder_is_told(tmp_path: Path) -> None:
    source, _ = folder(tmp_path / "none")
    source.read_changed()

    assert "No such file" in source.error
