"""The query API of Prometheus, Thanos, Mimir, VictoriaMetrics and Cortex, and the ways in which it fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import requests

from exporter.config.kinds import without_password
from exporter.core.fetch import Answer, TooLargeError, basic_auth, bearer_auth, fetched, innermost
from exporter.core.printable import printable

MAX_ANSWER_BYTES = 64 << 20
"""Bytes of an answer: a thousand times what is usual."""


class ReportError(Exception):
    """One line, and the status the command ends with."""

    status = 1


class NoDataError(ReportError):
    """The exporter's metrics are there, and none is about what was asked for."""

    status = 3


class SeveralError(NoDataError):
    """Several things are called so: nothing is known of one."""

    status = 2


class UnreachableError(ReportError):
    """No connection, or what answers is not the API of a Prometheus."""

    status = 4


class UnauthorizedError(ReportError):
    """Credentials are missing, wrong, or not enough."""

    status = 5


class SlowError(ReportError):
    """The answer took too long, here or there."""

    status = 6


class RefusedError(ReportError):
    """The API answered, with an error."""

    status = 7


class NoMetricsError(ReportError):
    """This Prometheus has no metrics of the exporter in the range, or nothing that its recording rules made."""

    status = 8


_TIMEOUTS = frozenset({408, 504})
_PHRASES: Mapping[int, str] = {each.value: each.phrase for each in HTTPStatus}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """Access to the API. `ca` is a file of certificates; `token` goes before `user`."""

    url: str
    timeout: float = 30.0
    token: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Line:
    """One series over time: (Unix seconds, value), oldest first."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


class Client:
    """Asks one Prometheus. Every method raises a ReportError: one line that reports what is wrong with which URL."""

    def __init__(self, access: Access) -> None:
        self._access = access
        # Set with each request: REQUESTS_CA_BUNDLE would go before what is set once for the session.
        self._terms: dict[str, Any] = {
            "timeout": access.timeout,
            "stream": True,
            **({"verify": access.ca} if access.ca else {}),
        }
        self._session = requests.Session()
        self._session.headers.update(access.headers)
        if access.token:
            self._session.auth = bearer_auth(access.token)
        elif access.user:
            self._session.auth = basic_auth(access.user, access.password)

    def instant(self, expr: str, time: float) -> Sequence[Sample]:
        """The vector of an expression at a Unix time. Values that are not numbers (NaN) are left out."""
        values = {"query": expr, "time": f"{time:.3f}"}
        found = self._ask("query", values, "vector", lambda row: Sample(_row_labels(row), float(row["value"][1])))
        return [sample for sample in found if math.isfinite(sample.value)]

    def over_time(self, expr: str, start: float, end: float, step: float) -> Sequence[Line]:
        """The expression from `start` to `end`, every `step` seconds."""
        values = {"query": expr, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}

        def line(row: Any) -> Line:
            return Line(_row_labels(row), tuple((float(t), float(v)) for t, v in row["values"]))

        return self._ask("query_range", values, "matrix", line)

    def has_rule(self, name: str) -> bool:
        """Return whether it evaluates this recording rule itself. Where others do that for it, it reports nothing."""
        url = f"{self._access.url.rstrip('/')}/api/v1/rules"
        try:
            answer = self._send(lambda: self._session.get(url, params={"type": "record"}, **self._terms))
            groups = json.loads(answer.content)["data"]["groups"]
            return any(rule["name"] == name for group in groups for rule in group["rules"])
        except (ReportError, ValueError, KeyError, TypeError, RecursionError):
            return False

    def _ask(self, what: str, values: Mapping[str, str], kind: str, made: Callable[[Any], T]) -> Sequence[T]:
        url = f"{self._access.url.rstrip('/')}/api/v1/{what}"
        form = {**values, "timeout": f"{self._access.timeout:g}s"}
        answer = self._send(lambda: self._session.post(url, data=form, **self._terms))
        if answer.unposted or answer.status == requests.codes.method_not_allowed:
            # A redirection from http to https; a proxy that lets only reads through.
            answer = self._send(lambda: self._session.get(url, params=form, **self._terms))
        return self._answer_result(answer, kind, made)

    def _send(self, send: Callable[[], requests.Response]) -> Answer:
        url, timeout = without_password(self._access.url), self._access.timeout
        try:
            return fetched(send, timeout, MAX_ANSWER_BYTES)
        except requests.Timeout:
            raise SlowError(f"{url} does not answer within {timeout:g} s") from None
        except requests.exceptions.SSLError as error:
            raise UnreachableError(f"{url}: TLS: {innermost(error)}") from None
        except TooLargeError as error:
            raise RefusedError(f"{url} {error}") from None
        except requests.ConnectionError as error:
            raise UnreachableError(f"{url}: no connection: {innermost(error)}") from None
        except (requests.RequestException, OSError) as error:  # no scheme, not a host, no such CA file
            raise UnreachableError(f"{url}: {error}") from None

    def _answer_result(self, answer: Answer, kind: str, made: Callable[[Any], T]) -> Sequence[T]:
        url, status = without_password(self._access.url), answer.status
        if status in {requests.codes.unauthorized, requests.codes.forbidden}:
            given = "refuses these credentials" if answer.authorized else "asks for credentials"
            raise UnauthorizedError(f"{url} {given} (HTTP {status})")
        if status in _TIMEOUTS:
            raise SlowError(f"{url}: the query timed out (HTTP {status})")
        try:
            content = json.loads(answer.content)
            state = content["status"]
        except (ValueError, KeyError, TypeError, RecursionError):
            if status >= requests.codes.server_error or status == requests.codes.too_many_requests:
                raise RefusedError(f"{url} answers HTTP {status} {_PHRASES.get(status, '')}".rstrip()) from None
            raise UnreachableError(f"{url} is not the API of a Prometheus (HTTP {status})") from None
        if state != "success":
            message = printable(" ".join(str(content.get("error", "")).split()))
            if content.get("errorType") in {"timeout", "canceled"}:
                raise SlowError(f"{url}: the query timed out: {message}")
            raise RefusedError(f"{url} answers HTTP {status}: {message[:300]}")
        return _answer_data(content, kind, made, url)


def _answer_data(content: Any, kind: str, made: Callable[[Any], T], url: str) -> Sequence[T]:
    try:
        if content["data"]["resultType"] == kind:
            return [made(row) for row in content["data"]["result"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        pass
    raise UnreachableError(f"{url} is not the API of a Prometheus: no {kind} in its answer")


def _row_labels(row: Any) -> Mapping[str, str]:
    labels: Mapping[str, Any] = row["metric"]
    if not all(isinstance(value, str) for value in labels.values()):
        raise TypeError("a label that is no text")
    return labels
