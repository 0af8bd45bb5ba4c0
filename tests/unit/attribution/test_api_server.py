"""What is asked of the API server, and what is made of its refusals."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from exporter.attribution.background_source import SourceError
from exporter.attribution.kubernetes.api_server import WATCH_SECONDS, ApiServer, PodWatch


class _Connection:
    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.sock = self

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)


def test_watch_may_be_silent_for_longer_than_its_server_lets_it_live(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And every answer begins soon: a server that accepts and says nothing is a failure."""
    (tmp_path / "token").write_text("x")
    waits: list[float] = []
    connection = _Connection()

    @contextlib.contextmanager
    def request(_method: str, _url: str, *, timeout: tuple[float, float], **_: object) -> Iterator[Any]:
        waits.append(timeout[1])
        chunks: list[bytes] = [b"a\n"]
        raw = SimpleNamespace(connection=connection)
        yield SimpleNamespace(status_code=200, raw=raw, iter_content=lambda **_: chunks)

    monkeypatch.setattr(requests, "request", request)
    found = list(ApiServer("http://api", tmp_path).lines("/api/v1/pods", {}, stream=True))

    assert found == [b"", b"a"]
    assert waits == [10.0]
    assert connection.timeouts == [WATCH_SECONDS + 30.0]


@pytest.mark.parametrize(
    ("status", "says"), [({"code": 500, "message": "etcd is slow"}, "etcd is slow"), ({"code": 500}, "error")]
)
def test_watch_that_the_server_breaks_off_says_why(status: dict[str, Any], says: str) -> None:
    class Server:
        def lines(self, *_: object, **__: object) -> Iterator[bytes]:
            yield json.dumps({"type": "ERROR", "object": status}).encode()

    watch = PodWatch(cast("ApiServer", Server()), "n1")

    with pytest.raises(SourceError, match=f"^watch: {says}$"):
        watch._follow("5")
