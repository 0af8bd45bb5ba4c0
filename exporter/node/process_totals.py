"""What an owner without a cgroup of its own has used: the sum over its GPU processes."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.host.kept_files import KeptFile, KeptFiles
from exporter.host.model import HostProcess, HostUsage
from exporter.host.process_io import bytes_of
from exporter.units import Bytes


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
    """Also of those that have ended: a counter must not fall when one leaves."""

    __slots__ = ("_cpu_seconds", "_files", "_processes", "_read", "_usage", "_written")

    def __init__(self, files: KeptFiles) -> None:
        self._files = files
        self._processes: dict[int, _Process] = {}
        self._usage = HostUsage()
        self._cpu_seconds = 0.0
        self._read: Bytes | None = None
        self._written: Bytes | None = None

    def usage(self, running: Sequence[HostProcess]) -> HostUsage:
        """The same object again where nothing has changed; nothing is known without processes."""
        if not running and not self._processes:
            return HostUsage()
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
            del self._processes[pid]
        return bool(gone)

    def _counted(self, process: HostProcess) -> bool:
        """Add what one has used since it was last counted; whether anything of it has changed."""
        known = self._processes.get(process.pid)
        if known is None or known.process.start_time != process.start_time:
            file = KeptFile(self._files, str(process.pid), "io")
            known = self._processes[process.pid] = _Process(file, process)
        content = known.file.read()
        if content is known.content and process is known.process:
            return False
        if content is not known.content:
            read, written = bytes_of(content.decode("utf-8", "replace"), "read_bytes", "write_bytes")
            self._read = _grown(self._read, known.read, read)
            self._written = _grown(self._written, known.written, written)
            known.content, known.read, known.written = content, read, written
        self._cpu_seconds += max(0.0, process.cpu_seconds - known.cpu_seconds)
        known.cpu_seconds, known.process = process.cpu_seconds, process
        return True


def _grown(total: Bytes | None, before: Bytes | None, now: Bytes | None) -> Bytes | None:
    return total if now is None else Bytes((total or 0) + max(0, now - (before or 0)))
