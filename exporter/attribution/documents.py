"""Taking JSON apart that somebody else wrote: a part of another kind than expected counts as absent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from exporter.attribution.background_source import SourceError
from exporter.host.text import bounded

MAX_BYTES = 64 << 20
"""Of one answer, or of one line of a watch: thousands of pods on one node."""

Document = Mapping[str, Any]


def decoded(text: bytes) -> Document:
    """Raises SourceError where it is no JSON object."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise SourceError("not a JSON object")
    return cast("Document", document)


def part(document: Document, key: str) -> Document:
    value = document.get(key)
    return cast("Document", value) if isinstance(value, dict) else {}


def parts(document: Document, key: str) -> Sequence[Document]:
    value = document.get(key)
    listed = cast("Sequence[Any]", value) if isinstance(value, list) else ()
    return [cast("Document", each) for each in listed if isinstance(each, dict)]


def text(document: Document, key: str) -> str:
    value = document.get(key)
    return bounded(value) if isinstance(value, str) else ""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines of a stream. Raises SourceError where one is too long to be an answer."""
    pending = bytearray()
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield bytes(pending) + line
            pending.clear()
        pending += rest
        if len(pending) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
    if pending:
        yield bytes(pending)


def whole(received: Iterable[bytes]) -> bytes:
    """All of an answer that is one document. Raises SourceError where it is too long."""
    found = bytearray()
    for line in received:
        found += line
        if len(found) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
    return bytes(found)
