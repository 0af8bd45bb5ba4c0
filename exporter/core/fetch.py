"""Requests over HTTP that end: with a limit of time and of bytes, and credentials as servers compare them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests
import requests.auth

from exporter.core.clock import MonotonicTime, monotonic_time
from exporter.core.threads import run_with_timeout

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes
    authorized: bool
    """True if credentials were sent."""
    unposted: bool = False
    """True if what was posted was lost on the way: led elsewhere, a request becomes a GET without content."""


class TooLargeError(requests.RequestException):
    """The answer has more bytes than the limit."""


def fetched(send: Callable[[], requests.Response], seconds: float, limit: int) -> Answer:
    """Return the answer to `send`, a request with `stream`. Raises RequestException; requests.Timeout after `seconds`.

    `limit` is the most bytes that are read; beyond it TooLargeError is raised.

    A time-out of requests is that of one read: of a server that sends a byte now and then it never comes. The thread
    that still waits for one is left to itself.
    """
    end = monotonic_time() + seconds
    try:
        return run_with_timeout(max(seconds, 0.0), lambda: _read_answer(send, end, limit))
    except TimeoutError:
        raise requests.Timeout from None


def _read_answer(send: Callable[[], requests.Response], end: MonotonicTime, limit: int) -> Answer:
    try:
        with send() as answer:
            content = bytearray()
            for chunk in answer.iter_content(_CHUNK_BYTES):
                content += chunk
                if len(content) > limit:
                    raise TooLargeError(f"answers with more than {limit >> 20} MiB")
                if monotonic_time() > end:
                    raise requests.Timeout
            unposted = any(each.request.method != answer.request.method for each in answer.history)
            return Answer(answer.status_code, bytes(content), "Authorization" in answer.request.headers, unposted)
    except requests.exceptions.ChunkedEncodingError:
        raise requests.RequestException("ends in the middle of its answer") from None
    except requests.exceptions.ContentDecodingError:
        raise requests.RequestException("does not compress its answer as it says") from None
    except requests.RequestException:
        raise
    except ValueError:  # of the URL parser
        raise requests.RequestException("leads to an address that is none") from None


class _Authorization(requests.auth.AuthBase):
    """Sends credentials. As a header of the session a machine's ~/.netrc would replace them."""

    def __init__(self, credentials: str) -> None:
        self._credentials = credentials

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._credentials
        return request


def basic_auth(user: str, password: str) -> requests.auth.AuthBase:
    """Return the credentials in UTF-8, as servers compare them; requests would take Latin-1."""
    return _Authorization(f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")


def bearer_auth(token: str) -> requests.auth.AuthBase:
    return _Authorization(f"Bearer {token}")


def innermost(error: BaseException) -> str:
    """Return what went wrong, without the layers of the HTTP library around it."""
    reason: Any = error.args[0] if error.args else error
    text = " ".join(str(getattr(reason, "reason", reason)).split())
    return re.sub(r"^(<[^>]*>|\w+\([^)]*\)): ", "", text)
