"""The file of a capture: what is none is told in one line, and what cannot be written before anything is recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.tools.capture import replay
from exporter.tools.capture.replay import load
from tests.command import run

_HEAD = '{"format": "gpu-exporter capture", "version": 1, '
_WRITTEN, _VERSION = "what `gpu-exporter capture` writes", "format 'gpu-exporter capture', version 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"not JSON (Expecting value: line 1 column 1 (char 0)); expected {_WRITTEN}"),
        ("[]", "not a capture; expected a JSON object"),
        ("{}", f"not a capture; expected {_VERSION}"),
        ('{"format": "gpu-exporter capture", "version": 2}', f"not a capture; expected {_VERSION}"),
        (
            f'{_HEAD}"system": {{}}, "devices": [{{}}], "events": []}}',
            f"not a capture (KeyError 'calls'); expected {_WRITTEN}",
        ),
        (
            f'{_HEAD}"system": {{"[]": []}}, "devices": [], "events": []}}',
            f"not a capture (ValueError a timeline is empty or out of order); expected {_WRITTEN}",
        ),
        (
            f'{_HEAD}"system": {{}}, "devices": [], "events": [1]}}',
            f"not a capture (TypeError cannot unpack non-iterable int object); expected {_WRITTEN}",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_says_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=re.escape(said)):
        load(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 200_000, "not JSON ("),  # whether it recurses or overflows
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b" " * 2000, "larger than 1 KiB"),
        (b"[]", "not a capture; expected a JSON object"),
    ],
    ids=["deep", "bytes", "large", "list"],
)
def test_what_is_no_capture_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    monkeypatch.setattr(replay, "_MAX_BYTES", 1 << 10 if says.startswith("larger") else len(content))
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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "expected a FILE to write (see gpu-exporter capture --help)"),
        (("a.json", "--capture.file", "b.json"), "expected one file, got 'a.json' and --capture.file 'b.json'"),
    ],
)
def test_command_line_without_one_file_is_refused(arguments: tuple[str, ...], says: str) -> None:
    done = run("capture", *arguments, "--simulate", "1xT4")

    assert (done.returncode, done.stderr) == (2, f"gpu-exporter: capture: {says}\n")


@pytest.mark.parametrize("name", ["FILE", "--capture.file"])
def test_recording_is_in_the_file_that_either_way_names(tmp_path: Path, name: str) -> None:
    file = tmp_path / "capture.json"
    named = (str(file),) if name == "FILE" else (name, str(file))
    done = run("capture", *named, "--simulate", "1xT4", "--capture.duration", "300ms", "--sample.interval", "100ms")

    assert (done.returncode, done.stderr) == (0, f"wrote {file} ({file.stat().st_size} bytes)\n")
    driver = load(file)
    driver.open()
    assert len(driver.devices()) == 1


def test_options_say_how_long_and_how_often_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, ...]] = []

    def record(_: object, seconds: float, interval: float, **named: object) -> dict[str, object]:
        given.append((seconds, interval, named["mask"]))
        return {}

    monkeypatch.setattr("exporter.tools.capture.record.record", record)
    times = ("--capture.duration", "9s", "--sample.interval", "3s")
    run("capture", str(tmp_path / "capture.json"), "--simulate", "1xT4", *times)

    assert given == [(9.0, 3.0, True)]
