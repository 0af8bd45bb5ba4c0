"""The application's answers, whole: status, headers, body, and how late."""

from __future__ import annotations

import gzip
import logging

import bcrypt
import pytest
import requests

from exporter.web.app import ALLOCATIONS, App, Environ, PendingResponse, Policy, QueueName, Response, RouteHandlers
from exporter.web.auth import BasicAuth

HASH = "$2y$10$" + "a" * 53
TEXT, HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
STATUS = "x" * 1023


def application(policy: Policy | None = None, **pages: str) -> App:
    made = RouteHandlers(
        metrics=lambda accept: (f"type for {accept}", b"page"),
        status=lambda: pages.get("status", STATUS),
        ready=lambda: pages.get("ready", ""),
        unhealthy=lambda: pages.get("unhealthy", ""),
    )
    given = policy or Policy(headers=(("X-Frame-Options", "deny"),))
    return App(made, "/metrics", lambda: given)


def request(path: str, method: str = "GET", **more: str) -> Environ:
    return {"REQUEST_METHOD": method, "PATH_INFO": path, **more}


def whole(status: str, kind: str, body: bytes, *headers: tuple[str, str], shown: bytes | None = None) -> Response:
    end = (("Content-Length", str(len(body))), ("Vary", "Accept, Accept-Encoding"), ("Cache-Control", "no-store"))
    fixed = (("X-Frame-Options", "deny"),)
    return Response(status, (("Content-Type", kind), *headers, *fixed, *end), body if shown is None else shown, 0.0)


@pytest.mark.parametrize(
    ("pages", "asked", "expected"),
    [
        ({}, request("/-/healthy"), whole("200 OK", TEXT, b"healthy\n")),
        ({}, request("/-/ready"), whole("200 OK", TEXT, b"ready\n")),
        (
            {"unhealthy": "hangs"},
            request("/-/healthy"),
            whole("503 Service Unavailable", TEXT, b"unhealthy: hangs\n"),
        ),
        ({"ready": "no cycle"}, request("/-/ready"), whole("503 Service Unavailable", TEXT, b"not ready: no cycle\n")),
        ({}, request("/none"), whole("404 Not Found", TEXT, b"not found\n")),
        (
            {},
            request("/", "POST"),
            whole("405 Method Not Allowed", TEXT, b"only GET and HEAD\n", ("Allow", "GET, HEAD")),
        ),
        ({}, request("/"), whole("200 OK", HTML, STATUS.encode())),
        ({}, request("/", "HEAD"), whole("200 OK", HTML, STATUS.encode(), shown=b"")),
        ({"status": "\udcff"}, request("/"), whole("200 OK", HTML, b"?")),
        ({}, request("/metrics"), whole("200 OK", "type for ", b"page")),
        ({}, request("/metrics", HTTP_ACCEPT="a"), whole("200 OK", "type for a", b"page")),
    ],
)
def test_answer(pages: dict[str, str], asked: Environ, expected: Response) -> None:
    assert application(**pages).respond(asked) == expected


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP", True),
        ("identity", False),
        ("gzip;q=0.5", True),
        ("gzip ; Q=1", True),
        ("identity, gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("gzip;q=0.001", True),
    ],
)
def test_compression(accepted: str, packed: bool) -> None:  # noqa: FBT001 - a column of the table above
    encoding = [("Content-Encoding", "gzip")] if packed else []
    large = application(status="x" * 1024).respond(request("/", HTTP_ACCEPT_ENCODING=accepted))
    small = application(status="x" * 1023).respond(request("/", HTTP_ACCEPT_ENCODING=accepted))

    assert [header for header in large.headers if header[0] == "Content-Encoding"] == encoding
    assert (gzip.decompress(large.body) if packed else large.body) == b"x" * 1024
    assert small.body == b"x" * 1023


def test_answers_at_hand_are_given_at_once_and_others_on_their_lane() -> None:
    app = application()

    def lane(asked: Environ) -> QueueName | None:
        begun = app.begin(asked)
        return begun.lane if isinstance(begun, PendingResponse) else None

    assert [lane(request(path)) for path in ("/-/healthy", "/-/ready", "/none")] == [None] * 3
    assert lane(request("/metrics")) is QueueName.PAGE
    assert lane(request("/")) is QueueName.SLOW


def test_refusals() -> None:
    realm = ("WWW-Authenticate", 'Basic realm="gpu-exporter", charset="UTF-8"')
    app = application(Policy(BasicAuth({"ada": HASH}), allows=lambda: True))
    nobody, wrong = (app.respond(request("/", **more)) for more in ({}, {"HTTP_AUTHORIZATION": "Basic !"}))

    assert (nobody.status, nobody.body, nobody.after) == ("401 Unauthorized", b"unauthorized\n", 0.0)
    assert realm in nobody.headers
    assert (wrong.status, wrong.after) == ("401 Unauthorized", 1.0)


@pytest.mark.parametrize(
    ("query", "after"),
    [("", 0), ("after=7", 7), ("a=b&after=12&c=d", 12), ("after=-1", 0), ("after=7x", 0), ("hereafter=7", 0)],
)
def test_rows_of_the_accounting_after_a_number_need_a_password(query: str, after: int) -> None:
    pages = RouteHandlers(metrics=lambda _: ("", b""), status=str, ready=str, allocations=lambda number: b"%d" % number)
    users = {"ada": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
    guarded = Policy(BasicAuth(users))
    asked = request(ALLOCATIONS, QUERY_STRING=query, HTTP_AUTHORIZATION=requests.auth._basic_auth_str("ada", "secret"))

    assert App(pages, "/metrics").respond(asked).status == "403 Forbidden"
    found = App(pages, "/metrics", lambda: guarded).respond(asked)
    assert (found.status, found.headers[0], found.body) == (
        "200 OK",
        ("Content-Type", "application/json"),
        b"%d" % after,
    )


def test_beyond_the_limit() -> None:
    full = application(Policy(allows=lambda: False))
    found = full.respond(request("/metrics"))

    assert (found.status, found.body) == ("429 Too Many Requests", b"too many requests\n")
    assert [full.respond(request(path)).status for path in ("/-/healthy", "/-/ready")] == ["200 OK", "200 OK"]


def test_bug_in_a_page_is_logged_once_and_costs_that_page_alone(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise KeyError("states")

    def metrics(_: str) -> tuple[str, bytes]:
        raise AssertionError

    app = App(RouteHandlers(metrics=metrics, status=broken, ready=str), "/metrics")
    with caplog.at_level(logging.ERROR):
        answers = [app.respond(request("/")) for _ in range(2)]

    assert answers == [Response("500 Internal Server Error")] * 2
    assert [record.getMessage() for record in caplog.records] == ["/ failed"]
    assert app.respond(request("/-/ready")).status == "200 OK"
