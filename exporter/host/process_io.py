"""What a process reads and writes lately: /proc/PID/io, looked at every few seconds and smoothed over half a minute.

A write ends in the page cache long before the disk has it, and the wait comes after, in `fsync`: what a program did
lately shows what it waits for now.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from exporter.clock import MonotonicTime
from exporter.host.text import natural, read_text
from exporter.units import Bytes, BytesPerSecond

LOOK_SECONDS = 3.0
LATELY_SECONDS = 20.0
_NONE = BytesPerSecond(0.0)


class IoRates(NamedTuple):
    """By system calls or past the page cache, whichever is more."""

    read: BytesPerSecond
    written: BytesPerSecond


class _Totals(NamedTuple):
    read_calls: Bytes
    written_calls: Bytes
    read_storage: Bytes
    written_storage: Bytes


class _Kept(NamedTuple):
    start_ticks: int
    looked_at: MonotonicTime
    totals: _Totals
    rates: IoRates


@dataclass(slots=True)
class ProcessIo:
    """Keeps the rates of processes under one procfs root."""

    procfs: str = "/proc"
    _kept: dict[int, _Kept] = field(default_factory=dict[int, _Kept])

    def rates(self, pid: int, start_ticks: int, now: MonotonicTime) -> IoRates | None:
        """Of a process distinguished by its start time; None at first, and where the kernel refuses."""
        kept = self._kept.get(pid)
        if kept is not None and kept.start_ticks == start_ticks and now - kept.looked_at < LOOK_SECONDS:
            return kept.rates
        totals = _parse(read_text(f"{self.procfs}/{pid}/io"))
        if totals is None:
            self._kept.pop(pid, None)
            return None
        same = kept is not None and kept.start_ticks == start_ticks
        rates = _smoothed(kept, totals, now) if kept is not None and same else IoRates(_NONE, _NONE)
        self._kept[pid] = _Kept(start_ticks, now, totals, rates)
        return rates if same else None

    def forget(self, alive: Collection[int]) -> None:
        """Drop what is kept of processes not in `alive`."""
        self._kept = {pid: kept for pid, kept in self._kept.items() if pid in alive}


def _smoothed(kept: _Kept, totals: _Totals, now: MonotonicTime) -> IoRates:
    seconds = now - kept.looked_at
    read_calls, written_calls, read, written = [max(0, a - b) for a, b in zip(totals, kept.totals, strict=True)]
    fades = math.exp(-seconds / LATELY_SECONDS)
    share = (1.0 - fades) / seconds
    return IoRates(
        BytesPerSecond(kept.rates.read * fades + max(read_calls, read) * share),
        BytesPerSecond(kept.rates.written * fades + max(written_calls, written) * share),
    )


def bytes_of(text: str, *names: str) -> list[Bytes | None]:
    """What stands in the lines of these names; None where there is no such line."""
    words = text.split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    numbers = [natural(found.get(f"{name}:", "")) for name in names]
    return cast("list[Bytes | None]", numbers)


def _parse(text: str) -> _Totals | None:
    found = bytes_of(text, "rchar", "wchar", "read_bytes", "write_bytes")
    return None if None in found else _Totals(*cast("list[Bytes]", found))
