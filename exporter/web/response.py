"""What goes between the connections and the application: a request in WSGI's words, and a finished answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Environ = Mapping[str, Any]
"""REQUEST_METHOD, PATH_INFO, QUERY_STRING, REMOTE_ADDR and HTTP_… headers, as PEP 3333 names them."""


@dataclass(frozen=True, slots=True)
class Response:
    status: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    after: float = 0.0
    """Seconds that the client is made to wait for it."""
