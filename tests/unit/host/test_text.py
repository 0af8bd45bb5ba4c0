"""Small files are read whole, and what cannot be read is nothing."""

import os
from pathlib import Path

import pytest

from exporter.host.text import count, natural, read_regular, read_text


def test_long_file_is_read_whole(tmp_path: Path) -> None:
    text = "line\n" * 20_000
    (tmp_path / "long").write_text(text)

    assert read_text(str(tmp_path / "long")) == text


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_text(str(tmp_path / "none")) == ""
    assert read_text(str(tmp_path)) == ""


def test_bytes_that_are_no_text_are_kept_apart_not_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"name \xff\n")

    assert read_text(str(tmp_path / "bytes")) == "name \N{REPLACEMENT CHARACTER}\n"


def test_only_plain_digits_are_a_number() -> None:
    assert [natural(word) for word in ("12", "-1", "1e3", "\N{SUPERSCRIPT TWO}", "")] == [12, None, None, None, None]


def test_number_that_no_kernel_prints_is_none() -> None:
    assert natural("9" * 20) == 10**20 - 1
    assert [natural("9" * digits) for digits in (21, 400, 5000)] == [None, None, None]


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None, 1 << 53, 10**400])
def test_what_counts_nothing_is_no_count(value: object) -> None:
    assert count(value) is None
    assert (count(0), count((1 << 53) - 1)) == (0, (1 << 53) - 1)


def test_what_somebody_feeds_is_no_plain_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = os.open(pipe, os.O_RDWR)
    os.write(feeder, b"1\n")
    try:
        assert read_regular(pipe, 100) is None
    finally:
        os.close(feeder)


def test_no_more_of_a_file_is_read_than_asked_for(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("9" * 5000)

    assert read_regular(tmp_path / "long", 100) == b"9" * 100
