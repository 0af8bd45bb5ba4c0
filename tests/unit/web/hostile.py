"""A server to be maltreated, and clients of it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import requests

from exporter.web.app import App, Policy, RouteHandlers
from exporter.web.server import Server
from exporter.web.tls import Certificates

BODY = b"gpu_up 1\n" * 30_000


def pages() -> RouteHandlers:
    return RouteHandlers(metrics=lambda _: ("text/plain", BODY), status=lambda: "<p>ok", ready=lambda: "")


@contextlib.contextmanager
def serving(policy: Policy | None = None, certificates: Certificates | None = None) -> Iterator[int]:
    fixed = policy or Policy()
    server = Server(App(pages(), "/metrics", lambda: fixed), ("127.0.0.1", 0), 2, certificates)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def client(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


def scrape(port: int, scheme: str = "http") -> int:
    answer = requests.get(f"{scheme}://127.0.0.1:{port}/metrics", timeout=10, verify=False)  # noqa: S501 - made here
    assert answer.content == BODY
    return answer.status_code


def said(stream: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while chunk := stream.recv(65536):
            found += chunk
    return found
