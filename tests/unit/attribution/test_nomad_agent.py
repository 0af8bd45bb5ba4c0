"""What the local agent of Nomad may cost: an answer has an end and a size, and a token is one word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import MAX_BYTES
from exporter.attribution.nomad.source import Agent, _read_answer


class Response:
    """Sends as many of these, however often it is asked."""

    def __init__(self, chunk: bytes, times: int) -> None:
        self._chunk, self._left = chunk, times

    def read1(self, _most: int) -> bytes:
        self._left -= 1
        return self._chunk if self._left >= 0 else b""


def taken(response: Any, seconds: float) -> bytes:
    return _read_answer(response, seconds)


def test_whole_answer_is_taken() -> None:
    assert taken(Response(b"ab", 3), 60.0) == b"ababab"


def test_answer_that_trickles_is_broken_off() -> None:
    with pytest.raises(SourceError, match="does not end"):
        taken(Response(b"x", 1000), -1.0)


def test_answer_that_is_too_large_is_broken_off() -> None:
    with pytest.raises(SourceError, match=f"more than {MAX_BYTES} bytes"):
        taken(Response(bytes(1 << 24), 16), 600.0)


def test_file_that_holds_no_token_is_sent_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\nX-Other: header\n")

    with pytest.raises(SourceError, match="token: not a token"):
        Agent("http://127.0.0.1:1", tmp_path / "token").get("/v1/agent/self")
