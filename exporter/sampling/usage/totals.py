"""Totals of an owner's use: counters that neither fall nor jump, whatever counts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from exporter.core.clock import UnixTime
from exporter.core.units import Bytes
from exporter.host.model import HostProcess, HostUsage
from exporter.host.process import parse_io
from exporter.host.text import exists, read_text

_Key = tuple[str, str]
"""A field and, of pressure, its resource, of the network its direction."""
_PLAIN = ("cpu_seconds", "read_bytes", "written_bytes")
_MAPPINGS = ("pressure_seconds", "full_pressure_seconds", "network_bytes")


class CarriedUsage:
    """Totals of one owner that go on when their source changes.

    A cgroup is an owner's alone until somebody else's process is in it too (a root shell in a login session, another
    user's notebook in the same service): then its own processes count, and later the cgroup again. A container or a
    unit that is started anew has a cgroup that counts from 0.
    """

    def __init__(self) -> None:
        self._source: object = None
        self._raws: dict[_Key, float] = {}
        """The totals that this source counted last."""
        self._shown: dict[_Key, float] = {}
        """Values shown of each, whatever counted it."""
        self._added: dict[_Key, float] = {}

    def of(self, raw: HostUsage, source: object) -> HostUsage:
        """Return the totals; `raw` is what `source` counts."""
        if source != self._source:
            self._raws.clear()
        for key, number in _usage_totals(raw):
            before = self._raws.get(key)
            if key in self._shown and (before is None or number < before):
                self._added[key] = self._shown[key] - number
            self._raws[key] = number
            self._shown[key] = number + self._added.get(key, 0.0)
        self._source = source
        return self._with_totals(raw) if self._added else raw

    def _with_totals(self, raw: HostUsage) -> HostUsage:
        shown = {key: self._shown[key] for key, _ in _usage_totals(raw)}
        pressure, full, moved = (
            {each: at for (name, each), at in shown.items() if name == field} for field in _MAPPINGS
        )
        return replace(
            raw,
            cpu_seconds=shown.get(("cpu_seconds", "")),
            read_bytes=_as_bytes(shown.get(("read_bytes", ""))),
            written_bytes=_as_bytes(shown.get(("written_bytes", ""))),
            pressure_seconds=pressure,
            full_pressure_seconds=full,
            network_bytes={direction: Bytes(round(number)) for direction, number in moved.items()},
        )


def _usage_totals(usage: HostUsage) -> Iterator[tuple[_Key, float]]:
    for name in _PLAIN:
        number = getattr(usage, name)
        if number is not None:
            yield (name, ""), number
    for name in _MAPPINGS:
        for each, number in getattr(usage, name).items():
            yield (name, each), number


def _as_bytes(number: float | None) -> Bytes | None:
    return None if number is None else Bytes(round(number))


_MAX_LEFT = 64
"""Kept of those that have left the GPUs. Of more, only those that still run."""


class _Counted(NamedTuple):
    """One process as it was last counted. One that has left the GPUs may come back."""

    start_time: UnixTime
    cpu_seconds: float = 0.0
    read: Bytes | None = Bytes(0)
    written: Bytes | None = Bytes(0)


class ProcessTotals:
    """The sum over the GPU processes of an owner without a cgroup of its own.

    Those that have ended count too: a counter must not fall when one leaves.
    """

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._counted: dict[int, _Counted] = {}
        self._left: dict[int, _Counted] = {}
        self._cpu_seconds = 0.0
        self._read: Bytes | None = None
        self._written: Bytes | None = None
        self.joined = False
        """True if the last `usage` contains what a process used before it was first seen here."""

    def usage(self, running: Sequence[HostProcess]) -> HostUsage:
        """Return the totals; nothing is known without processes."""
        if not running and not self._counted:
            return HostUsage()
        self.joined = False
        for pid in self._counted.keys() - {process.pid for process in running}:
            self._left[pid] = self._counted.pop(pid)
        if len(self._left) > _MAX_LEFT:
            self._left = {pid: each for pid, each in self._left.items() if exists(f"{self._procfs}/{pid}")}
        for process in running:
            self._count_process(process)
        return HostUsage(
            cpu_seconds=self._cpu_seconds,
            resident_bytes=Bytes(sum([process.resident_bytes for process in running])),
            read_bytes=self._read,
            written_bytes=self._written,
        )

    def _count_process(self, process: HostProcess) -> None:
        """Add what one has used since it was last counted."""
        known = self._counted.get(process.pid)
        if known is None or known.start_time != process.start_time:
            known = self._left.pop(process.pid, None)
        if known is None or known.start_time != process.start_time:
            known, self.joined = _Counted(process.start_time), True
        read, written = parse_io(read_text(f"{self._procfs}/{process.pid}/io"), "read_bytes", "write_bytes")
        self._read = _grown_total(self._read, known.read, read)
        self._written = _grown_total(self._written, known.written, written)
        self._cpu_seconds += max(0.0, process.cpu_seconds - known.cpu_seconds)
        self._counted[process.pid] = _Counted(
            process.start_time,
            process.cpu_seconds,
            known.read if read is None else read,  # one that cannot be read for now goes on where it was
            known.written if written is None else written,
        )


def _grown_total(total: Bytes | None, before: Bytes | None, now: Bytes | None) -> Bytes | None:
    return total if now is None else Bytes((total or 0) + max(0, now - (before or 0)))
