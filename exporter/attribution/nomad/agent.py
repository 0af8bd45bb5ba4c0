"""Asking Nomad's local agent over HTTP: a token, a deadline for the whole answer, and a bound on its size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import MAX_BYTES
from exporter.core.clock import monotonic_time
from exporter.host.text import bounded

if TYPE_CHECKING:
    import http.client

_SECONDS = 10.0
_CHUNK = 1 << 16
_MAX_TOKEN = 4096
_OK = 200


@dataclass(frozen=True, slots=True)
class Agent:
    """Where it is and how to be let in. The token is read again for each question: tokens rotate."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    deadline: float = _SECONDS

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON. Raises SourceError and OSError."""
        import http.client  # noqa: PLC0415 - OpenSSL, and all of mail, are loaded where there is Nomad

        parts = urlsplit(self.url)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        try:
            connection.request("GET", f"{path}?{urlencode(parameters or {})}", headers=self._headers())
            response = connection.getresponse()
            content = _whole(response, self.deadline)
        except http.client.HTTPException as error:
            raise SourceError(f"{self.url}: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if response.status != _OK:
            message = bounded(content[:200].decode("utf-8", "replace")).strip()
            raise SourceError(f"{self.url}{path}: HTTP {response.status} {message}".rstrip())
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise SourceError(f"{self.url}{path}: not JSON") from None

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        import http.client  # noqa: PLC0415 - the same
        import ssl  # noqa: PLC0415 - the same

        if scheme == "https":
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            return http.client.HTTPSConnection(host, port, timeout=self.deadline, context=context)
        return http.client.HTTPConnection(host, port, timeout=self.deadline)

    def _headers(self) -> Mapping[str, str]:
        if not self.token_file:
            return {}
        with self.token_file.open("rb") as file:
            token = file.read(_MAX_TOKEN).decode("ascii", "replace").strip()
        if not token.isprintable():
            raise SourceError(f"{self.token_file}: not a token")
        return {"X-Nomad-Token": token}


def _whole(response: http.client.HTTPResponse, seconds: float) -> bytes:
    """All of it, however slowly it comes, within the deadline."""
    found, began = bytearray(), monotonic_time()
    while chunk := response.read1(_CHUNK):
        found += chunk
        if len(found) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
        if monotonic_time() - began > seconds:
            raise SourceError("an answer that does not end")
    return bytes(found)
