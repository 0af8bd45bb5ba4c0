"""Pages compressed, where what is the same as in the page before is not compressed again.

Deflate can begin anew at a byte (a full flush), and what lies between two such places means the same wherever it
stands. So a page is cut into runs of what stays and runs of what changes, and those that stayed are kept as they are.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_LEVEL = 1
"""A third of the time that zlib's own level takes, for a few bytes more."""
_SHORTEST = 2048
"""Bytes: what stays and is shorter is compressed with what changes around it, since each run begins from nothing."""
_PAGES = 256
"""After so many what changes is learned anew: else all that ever changed would count as changing."""
_HEAD = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x04\xff"
"""Of a gzip file: deflated by the fastest method at no time, on no system in particular."""
_END = b"\x03\x00"
"""The last block of a deflated text, empty."""

_Run = tuple[bytes, ...]


class Compressor:
    """Compresses pages, one after the other, given in pieces; a piece that stays has to be the same object."""

    def __init__(self) -> None:
        self._before: _Run = ()
        self._changing: set[int] = set()
        """Places of the pieces that changed since this was learned anew."""
        self._pages = 0
        self._kept: dict[_Run, bytes] = {}

    def compressed(self, pieces: _Run) -> bytes:
        """As a gzip file."""
        self._learn(pieces)
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        before, self._kept = self._kept, {}
        found = [_HEAD]
        crc = size = 0
        for run, stays in self._runs(pieces):
            plain = b"".join(run)
            crc, size = zlib.crc32(plain, crc), size + len(plain)
            deflated = before.get(run) if stays else None
            if deflated is None:
                deflated = deflate.compress(plain) + deflate.flush(zlib.Z_FULL_FLUSH)
            if stays:
                self._kept[run] = deflated
            found.append(deflated)
        return b"".join([*found, _END, struct.pack("<LL", crc, size & 0xFFFFFFFF)])

    def _learn(self, pieces: _Run) -> None:
        self._pages += 1
        if len(pieces) != len(self._before) or self._pages > _PAGES:
            self._changing = set()
            self._pages = 0
        else:
            pairs = enumerate(zip(pieces, self._before, strict=True))
            self._changing.update([place for place, (now, before) in pairs if now is not before])
        self._before = pieces

    def _runs(self, pieces: _Run) -> Iterator[tuple[_Run, bool]]:
        """The pieces in runs, each with whether it stays."""
        begin = end = 0  # of a run of what changes, so far
        for place in [*sorted(self._changing), len(pieces)]:
            if sum(map(len, pieces[end:place])) >= _SHORTEST or place == len(pieces):
                if end > begin:
                    yield pieces[begin:end], False
                if place > end:
                    yield pieces[end:place], True
                begin = place
            end = place + 1
