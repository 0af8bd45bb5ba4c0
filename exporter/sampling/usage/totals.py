"""What an owner has used: counters that neither fall nor jump, whatever counts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from exporter.core.clock import UnixTime
from exporter.core.units import Bytes
from exporter.host.model import HostProcess, HostUsage
from exporter.host.process_io import bytes_of
from exporter.host.text import KeptFile, KeptFiles

_Key = tuple[str, str]
"""A field and, of pressure, its resource."""
_PLAIN = ("cpu_seconds", "read_bytes", "written_bytes")
_PRESSURE = ("pressure_seconds", "full_pressure_seconds")


class CarriedUsage:
    """What one owner has used, also where what counts it changes.

    A cgroup is an owner's alone until somebody else's process is in it too (a root shell in a login session, another
    user's notebook in the same service): then its own processes count, and later the cgroup again. A container or a
    unit that is started anew has a cgroup that counts from 0.
    """

    __slots__ = ("_added", "_raw", "_raws", "_shown", "_source", "_usage")

    def __init__(self) -> None:
        self._source: object = None
        self._raw = self._usage = HostUsage()
        self._raws: dict[_Key, float] = {}
        """The totals that this source counted last."""
        self._shown: dict[_Key, float] = {}
        """What was shown of each, whatever counted it."""
        self._added: dict[_Key, float] = {}

    def of(self, raw: HostUsage, source: object) -> HostUsage:
        """`raw` is what `source` counts. The same object again where nothing ever had to be carried."""
        if raw is self._raw and source == self._source:
            return self._usage
        if source != self._source:
            self._raws.clear()
        for key, number in _totals(raw):
            before = self._raws.get(key)
            if key in self._shown and (before is None or number < before):
                self._added[key] = self._shown[key] - number
            self._raws[key] = number
            self._shown[key] = number + self._added.get(key, 0.0)
        self._raw, self._source = raw, source
        self._usage = self._with(raw) if self._added else raw
        return self._usage

    def _with(self, raw: HostUsage) -> HostUsage:
        shown = {key: self._shown[key] for key, _ in _totals(raw)}
        pressure, full = ({each: at for (name, each), at in shown.items() if name == field} for field in _PRESSURE)
        return replace(
            raw,
            cpu_seconds=shown.get(("cpu_seconds", "")),
            read_bytes=_bytes(shown.get(("read_bytes", ""))),
            written_bytes=_bytes(shown.get(("written_bytes", ""))),
            pressure_seconds=pressure,
            full_pressure_seconds=full,
        )


def _totals(usage: HostUsage) -> Iterator[tuple[_Key, float]]:
    for name in _PLAIN:
        number = getattr(usage, name)
        if number is not None:
            yield (name, ""), number
    for name in _PRESSURE:
        for resource, seconds in getattr(usage, name).items():
            yield (name, resource), seconds


def _bytes(number: float | None) -> Bytes | None:
    return None if number is None else Bytes(round(number))


_MAX_LEFT = 64
"""Kept of those that have left the GPUs."""


class _Left(NamedTuple):
    """How far one was counted that has left the GPUs: it may come back, as one does that frees its GPU in between."""

    start_time: UnixTime
    cpu_seconds: float
    read: Bytes | None
    written: Bytes | None


class _Process:
    """One of them, as it was last counted."""

    __slots__ = ("content", "cpu_seconds", "file", "process", "read", "written")

    def __init__(self, file: KeptFile, process: HostProcess) -> None:
        self.file = file
        self.content: bytes | None = None
        """Of its `io` file."""
        self.process = process
        self.cpu_seconds = 0.0
        self.read: Bytes | None = Bytes(0)
        self.written: Bytes | None = Bytes(0)


class ProcessTotals:
    """The sum over the GPU processes of an owner without a cgroup of its own.

    Those that have ended count too: a counter must not fall when one leaves.
    """

    __slots__ = ("_cpu_seconds", "_files", "_left", "_processes", "_read", "_usage", "_written", "joined")

    def __init__(self, files: KeptFiles) -> None:
        self._files = files
        self._processes: dict[int, _Process] = {}
        self._left: dict[int, _Left] = {}
        self._usage = HostUsage()
        self._cpu_seconds = 0.0
        self._read: Bytes | None = None
        self._written: Bytes | None = None
        self.joined = False
        """Whether the last `usage` has in it what a process used before it was first seen here."""

    def usage(self, running: Sequence[HostProcess]) -> HostUsage:
        """The same object again where nothing has changed; nothing is known without processes."""
        if not running and not self._processes:
            return HostUsage()
        self.joined = False
        changed = self._forget(running)
        for process in running:
            changed = self._counted(process) or changed
        if changed:
            self._usage = HostUsage(
                cpu_seconds=self._cpu_seconds,
                resident_bytes=Bytes(sum([process.resident_bytes for process in running])),
                read_bytes=self._read,
                written_bytes=self._written,
            )
        return self._usage

    def _forget(self, running: Sequence[HostProcess]) -> bool:
        """Whether somebody has left."""
        gone = self._processes.keys() - {process.pid for process in running}
        for pid in gone:
            known = self._processes.pop(pid)
            self._left[pid] = _Left(known.process.start_time, known.cpu_seconds, known.read, known.written)
        for pid in tuple(islice(self._left, max(0, len(self._left) - _MAX_LEFT))):
            del self._left[pid]
        return bool(gone)

    def _counted(self, process: HostProcess) -> bool:
        """Add what one has used since it was last counted; whether anything of it has changed."""
        known = self._processes.get(process.pid)
        if known is None or known.process.start_time != process.start_time:
            file = KeptFile(self._files, str(process.pid), "io")
            known = self._processes[process.pid] = _Process(file, process)
            left = self._left.pop(process.pid, None)
            if left and left.start_time == process.start_time:
                known.cpu_seconds, known.read, known.written = left.cpu_seconds, left.read, left.written
            else:
                self.joined = True
        content = known.file.read()
        if content is known.content and process is known.process:
            return False
        if content is not known.content:
            read, written = bytes_of(content.decode("utf-8", "replace"), "read_bytes", "write_bytes")
            self._read = _grown(self._read, known.read, read)
            self._written = _grown(self._written, known.written, written)
            known.content = content
            known.read = known.read if read is None else read  # one that cannot be read for now goes on where it was
            known.written = known.written if written is None else written
        self._cpu_seconds += max(0.0, process.cpu_seconds - known.cpu_seconds)
        known.cpu_seconds, known.process = process.cpu_seconds, process
        return True


def _grown(total: Bytes | None, before: Bytes | None, now: Bytes | None) -> Bytes | None:
    return total if now is None else Bytes((total or 0) + max(0, now - (before or 0)))
