"""Names and end of a certificate, and whether its files have changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0
_UTC_TIME = 0x17
_LONG = 0x80


class Demands(NamedTuple):
    """What a client must prove of itself by its certificate. A connection lasts no longer than the demands it met."""

    client_auth: int = 0
    allowed_sans: frozenset[str] = frozenset()
    """One of these names; any, where there are none."""
    authority: str = ""
    """Of those who sign: their certificates."""


def expiry(pem: str) -> float | None:
    """Unix seconds of the end of the first certificate of a chain, the server's own; None where there is none."""
    import ssl  # noqa: PLC0415 - without TLS it need not be loaded

    try:
        begin = pem.index(_BEGIN)
        return not_after(ssl.PEM_cert_to_DER_cert(pem[begin : pem.index(_END, begin) + len(_END)]))
    except (ValueError, IndexError, StopIteration):
        return None


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The subject alternative names of a certificate as Python shows it."""
    return frozenset(str(value) for _, value in (certificate or {}).get("subjectAltName", ()))


def not_after(der: bytes) -> float:
    """The end of validity (RFC 5280, 4.1). Raises ValueError, IndexError or StopIteration where it is none."""
    import calendar  # noqa: PLC0415 - the same

    certificate = next(_elements(der))[1]
    fields = list(_elements(next(_elements(certificate))[1]))
    # After the optional version: serial number, algorithm, issuer, validity.
    _, validity = fields[4 if fields[0][0] == _VERSION else 3]
    tag, text = list(_elements(validity))[1]
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return float(calendar.timegm(time.strptime(text.decode("ascii"), form)))


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element in a row."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length >= _LONG:
            size = length - _LONG
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        yield tag, der[at : at + length]
        at += length


def stamps(files: Iterable[Path]) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever one of the files does."""

    def stamp(path: Path) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    return tuple(stamp(path) for path in files)
