"""The application: a request in, a response out, and the queues of the threads that make responses."""

from __future__ import annotations

import contextlib
import enum
import functools
import gzip
import logging
import queue
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from exporter.core.threads import Threads
from exporter.sampling.snapshot import Snapshot
from exporter.web.auth import BasicAuth, Verdict

Environ = Mapping[str, Any]
"""REQUEST_METHOD, PATH_INFO, QUERY_STRING, REMOTE_ADDR and HTTP_… headers, as PEP 3333 names them."""


@dataclass(frozen=True, slots=True)
class Response:
    status: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    after: float = 0.0
    """Seconds that the client is made to wait for it."""


_WAITING = 64
"""Requests that wait in one queue; the next one is turned away."""

Task = Callable[[], None]


class QueueName(enum.Enum):
    PAGE = "page"
    SLOW = "slow"
    """Passwords not seen before, the status page: one at a time, so that scrapes go on beside them."""


class WorkerQueues:
    """Bounded queues with their threads."""

    def __init__(self, threads: Threads, pages: int) -> None:
        self._threads = threads
        self._queues: Mapping[QueueName, queue.Queue[Task | None]] = {
            lane: queue.Queue(_WAITING) for lane in (QueueName.PAGE, QueueName.SLOW)
        }
        self._workers = [(QueueName.PAGE, number) for number in range(max(pages, 1))] + [(QueueName.SLOW, 0)]

    def start(self) -> None:
        for lane, number in self._workers:
            self._threads.start(f"web-{lane.value}-{number}", functools.partial(_run_waiting, self._queues[lane]))

    def submit(self, lane: QueueName, task: Task) -> bool:
        """Return whether there was room for the task."""
        try:
            self._queues[lane].put_nowait(task)
        except queue.Full:
            return False
        return True

    def stop(self) -> None:
        """Let the threads end once they are idle; a queue that is full is abandoned, its threads are daemons."""
        for lane, _ in self._workers:
            with contextlib.suppress(queue.Full):
                self._queues[lane].put_nowait(None)


def _run_waiting(waiting: queue.Queue[Task | None]) -> None:
    while True:
        task = waiting.get()
        if task is None:
            return
        task()
        del task  # it knows its connection


log = logging.getLogger(__name__)

R = TypeVar("R")
Headers = list[tuple[str, str]]
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?!;\s*q=0(?:\.0*)?\s*(?:,|$))(?:[;,]|$)", re.IGNORECASE)
"""Name in an `Accept-Encoding` header. With a weight of 0 it is refused."""
_MIN_GZIP_BYTES = 1024
_GZIP_LEVEL = 1
"""Level of compression: level 6 saves 14 % of the bytes for three times the CPU time."""
_JSON = "application/json"
ALLOCATIONS = "/api/v1/allocations"
RUNBOOKS = "/runbooks/"
_PROBES = frozenset({"/-/healthy", "/-/ready"})
_WRONG_SECONDS = 1.0
"""A wrong password is answered so late; a client that tries one after the other gets no further."""


@dataclass(frozen=True, slots=True)
class RouteHandlers:
    """Handler of each path."""

    metrics: Callable[[str], tuple[str, bytes]]
    """Content type and body for an Accept header."""
    status: Callable[[], str]
    ready: Callable[[], str]
    """Empty when ready, else the reason why not."""
    unhealthy: Callable[[], str] = str
    """The reason why only a new process can help; empty while none is needed."""
    allocations: Callable[[int], bytes] | None = None
    """Rows of the accounting after a number, as JSON; None without a store."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Demands of the web configuration file on every request."""

    auth: BasicAuth = field(default_factory=lambda: BasicAuth({}))
    headers: tuple[tuple[str, str], ...] = ()
    allows: Callable[[], bool] = lambda: True
    """Asked before each request but the probes; when it answers no, the answer is 429."""


@dataclass(frozen=True, slots=True)
class PendingResponse:
    """An answer that is not at hand: what makes it, and where that may run."""

    lane: QueueName
    make: Callable[[], Response]


@dataclass(frozen=True, slots=True)
class _Route:
    lane: QueueName | None
    """Queue in which `make` may run; None where it takes no time."""
    make: Callable[[Environ], Response]
    private: bool = False
    """Served only where requests need a password."""


class App:
    """Answers GET and HEAD on /, the telemetry path, /runbooks/, /-/healthy and /-/ready."""

    def __init__(self, pages: RouteHandlers, telemetry_path: str, policy: Callable[[], Policy] = Policy) -> None:
        """`policy` is asked at each request: the file may change."""
        self._policy = policy
        self._failed = ""
        self._routes: Mapping[str, _Route] = {
            telemetry_path: _Route(
                QueueName.PAGE, lambda env: _ok_response(*pages.metrics(str(env.get("HTTP_ACCEPT", ""))))
            ),
            "/-/healthy": _Route(None, lambda _: _probe_response("healthy", "unhealthy", pages.unhealthy())),
            "/-/ready": _Route(None, lambda _: _probe_response("ready", "not ready", pages.ready())),
            "/": _Route(QueueName.SLOW, lambda _: _ok_response(_HTML, pages.status().encode(errors="replace"))),
            RUNBOOKS: _Route(QueueName.SLOW, _runbook_page),
        }
        if (rows := pages.allocations) is not None:
            self._routes = {
                **self._routes,
                ALLOCATIONS: _Route(
                    QueueName.SLOW, lambda env: _ok_response(_JSON, rows(_after_number(env))), private=True
                ),
            }

    def begin(self, environ: Environ) -> Response | PendingResponse:
        """The answer where it is at hand, else what makes it. Takes no time and never raises."""
        return self._make_safely(environ, lambda: self._begin(environ, self._policy()))

    def respond(self, environ: Environ) -> Response:
        """The answer, however long it takes; never raises."""
        begun = self.begin(environ)
        return begun if isinstance(begun, Response) else begun.make()

    def _begin(self, environ: Environ, policy: Policy) -> Response | PendingResponse:
        if _request_path(environ) not in _PROBES and not policy.allows():
            return _complete_response(environ, policy, _text_response("429 Too Many Requests", "too many requests"))
        verdict = policy.auth.known(_authorization_header(environ), _peer_address(environ))
        if verdict is None:
            return self._work(QueueName.SLOW, environ, policy, lambda: self._checked(environ, policy))
        found = self._find_route(environ, verdict)
        if isinstance(found, Response):
            return _complete_response(environ, policy, found)
        if found.private and not policy.auth.required:
            text = "allocations name users: set basic_auth_users in --web.config.file"
            return _complete_response(environ, policy, _text_response("403 Forbidden", text))
        if found.lane is None:
            return _complete_response(environ, policy, found.make(environ))
        return self._work(found.lane, environ, policy, lambda: found.make(environ))

    def _checked(self, environ: Environ, policy: Policy) -> Response:
        found = self._find_route(environ, policy.auth.check(_authorization_header(environ), _peer_address(environ)))
        return found if isinstance(found, Response) else found.make(environ)

    def _work(self, lane: QueueName, environ: Environ, policy: Policy, make: Callable[[], Response]) -> PendingResponse:
        return PendingResponse(
            lane, lambda: self._make_safely(environ, lambda: _complete_response(environ, policy, make()))
        )

    def _find_route(self, environ: Environ, verdict: Verdict) -> _Route | Response:
        """Return the handler of the request, or the refusal."""
        if verdict is Verdict.WAIT:
            retry = (("Retry-After", "10"),)
            return _text_response("429 Too Many Requests", "too many wrong passwords", *retry, after=_WRONG_SECONDS)
        if verdict is Verdict.REFUSED:
            realm = (("WWW-Authenticate", 'Basic realm="gpu-exporter", charset="UTF-8"'),)
            after = _WRONG_SECONDS if _authorization_header(environ) else 0.0  # a browser asks without one first
            return _text_response("401 Unauthorized", "unauthorized", *realm, after=after)
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _text_response("405 Method Not Allowed", "only GET and HEAD", ("Allow", "GET, HEAD"))
        path = RUNBOOKS if _request_path(environ).startswith(RUNBOOKS) else _request_path(environ)
        return self._routes.get(path) or _text_response("404 Not Found", "not found")

    def _make_safely(self, environ: Environ, make: Callable[[], R]) -> R | Response:
        try:
            return make()
        except Exception as error:  # a bug in one page must not end the thread that answers the others
            if repr(error) != self._failed:
                log.exception("%s failed", _request_path(environ))
            self._failed = repr(error)
            return Response("500 Internal Server Error")


def gzip_accepted(header: str) -> bool:
    """Return whether an `Accept-Encoding` header allows gzip."""
    return _GZIP.search(header) is not None


def _complete_response(environ: Environ, policy: Policy, answer: Response) -> Response:
    body = answer.body
    headers: Headers = [*answer.headers, *policy.headers]
    if len(body) >= _MIN_GZIP_BYTES and gzip_accepted(str(environ.get("HTTP_ACCEPT_ENCODING", ""))):
        body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        headers.append(("Content-Encoding", "gzip"))
    headers += [
        ("Content-Length", str(len(body))),
        ("Vary", "Accept, Accept-Encoding"),
        ("Cache-Control", "no-store"),
    ]
    shown = b"" if environ["REQUEST_METHOD"] == "HEAD" else body
    return Response(answer.status, tuple(headers), shown, answer.after)


def _request_path(environ: Environ) -> str:
    return str(environ.get("PATH_INFO", ""))


def _after_number(environ: Environ) -> int:
    """Return the number after which rows are asked for: 0 where it is missing or none."""
    match = re.search(r"(?:^|&)after=([0-9]{1,18})(?:&|$)", str(environ.get("QUERY_STRING", "")))
    return int(match[1]) if match else 0


def _peer_address(environ: Environ) -> str:
    return str(environ.get("REMOTE_ADDR", ""))


def _authorization_header(environ: Environ) -> str:
    return str(environ.get("HTTP_AUTHORIZATION", ""))


def _ok_response(content_type: str, body: bytes) -> Response:
    return Response("200 OK", (("Content-Type", content_type),), body)


def _text_response(status: str, text: str, *headers: tuple[str, str], after: float = 0.0) -> Response:
    return Response(status, (("Content-Type", _TEXT), *headers), f"{text}\n".encode(), after)


def _runbook_page(environ: Environ) -> Response:
    from exporter.web.runbooks import page  # noqa: PLC0415 - few nodes are asked for one

    found = page(_request_path(environ).removeprefix(RUNBOOKS))
    return _ok_response(_HTML, found.encode()) if found else _text_response("404 Not Found", "not found")


def _probe_response(good: str, bad: str, reason: str) -> Response:
    """Return 200, or 503 with the reason."""
    return _text_response("503 Service Unavailable", f"{bad}: {reason}") if reason else _text_response("200 OK", good)


class CachedStatusPage:
    """Belongs to the one thread that draws status pages."""

    def __init__(self, snapshot: Callable[[], Snapshot], draw: Callable[[Snapshot], str]) -> None:
        self._snapshot = snapshot
        self._draw = draw
        self._kept: tuple[Snapshot, str] | None = None

    def page(self) -> str:
        snapshot = self._snapshot()
        if self._kept is None or self._kept[0] is not snapshot:
            self._kept = (snapshot, self._draw(snapshot))
        return self._kept[1]
