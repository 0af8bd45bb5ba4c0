"""What is asked of the API server, and what is made of its refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from exporter.attribution.background_source import SourceError
from exporter.attribution.kubernetes.api_server import WATCH_SECONDS, ApiServer, PodWatch


def test_watch_may_be_silent_for_longer_than_a_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    waits: list[float] = []

    def get(_url: str, *, timeout: tuple[float, float], **_: object) -> None:
        waits.append(timeout[1])
        raise requests.ConnectionError("refused")

    monkeypatch.setattr(requests, "get", get)
    server = ApiServer("http://api", tmp_path)
    for stream in (False, True):
        with pytest.raises(SourceError, match=r"^http://api: refused$"):
            list(server.lines("/api/v1/pods", {}, stream=stream))

    assert waits[0] < 60 < WATCH_SECONDS < waits[1]


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
