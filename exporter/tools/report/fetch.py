"""One answer over HTTP: whole within a deadline and of bounded size, whatever the other side does."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import requests

from exporter.core.clock import MonotonicTime, monotonic_time

LARGEST = 64 << 20
"""Bytes of an answer: a thousand times what is usual."""
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes
    authorized: bool
    """Whether credentials were sent."""
    unposted: bool = False
    """Whether what was posted was lost on the way: led elsewhere, a request becomes a GET without content."""


class TooLargeError(requests.RequestException):
    """The answer has more than LARGEST bytes."""


def fetched(send: Callable[[], requests.Response], seconds: float) -> Answer:
    """What `send`, a request with `stream`, is answered. Raises a RequestException; requests.Timeout after `seconds`.

    A time-out of requests is that of one read: of a server that sends a byte now and then it never comes. The thread
    that still waits for one is left to itself.
    """
    outcome = queue.SimpleQueue[Answer | Exception]()
    end = monotonic_time() + seconds
    threading.Thread(target=lambda: outcome.put(_outcome(send, end)), name="fetch", daemon=True).start()
    try:
        found = outcome.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise requests.Timeout from None
    if isinstance(found, Exception):
        raise found
    return found


def _outcome(send: Callable[[], requests.Response], end: MonotonicTime) -> Answer | Exception:
    try:
        with send() as answer:
            content = bytearray()
            for chunk in answer.iter_content(_CHUNK):
                content += chunk
                if len(content) > LARGEST:
                    return TooLargeError(f"answers with more than {LARGEST >> 20} MiB")
                if monotonic_time() > end:
                    return requests.Timeout()
            unposted = any(each.request.method != answer.request.method for each in answer.history)
            return Answer(answer.status_code, bytes(content), "Authorization" in answer.request.headers, unposted)
    except requests.exceptions.ChunkedEncodingError:
        return requests.RequestException("ends in the middle of its answer")
    except requests.exceptions.ContentDecodingError:
        return requests.RequestException("does not compress its answer as it says")
    except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
        return error
