"""Which text format a scraper gets, by its Accept header: Prometheus's own, or OpenMetrics.

As the client library decides; it is not asked, since loading it costs a daemon as much memory as all its own code.
"""

from __future__ import annotations

from collections.abc import Mapping

_OPENMETRICS = "application/openmetrics-text"
_TEXT = "text/plain"
_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPINGS = frozenset({"allow-utf-8", "underscores", "dots", "values"})
_VERSION = "1.0.0"
"""Of both formats, whatever later one is asked."""
_LONGEST = 4
"""Digits of a version's first number."""


def content_type(accept: str) -> str:
    """The content type that an Accept header asks for; one given in its place asks for the same format."""
    for accepted in accept.split(","):
        kind, *words = (word.strip() for word in accepted.split(";"))
        if kind not in {_OPENMETRICS, _TEXT}:
            continue
        given = dict(word.split("=", 1) for word in reversed(words) if "=" in word)
        version = given.get("version", "")
        if kind == _OPENMETRICS and not version:
            return f"{_OPENMETRICS}; version={_VERSION}; charset=utf-8"
        if _major(version) >= 1:
            return f"{kind}; version={_VERSION}; charset=utf-8; escaping={_escaping(given)}"
    return _PLAIN


def is_openmetrics(content_type: str) -> bool:
    return content_type.startswith(_OPENMETRICS)


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= _LONGEST else 0


def _escaping(given: Mapping[str, str]) -> str:
    """As asked: no name here holds what would have to be escaped."""
    escaping = given.get("escaping", "")
    return escaping if escaping in _ESCAPINGS else "underscores"
