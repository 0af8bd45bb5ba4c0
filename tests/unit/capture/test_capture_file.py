"""The file of a capture: what is none is told in one line, and what cannot be written before anything is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.capture import replay
from tests.command import run


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 200_000, "not JSON (maximum recursion depth"),
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b" " * 2000, "larger than 1 KiB"),
        (b"[]", "not a capture; expected a JSON object"),
    ],
    ids=["deep", "bytes", "large", "list"],
)
def test_what_is_no_capture_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    monkeypatch.setattr(replay, "_LARGEST", 1 << 10 if says.startswith("larger") else len(content))
    file = tmp_path / "capture.json"
    file.write_bytes(content)
    done = run("once", "--driver.capture", str(file))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"gpu-exporter: --driver.capture {file}: {says}")


@pytest.mark.parametrize("name", ["", "nowhere/capture.json"])
def test_what_cannot_be_written_is_told_before_anything_is_recorded(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    done = run("capture", str(file), "--simulate", "1xT4", "--capture.duration", "36500d")

    assert (done.returncode, done.stderr) == (2, f"gpu-exporter: capture: {file}: not a file that can be written\n")
