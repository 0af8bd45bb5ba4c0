"""What the client sends to a Prometheus, and what it makes of the answers and of the ways of not answering."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import requests

from exporter.tools.report.client import (
    Access,
    Client,
    Line,
    RefusedError,
    ReportError,
    Sample,
    SlowError,
    UnauthorizedError,
    UnreachableError,
)

URL = "http://prometheus:9090/prefix/"
TOKEN, PASSWORD = "open", "sesame"


class Server(requests.Session):
    """Answers one after the other, or raises; notes what was sent."""

    def __init__(self, *answers: requests.Response | Exception) -> None:
        super().__init__()
        self.answers, self.sent = list(answers), list[tuple[str, str, Any, Mapping[str, Any]]]()

    def _next(self, method: str, url: str, form: Any, terms: Mapping[str, Any]) -> requests.Response:
        self.sent.append((method, url, form, terms))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        answer.request = requests.Request(method, url, headers=self.headers).prepare()
        return answer

    def post(self, url: Any, data: Any = None, json: Any = None, **kwargs: Any) -> requests.Response:
        del json
        return self._next("POST", str(url), data, kwargs)

    def get(self, url: Any, **kwargs: Any) -> requests.Response:
        return self._next("GET", str(url), kwargs.pop("params"), kwargs)


def answer(body: str, status: int = 200) -> requests.Response:
    made = requests.Response()
    made.status_code, made._content, made._content_consumed = status, body.encode(), True  # type: ignore[attr-defined]
    return made


def result(kind: str, *rows: Mapping[str, Any]) -> requests.Response:
    return answer(json.dumps({"status": "success", "data": {"resultType": kind, "result": rows}}))


def client(server: Server, monkeypatch: pytest.MonkeyPatch, access: Access | None = None) -> Client:
    monkeypatch.setattr(requests, "Session", lambda: server)
    return Client(access or Access(URL, timeout=2.5))


def test_vector_without_what_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"metric": {"gpu": str(index)}, "value": [1.0, text]} for index, text in enumerate(("2.5", "NaN", "+Inf"))]
    server = Server(result("vector", *rows))

    assert client(server, monkeypatch).instant("up", 12.3456) == [Sample({"gpu": "0"}, 2.5)]
    assert server.sent == [
        (
            "POST",
            "http://prometheus:9090/prefix/api/v1/query",
            {"query": "up", "time": "12.346", "timeout": "2.5s"},
            {"timeout": 2.5, "stream": True},
        )
    ]


def test_series_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(result("matrix", {"metric": {"a": "b"}, "values": [[1.0, "2"], [1.5, "3"]]}))

    assert client(server, monkeypatch).over_time("up", 1.0, 2.0, 0.5) == [Line({"a": "b"}, ((1.0, 2.0), (1.5, 3.0)))]
    assert server.sent[0][1:3] == (
        "http://prometheus:9090/prefix/api/v1/query_range",
        {"query": "up", "start": "1.000", "end": "2.000", "step": "0.500", "timeout": "2.5s"},
    )


def test_where_nothing_may_be_posted_it_is_asked_by_get(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(answer("", 405), result("vector"))

    assert client(server, monkeypatch, Access(URL, ca="/ca")).instant("up", 0.0) == []
    assert [(method, terms) for method, _, _, terms in server.sent] == [
        (method, {"timeout": 30.0, "stream": True, "verify": "/ca"}) for method in ("POST", "GET")
    ]
    assert server.sent[0][1:3] == server.sent[1][1:3]


def test_credentials_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(access: Access) -> requests.Session:
        server = Server()
        client(server, monkeypatch, access)
        return server

    both = session(Access(URL, token=TOKEN, user="u", password=PASSWORD, headers={"X-Scope-OrgID": "team"}))

    def sent(server: requests.Session) -> str:
        return requests.Request("GET", URL, auth=server.auth).prepare().headers["Authorization"]

    assert sent(both) == f"Bearer {TOKEN}"
    assert both.headers["X-Scope-OrgID"] == "team"
    assert sent(session(Access(URL, user="u", password=PASSWORD))) == "Basic dTpzZXNhbWU="
    assert session(Access(URL)).auth is None


SUCCESS_WITHOUT_DATA = json.dumps({"status": "success"})


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (answer("", 401), UnauthorizedError, f"{URL} asks for credentials (HTTP 401)"),
        (answer("", 403), UnauthorizedError, f"{URL} asks for credentials (HTTP 403)"),
        (answer("", 408), SlowError, f"{URL}: the query timed out (HTTP 408)"),
        (answer("", 504), SlowError, f"{URL}: the query timed out (HTTP 504)"),
        (answer("<html>"), UnreachableError, f"{URL} is not the API of a Prometheus (HTTP 200)"),
        (answer("[]"), UnreachableError, f"{URL} is not the API of a Prometheus (HTTP 200)"),
        (answer("{}", 404), UnreachableError, f"{URL} is not the API of a Prometheus (HTTP 404)"),
        (
            answer(SUCCESS_WITHOUT_DATA),
            UnreachableError,
            f"{URL} is not the API of a Prometheus: no vector in its answer",
        ),
        (result("matrix"), UnreachableError, f"{URL} is not the API of a Prometheus: no vector in its answer"),
        (
            answer(json.dumps({"status": "error", "errorType": "timeout", "error": "too\n slow"}), 503),
            SlowError,
            f"{URL}: the query timed out: too slow",
        ),
        (
            answer(json.dumps({"status": "error", "errorType": "canceled", "error": "x"}), 503),
            SlowError,
            f"{URL}: the query timed out: x",
        ),
        (answer(json.dumps({"status": "error"}), 400), RefusedError, f"{URL} answers HTTP 400: "),
        (
            answer(json.dumps({"status": "error", "error": "x" * 400}), 422),
            RefusedError,
            f"{URL} answers HTTP 422: {'x' * 300}",
        ),
        (answer("Service Unavailable", 503), RefusedError, f"{URL} answers HTTP 503 Service Unavailable"),
        (answer("<html>", 502), RefusedError, f"{URL} answers HTTP 502 Bad Gateway"),
        (answer("", 429), RefusedError, f"{URL} answers HTTP 429 Too Many Requests"),
        (answer("", 599), RefusedError, f"{URL} answers HTTP 599"),
        (
            answer(json.dumps({"status": "error", "error": "\x1b[2J\x07gone"}), 422),
            RefusedError,
            f"{URL} answers HTTP 422: \\x1b[2J\\x07gone",
        ),
        (answer("[" * 100_000), UnreachableError, f"{URL} is not the API of a Prometheus (HTTP 200)"),
        (requests.Timeout(), SlowError, f"{URL} does not answer within 2.5 s"),
        (requests.exceptions.SSLError("bad certificate"), UnreachableError, f"{URL}: TLS: bad certificate"),
        (
            requests.ConnectionError("<urllib3 at 0x1>: refused  it"),
            UnreachableError,
            f"{URL}: no connection: refused it",
        ),
        (
            requests.ConnectionError("HTTPConnection(host='x'): refused"),
            UnreachableError,
            f"{URL}: no connection: refused",
        ),
        (requests.exceptions.MissingSchema("no scheme"), UnreachableError, f"{URL}: no scheme"),
        (OSError("no such file"), UnreachableError, f"{URL}: no such file"),
    ],
)
def test_no_answer_is_one_line(
    given: requests.Response | Exception, kind: type[ReportError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ReportError) as raised:
        client(Server(given), monkeypatch).instant("up", 0.0)

    assert (type(raised.value), str(raised.value)) == (kind, says)


@pytest.mark.parametrize("row", ["x", 5, None, {}, {"metric": None, "value": [1, "1"]}, {"metric": {}, "value": None},
    {"metric": {}, "value": [1]}, {"metric": {}, "value": [1, "x"]}, {"metric": {"a": 5}, "value": [1, "1"]},
    {"metric": {}, "values": [["x", "1"]]}, {"metric": {}, "values": "12"}])  # fmt: skip
def test_rows_that_are_no_series_are_one_line(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of_other = f"{URL} is not the API of a Prometheus: no "
    with pytest.raises(UnreachableError, match=f"^{of_other}vector in its answer$"):
        client(Server(result("vector", row)), monkeypatch).instant("up", 0.0)
    with pytest.raises(UnreachableError, match=f"^{of_other}matrix in its answer$"):
        client(Server(result("matrix", row)), monkeypatch).over_time("up", 0.0, 1.0, 1.0)


def test_result_that_is_no_list_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": None}})
    with pytest.raises(UnreachableError, match=r"no vector in its answer$"):
        client(Server(answer(body)), monkeypatch).instant("up", 0.0)


def test_credentials_that_are_refused_are_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(answer("", 401))
    server.headers["Authorization"] = "Bearer t"

    with pytest.raises(UnauthorizedError, match=r"refuses these credentials \(HTTP 401\)$"):
        client(server, monkeypatch).instant("up", 0.0)


_RULES = {"groups": [{"rules": [{"name": "a:b:c", "type": "recording"}, {"name": "GpuLost", "type": "alerting"}]}]}


@pytest.mark.parametrize(
    ("said", "has"),
    [
        (answer(json.dumps({"status": "success", "data": _RULES})), True),
        (answer(json.dumps({"status": "success", "data": {"groups": []}})), False),
        (answer(json.dumps({"status": "success", "data": None})), False),
        (answer("404 page not found", 404), False),
        (requests.ConnectionError("refused"), False),
    ],
)
def test_rule_that_it_says_it_has(
    said: requests.Response | Exception, *, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(said)

    assert client(server, monkeypatch).has_rule("a:b:c") is has
    assert server.sent == [
        ("GET", "http://prometheus:9090/prefix/api/v1/rules", {"type": "record"}, {"timeout": 2.5, "stream": True})
    ]
