"""Descriptors of procfs that are kept: of living processes alone, bounded, and never of another file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.host.kept_files import KeptFiles

PROCFS = Path("/proc")


@pytest.fixture
def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


def descriptors(text: str) -> int:
    folder = Path("/proc/self/fd")
    return sum(text in str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink())


def test_process_that_ends_is_empty_and_closed(child: subprocess.Popen[bytes]) -> None:
    files, path = KeptFiles(PROCFS), f"/proc/{child.pid}/stat"
    first = files.parsed(path, str)
    assert first.startswith(f"{child.pid} (")
    assert files.parsed(path, str).split()[21] == first.split()[21]
    assert descriptors(path) == 1

    child.communicate()

    assert files.parsed(path, str) == ""
    assert descriptors(str(child.pid)) == 0


def test_what_is_read_no_more_is_closed(child: subprocess.Popen[bytes]) -> None:
    files, path = KeptFiles(PROCFS), f"/proc/{child.pid}/stat"
    files.parsed(path, str)
    files.close_unread()
    assert descriptors(path) == 1

    files.close_unread()

    assert descriptors(path) == 0
    child.communicate()


def test_over_the_limit_files_are_read_all_the_same() -> None:
    files = KeptFiles(PROCFS, limit=1)

    assert [files.parsed(f"/proc/self/{name}", str) != "" for name in ("stat", "status", "cmdline")] == [True] * 3
    assert len(files._open) == 1


def test_longer_than_a_chunk_is_read_whole() -> None:
    assert KeptFiles(PROCFS).parsed("/proc/self/maps", str).count("\n") > 20


def test_files_that_are_no_procfs_are_opened_each_time(tmp_path: Path) -> None:
    files, file = KeptFiles(tmp_path), tmp_path / "stat"
    file.write_text("one")
    assert files.parsed(str(file), str) == "one"

    new = tmp_path / "new"
    new.write_text("two")
    new.replace(file)

    assert files.parsed(str(file), str) == "two"
    file.unlink()
    assert files.parsed(str(file), str) == ""


def test_what_says_the_same_is_parsed_once(child: subprocess.Popen[bytes]) -> None:
    files, path = KeptFiles(PROCFS), f"/proc/{child.pid}/oom_score_adj"
    first = files.parsed(path, list)

    assert files.parsed(path, list) is first
    Path(path).write_text("7")
    assert files.parsed(path, list) == ["7", "\n"]
    assert first != ["7", "\n"]
    child.communicate()
    assert files.parsed(path, list) == []
