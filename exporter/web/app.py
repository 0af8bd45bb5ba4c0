"""The WSGI application: a path in, the bytes for it out."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from exporter.exposition.pages import Page
from exporter.exposition.scrape_schedule import Scraper
from exporter.web.auth import BasicAuth

Headers = list[tuple[str, str]]
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_GZIP_FROM = 1024
_PROBES = frozenset({"/-/healthy", "/-/ready"})


class StartResponse(Protocol):
    def __call__(self, status: str, headers: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]: ...


@dataclass(frozen=True, slots=True)
class Pages:
    """What each path answers."""

    metrics: Callable[[Scraper], Page]
    status: Callable[[], str]
    ready: Callable[[], str]
    """Empty when ready, else the reason why not."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: str
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    gzip: bool = False
    """Whether the body is compressed already."""


class App:
    """Answers GET and HEAD on /, the telemetry path, /-/healthy and /-/ready."""

    def __init__(
        self,
        pages: Pages,
        telemetry_path: str,
        auth: BasicAuth,
        headers: tuple[tuple[str, str], ...] = (),
        allows: Callable[[], bool] = lambda: True,
    ) -> None:
        """`allows` is asked before each request but the probes; when it says no, the answer is 429."""
        self._auth = auth
        self._headers = headers
        self._allows = allows
        self._routes: Mapping[str, Callable[[Mapping[str, Any]], _Answer]] = {
            telemetry_path: lambda env: _metrics(pages.metrics(_scraper(env))),
            "/-/healthy": lambda _: _Answer("200 OK", _TEXT, b"healthy\n"),
            "/-/ready": lambda _: _ready(pages.ready()),
            "/": lambda _: _Answer("200 OK", _HTML, pages.status().encode()),
        }

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answer(environ)
        body = answer.body
        headers: Headers = [("Content-Type", answer.content_type), *answer.headers, *self._headers]
        if not answer.gzip and len(body) >= _GZIP_FROM and _accepts_gzip(environ):
            body = gzip.compress(body, compresslevel=4, mtime=0)
            headers.append(("Content-Encoding", "gzip"))
        elif answer.gzip:
            headers.append(("Content-Encoding", "gzip"))
        headers += [
            ("Content-Length", str(len(body))),
            ("Vary", "Accept, Accept-Encoding"),
            ("Cache-Control", "no-store"),
        ]
        start_response(answer.status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: Mapping[str, Any]) -> _Answer:
        if str(environ.get("PATH_INFO", "")) not in _PROBES and not self._allows():
            return _Answer("429 Too Many Requests", _TEXT, b"too many requests\n")
        if not self._auth.allows(str(environ.get("HTTP_AUTHORIZATION", ""))):
            realm = (("WWW-Authenticate", 'Basic realm="gpu-exporter", charset="UTF-8"'),)
            return _Answer("401 Unauthorized", _TEXT, b"unauthorized\n", realm)
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _Answer("405 Method Not Allowed", _TEXT, b"only GET and HEAD\n", (("Allow", "GET, HEAD"),))
        route = self._routes.get(str(environ.get("PATH_INFO", "")))
        return route(environ) if route else _Answer("404 Not Found", _TEXT, b"not found\n")


def _ready(reason: str) -> _Answer:
    if reason:
        return _Answer("503 Service Unavailable", _TEXT, f"not ready: {reason}\n".encode())
    return _Answer("200 OK", _TEXT, b"ready\n")


def _metrics(page: Page) -> _Answer:
    return _Answer("200 OK", page.content_type, page.body, gzip=page.gzip)


def _scraper(environ: Mapping[str, Any]) -> Scraper:
    client = f"{environ.get('REMOTE_ADDR', '')} {environ.get('HTTP_USER_AGENT', '')}"
    return Scraper(client, str(environ.get("HTTP_ACCEPT", "")), _accepts_gzip(environ))


def _accepts_gzip(environ: Mapping[str, Any]) -> bool:
    for part in str(environ.get("HTTP_ACCEPT_ENCODING", "")).split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip().lower() in {"gzip", "*"}:
            return parameters.replace(" ", "").lower() not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
