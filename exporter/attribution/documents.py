"""Parts of JSON from other programs: a part of another type than expected counts as absent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from exporter.attribution.background_source import SourceError
from exporter.host.text import bounded

MAX_BYTES = 64 << 20
"""Limit of one answer, or of one line of a watch: thousands of pods on one node."""

Document = Mapping[str, Any]


def decoded(text: bytes) -> Document:
    """Parse a JSON object. Raises SourceError for anything else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise SourceError("not a JSON object")
    return cast("Document", document)


def items(value: object) -> Sequence[Any]:
    """Return the items of a list; none of anything else."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def objects(value: object) -> Sequence[Document]:
    """Return the JSON objects of a list."""
    return [cast("Document", each) for each in items(value) if isinstance(each, dict)]


def part(document: object, key: str) -> Document:
    value = cast("Document", document).get(key) if isinstance(document, dict) else None
    return cast("Document", value) if isinstance(value, dict) else {}


def parts(document: Document, key: str) -> Sequence[Document]:
    return objects(document.get(key))


def text(document: Document, key: str, limit: int = 256) -> str:
    value = document.get(key)
    return bounded(value, limit) if isinstance(value, str) else ""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream. Raises SourceError for one above MAX_BYTES."""
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
    """Return an answer that is one document. Raises SourceError above MAX_BYTES."""
    found = bytearray()
    for line in received:
        found += line
        if len(found) > MAX_BYTES:
            raise SourceError(f"an answer of more than {MAX_BYTES} bytes")
    return bytes(found)
