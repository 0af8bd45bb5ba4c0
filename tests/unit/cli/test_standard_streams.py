"""Output in the encoding of the terminal, whatever it is."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter.config.logs import prepare_streams, write_utf8


def written(monkeypatch: pytest.MonkeyPatch, *, in_utf8: bool) -> bytes:
    """What a terminal gets that knows Western European letters alone."""
    content = io.BytesIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="latin-1"))
        prepare_streams()
        if in_utf8:
            write_utf8()
        sys.stdout.write("José ██")
        sys.stdout.flush()
        return content.getvalue()


def test_letters_that_the_terminal_lacks_end_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bars of a report did, with a traceback."""
    assert written(monkeypatch, in_utf8=False) == "José ??".encode("latin-1")


def test_json_and_pages_are_utf8_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, in_utf8=True).decode() == "José ██"


def test_text_reader_within_the_process_takes_all_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = io.StringIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", reader)
        write_utf8()
        sys.stdout.write("José ██")

    assert reader.getvalue() == "José ██"


def test_streams_that_were_closed_are_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are started inherit the input, and the descriptors outlive what writes to them."""
    saved = os.dup(0)
    os.close(0)
    try:
        with monkeypatch.context() as patched:
            for name in ("stdout", "stderr", "__stderr__"):
                patched.setattr(sys, name, None)
            prepare_streams()
            output, errors = sys.stdout, sys.stderr
        target: Any = errors.buffer
        assert (output.fileno(), output.errors, errors.fileno(), target.closefd) == (1, "replace", 2, False)
        assert (os.fstat(0).st_rdev, os.get_inheritable(0)) == (Path(os.devnull).stat().st_rdev, True)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
