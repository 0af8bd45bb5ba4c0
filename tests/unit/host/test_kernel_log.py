"""The kernel log: records that are there and that come, each whole and once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.sampling.xids import KernelLog


def test_records_that_come_later_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;old\n")
    with KernelLog(path) as log:
        assert log.read() == ["6,1,1,-;old"]
        with path.open("a") as writer:
            writer.write("6,2,2,-;new\n6,3,3,-;newer\n")

        assert log.wait(20)
        assert log.read() == ["6,2,2,-;new", "6,3,3,-;newer"]
        assert log.read() == []


def test_records_of_the_past_are_read_and_none_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    records = [f"6,{number},{number},-;{'x' * 300}" for number in range(2500)]
    path.write_text("".join(f"{record}\n" for record in records))
    with KernelLog(path) as log:
        parts = [log.read() for _ in range(4)]

    assert [each for part in parts for each in part] == records
    assert 1000 <= len(parts[0]) < 1100


def test_half_a_record_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with KernelLog(path) as log:
        writer = os.open(path, os.O_WRONLY)
        assert not log.wait(0)
        os.write(writer, b"6,1,1,-;be")
        assert log.read() == []
        os.write(writer, b"gun\n\xff\n")
        assert log.read() == ["6,1,1,-;begun", "\N{REPLACEMENT CHARACTER}"]
        os.close(writer)


def test_line_without_end_is_not_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("x" * 100_000 + "\n")
    with KernelLog(path) as log:
        (line,) = log.read()

    assert len(line) <= 2 * 8192


def test_records_that_were_overwritten_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /dev/kmsg tells it: EPIPE once, then the oldest that is left, then EAGAIN."""
    path = tmp_path / "kmsg"
    path.touch()
    answers: list[bytes | OSError] = [BrokenPipeError(), b"6,9,9,-;left\n", BlockingIOError()]

    def read(_descriptor: int, _size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with KernelLog(path) as log:
        monkeypatch.setattr("exporter.sampling.xids.os.read", read)
        assert log.read() == ["6,9,9,-;left"]


def test_log_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KernelLog(tmp_path / "kmsg")
