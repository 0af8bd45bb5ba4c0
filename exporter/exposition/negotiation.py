"""Which form a scraper gets, by its headers: Prometheus's own text or OpenMetrics, and whether it is compressed.

What the answers are called is as the client library has it; that is not asked, since loading it costs a daemon as much
memory as all its own code, and it passes over what a scraper wants most.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OPENMETRICS = "application/openmetrics-text"
_TEXT = "text/plain"
_ANY = frozenset({"*/*", "text/*"})
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPINGS = frozenset({"allow-utf-8", "underscores", "dots", "values"})
_VERSION = "1.0.0"
"""Of both formats, whatever later one is asked."""
_LONGEST = 4
"""Digits of a version's first number."""
_MOST = 32
"""Of a header that lists without end, the first are looked at."""
_QUALITY = re.compile(r"[01](\.\d{0,9})?")


@dataclass(frozen=True, slots=True)
class _Accepted:
    """One of what a header lists (RFC 9110, 12.5)."""

    value: str
    parameters: Mapping[str, str]
    quality: float
    """How much it is wanted, from 0 (not at all) to 1."""


@functools.lru_cache(maxsize=8)  # scrapers are few and always ask the same
def content_type(accept: str) -> str:
    """The content type that an Accept header asks for; one given in its place asks for the same format."""
    for accepted in sorted(_accepted(accept), key=lambda each: -each.quality):
        found = _known(accepted) if accepted.quality else ""
        if found:
            return found
    return _PLAIN


def is_openmetrics(content_type: str) -> bool:
    return content_type.startswith(_OPENMETRICS)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether it is accepted, and not less than what is not compressed."""
    wanted = {each.value: each.quality for each in reversed(_accepted(accept_encoding))}
    gzip = wanted.get("gzip", wanted.get("*", 0.0))
    return gzip > 0 and gzip >= wanted.get("identity", 0.0)


def _known(accepted: _Accepted) -> str:
    """The content type in answer to one that is accepted; empty where there is none."""
    kind, version = accepted.value, accepted.parameters.get("version", "")
    if kind == _OPENMETRICS and not version:
        return f"{_OPENMETRICS}; version={_VERSION}; charset=utf-8"
    if kind in {_OPENMETRICS, _TEXT} and _major(version) >= 1:
        return f"{kind}; version={_VERSION}; charset=utf-8; escaping={_escaping(accepted.parameters)}"
    return _PLAIN if kind == _TEXT or kind in _ANY else ""


def _accepted(header: str) -> Sequence[_Accepted]:
    return [_parsed(part) for part in header.split(",", _MOST)[:_MOST]]


def _parsed(part: str) -> _Accepted:
    value, *words = (word.strip() for word in part.split(";"))
    pairs = (word.split("=", 1) for word in reversed(words) if "=" in word)
    parameters = {name.strip().lower(): text.strip().strip('"') for name, text in pairs}
    return _Accepted(value.lower(), parameters, _quality(parameters.get("q", "1")))


def _quality(text: str) -> float:
    return min(float(text), 1.0) if _QUALITY.fullmatch(text) else 1.0


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= _LONGEST else 0


def _escaping(given: Mapping[str, str]) -> str:
    """As asked: no name here holds what would have to be escaped."""
    escaping = given.get("escaping", "")
    return escaping if escaping in _ESCAPINGS else "underscores"
