"""The application: a path in, the bytes for it out."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from exporter.exposition.pages import Page
from exporter.exposition.scrape_schedule import Scraper
from exporter.web.auth import BasicAuth, Verdict
from exporter.web.lanes import Lane
from exporter.web.response import Environ, Response

log = logging.getLogger(__name__)

Headers = list[tuple[str, str]]
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_GZIP_FROM = 1024
_PROBES = frozenset({"/-/healthy", "/-/ready"})


@dataclass(frozen=True, slots=True)
class Pages:
    """What each path answers."""

    metrics: Callable[[Scraper], Page]
    status: Callable[[], str]
    ready: Callable[[], str]
    """Empty when ready, else the reason why not."""
    unhealthy: Callable[[], str] = str
    """The reason why only a new process can help; empty while none is needed."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: str
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    gzip: bool = False
    """Whether the body is compressed already."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the web configuration file says of every request."""

    auth: BasicAuth = field(default_factory=lambda: BasicAuth({}))
    headers: tuple[tuple[str, str], ...] = ()
    allows: Callable[[], bool] = lambda: True
    """Asked before each request but the probes; when it says no, the answer is 429."""


class App:
    """Answers GET and HEAD on /, the telemetry path, /-/healthy and /-/ready."""

    def __init__(self, pages: Pages, telemetry_path: str, policy: Callable[[], Policy] = Policy) -> None:
        """`policy` is asked at each request: the file may change."""
        self._policy = policy
        self._failed = ""
        self._routes: Mapping[str, Callable[[Environ], _Answer]] = {
            telemetry_path: lambda env: _metrics(pages.metrics(_scraper(env))),
            "/-/healthy": lambda _: _healthy(pages.unhealthy()),
            "/-/ready": lambda _: _ready(pages.ready()),
            "/": lambda _: _Answer("200 OK", _HTML, pages.status().encode(errors="replace")),
        }

    def lane(self, environ: Environ) -> Lane:
        """Where the answer is made: at once, beside other pages, or one after the other."""
        if not self._policy().auth.settled(_authorization(environ)):
            return Lane.SLOW
        path = _path(environ)
        if path in _PROBES or path not in self._routes:
            return Lane.LOOP
        return Lane.SLOW if path == "/" else Lane.PAGE

    def respond(self, environ: Environ) -> Response:
        """The answer; never raises."""
        try:
            return self._respond(environ)
        except Exception as error:  # a bug in one page must not end the thread that answers the others
            if repr(error) != self._failed:
                log.exception("%s failed", _path(environ))
            self._failed = repr(error)
            return Response("500 Internal Server Error")

    def _respond(self, environ: Environ) -> Response:
        policy = self._policy()
        answer = self._answer(environ, policy)
        body = answer.body
        headers: Headers = [("Content-Type", answer.content_type), *answer.headers, *policy.headers]
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
        return Response(answer.status, tuple(headers), b"" if environ["REQUEST_METHOD"] == "HEAD" else body)

    def _answer(self, environ: Environ, policy: Policy) -> _Answer:
        if _path(environ) not in _PROBES and not policy.allows():
            return _Answer("429 Too Many Requests", _TEXT, b"too many requests\n")
        verdict = policy.auth.check(_authorization(environ), str(environ.get("REMOTE_ADDR", "")))
        if verdict is Verdict.WAIT:
            return _Answer("429 Too Many Requests", _TEXT, b"too many wrong passwords\n", (("Retry-After", "10"),))
        if verdict is Verdict.REFUSED:
            realm = (("WWW-Authenticate", 'Basic realm="gpu-exporter", charset="UTF-8"'),)
            return _Answer("401 Unauthorized", _TEXT, b"unauthorized\n", realm)
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _Answer("405 Method Not Allowed", _TEXT, b"only GET and HEAD\n", (("Allow", "GET, HEAD"),))
        route = self._routes.get(_path(environ))
        return route(environ) if route else _Answer("404 Not Found", _TEXT, b"not found\n")


def _path(environ: Environ) -> str:
    return str(environ.get("PATH_INFO", ""))


def _authorization(environ: Environ) -> str:
    return str(environ.get("HTTP_AUTHORIZATION", ""))


def _healthy(reason: str) -> _Answer:
    if reason:
        return _Answer("503 Service Unavailable", _TEXT, f"unhealthy: {reason}\n".encode())
    return _Answer("200 OK", _TEXT, b"healthy\n")


def _ready(reason: str) -> _Answer:
    if reason:
        return _Answer("503 Service Unavailable", _TEXT, f"not ready: {reason}\n".encode())
    return _Answer("200 OK", _TEXT, b"ready\n")


def _metrics(page: Page) -> _Answer:
    return _Answer("200 OK", page.content_type, page.body, gzip=page.gzip)


def _scraper(environ: Environ) -> Scraper:
    client = f"{environ.get('REMOTE_ADDR', '')} {environ.get('HTTP_USER_AGENT', '')}"
    return Scraper(client, str(environ.get("HTTP_ACCEPT", "")), _accepts_gzip(environ))


def _accepts_gzip(environ: Environ) -> bool:
    for part in str(environ.get("HTTP_ACCEPT_ENCODING", "")).split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip().lower() in {"gzip", "*"}:
            return parameters.replace(" ", "").lower() not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
