"""What a process reads and writes lately: /proc/PID/io, looked at every few seconds and smoothed over half a minute.

A write ends in the page cache long before the disk has it, and the wait comes after, in `fsync`: what a program did
lately shows what it waits for now.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

from exporter.core.clock import NEVER, MonotonicTime
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host.text import KeptFile, natural

LOOK_SECONDS = 3.0
LATELY_SECONDS = 20.0


class IoRates(NamedTuple):
    """By system calls or past the page cache, whichever is more."""

    read: BytesPerSecond
    written: BytesPerSecond
    reading: BytesPerSecond
    writing: BytesPerSecond
    """These two since the look before, and not lately: what it does now."""


_NOTHING = IoRates(*[BytesPerSecond(0.0)] * 4)


class _Totals(NamedTuple):
    read_calls: Bytes
    written_calls: Bytes
    read_storage: Bytes
    written_storage: Bytes


class ProcessIo:
    """The rates of one process. Where it has nothing to do with files, they are the same object again."""

    __slots__ = ("_content", "_file", "_rates", "_start_ticks", "looked_at")

    def __init__(self, file: KeptFile) -> None:
        """`file` is its `io`."""
        self._file = file
        self._start_ticks = 0
        self._content: bytes = b""
        """As it was at the last look; empty where the kernel refused."""
        self._rates: IoRates | None = None
        self.looked_at: MonotonicTime = NEVER

    def rates(self, start_ticks: int, now: MonotonicTime) -> IoRates | None:
        """Of the process that started then; None at first, and where the kernel refuses."""
        same = start_ticks == self._start_ticks
        if not same or now - self.looked_at >= LOOK_SECONDS:
            content = self._file.read()
            if not same or content != self._content or self._rates is not _NOTHING:
                self._rates = _later(self._rates, self._content, content, now - self.looked_at) if same else None
            self._content, self._start_ticks, self.looked_at = content, start_ticks, now
        return self._rates


def _later(rates: IoRates | None, before: bytes, now: bytes, seconds: float) -> IoRates | None:
    then, totals = _parse(before), _parse(now)
    if then is None or totals is None:
        return None
    if totals == then and rates in (None, _NOTHING):
        return _NOTHING
    return _smoothed(rates or _NOTHING, then, totals, seconds)


def _smoothed(rates: IoRates, before: _Totals, totals: _Totals, seconds: float) -> IoRates:
    read_calls, written_calls, read, written = [max(0, a - b) for a, b in zip(totals, before, strict=True)]
    fades = math.exp(-seconds / LATELY_SECONDS)
    share = (1.0 - fades) / seconds
    read, written = max(read_calls, read), max(written_calls, written)
    return IoRates(
        BytesPerSecond(rates.read * fades + read * share),
        BytesPerSecond(rates.written * fades + written * share),
        BytesPerSecond(read / seconds),
        BytesPerSecond(written / seconds),
    )


def bytes_of(text: str, *names: str) -> list[Bytes | None]:
    """What stands in the lines of these names; None where there is no such line."""
    words = text.split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    numbers = [natural(found.get(f"{name}:", "")) for name in names]
    return cast("list[Bytes | None]", numbers)


def _parse(content: bytes) -> _Totals | None:
    found = bytes_of(content.decode("utf-8", "replace"), "rchar", "wchar", "read_bytes", "write_bytes")
    return None if None in found else _Totals(*cast("list[Bytes]", found))
