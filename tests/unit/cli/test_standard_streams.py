"""Output in the encoding of the terminal, whatever it is."""

from __future__ import annotations

import io
import sys

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
