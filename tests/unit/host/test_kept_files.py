"""Descriptors of procfs that are kept: of living processes alone, bounded, and never of another file."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from exporter.host.text import KeptFile, KeptFiles, room

PROCFS = Path("/proc")


@pytest.fixture
def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


def descriptors(text: str) -> int:
    folder = Path("/proc/self/fd")
    return sum(text in str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink())


def test_process_that_ends_is_empty_and_closed(child: subprocess.Popen[bytes]) -> None:
    files = KeptFiles(PROCFS, 9)
    file = KeptFile(files, str(child.pid), "stat")
    assert file.read().startswith(b"%d (" % child.pid)
    assert (descriptors(f"/proc/{child.pid}/stat"), files.room) == (1, 8)

    child.communicate()

    assert (file.read(), file.read()) == (b"", b"")
    assert (descriptors(str(child.pid)), files.room) == (0, 9)


def test_descriptor_is_closed_with_its_object(child: subprocess.Popen[bytes]) -> None:
    files = KeptFiles(PROCFS, 9)
    file = KeptFile(files, str(child.pid), "stat")
    file.read()
    assert descriptors(f"/proc/{child.pid}/stat") == 1

    del file

    assert (descriptors(f"/proc/{child.pid}/stat"), files.room) == (0, 9)
    child.communicate()


def test_over_the_limit_files_are_read_all_the_same() -> None:
    files = KeptFiles(PROCFS, 1)
    kept = [KeptFile(files, "self", name) for name in ("stat", "status", "cmdline")]

    for _ in range(2):
        assert [file.read() != b"" for file in kept] == [True] * 3
        assert files.room == 0
    del kept[0]
    assert files.room == 1


def test_longer_than_a_chunk_is_read_whole() -> None:
    files = KeptFiles(PROCFS, 9)

    assert KeptFile(files, "self", "maps").read().count(b"\n") > 20
    assert files.room == 9


def test_files_that_are_no_procfs_are_opened_each_time(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    text = tmp_path / "7/stat"
    text.write_text("one")
    file = KeptFile(KeptFiles(tmp_path, 9), "7", "stat")
    assert file.read() == b"one"

    new = tmp_path / "new"
    new.write_text("two")
    new.replace(text)

    assert file.read() == b"two"
    text.unlink()
    assert file.read() == b""


def test_what_says_the_same_is_the_same_object(child: subprocess.Popen[bytes]) -> None:
    kept = [KeptFile(KeptFiles(PROCFS, room), str(child.pid), "oom_score_adj") for room in (9, 0)]
    for file in kept:
        Path(f"/proc/{child.pid}/oom_score_adj").write_text("300")
        first = file.read()

        assert file.read() is first
        Path(f"/proc/{child.pid}/oom_score_adj").write_text("700")
        assert (first, file.read()) == (b"300\n", b"700\n")
    child.communicate()


def test_room_is_a_part_of_what_this_program_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {20: 5, 1024: 256, 1 << 20: 300, resource.RLIM_INFINITY: 300}
    for soft, expected in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert room(300, 1 / 4) == expected
