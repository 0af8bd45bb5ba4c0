"""Reads the report files and finds the process, and so the owner, each is from."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution.owner import NOBODY, Owner
from exporter.host.model import HostProcess
from exporter.progress.report import Progress, Report, parse, together

_EVERY = 5.0
"""Seconds between two looks into the directory."""
_MOST_BYTES = 4096
_MOST_FILES = 1024


@dataclass(slots=True)
class ProgressReader:
    """Keeps the last reports for a few seconds, and what each process is called in its own namespace."""

    directory: Path
    procfs: Path = Path("/proc")
    _reports: tuple[tuple[int, Report], ...] = ()
    _looked: float = float("-inf")
    _names: dict[tuple[int, float], tuple[int, int]] = field(default_factory=dict[tuple[int, float], tuple[int, int]])

    def read(
        self, processes: Mapping[int, Owner], hosts: Mapping[int, HostProcess], monotonic: float
    ) -> Mapping[Owner, Progress]:
        """Progress by owner. A report counts for the one GPU process with its pid and its file's user."""
        if monotonic - self._looked >= _EVERY:
            self._reports, self._looked = tuple(_files(self.directory)), monotonic
        if not self._reports:
            return {}
        by_name: dict[tuple[int, int], set[Owner]] = {}
        for pid, host in hosts.items():
            by_name.setdefault(self._name(pid, host), set()).add(processes.get(pid, NOBODY))
        found: dict[Owner, list[Progress]] = {}
        for user, report in self._reports:
            owners = by_name.get((user, report.pid), set())
            if len(owners) == 1:  # two containers of one user can both call a process 71: then nobody's
                found.setdefault(next(iter(owners)), []).append(report.progress)
        self._forget(hosts)
        return {owner: together(reports) for owner, reports in found.items() if owner != NOBODY}

    def _name(self, pid: int, host: HostProcess) -> tuple[int, int]:
        """User id, and pid in the process's own namespace."""
        key = (pid, host.start_time)
        if key not in self._names:
            self._names[key] = _identity(pid, self.procfs)
        return self._names[key]

    def _forget(self, hosts: Mapping[int, HostProcess]) -> None:
        alive = {(pid, host.start_time) for pid, host in hosts.items()}
        self._names = {key: name for key, name in self._names.items() if key in alive}


def _identity(pid: int, procfs: Path) -> tuple[int, int]:
    try:
        text = (procfs / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return (-1, -1)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    user, own = fields.get("Uid", "").split(), fields.get("NSpid", str(pid)).split()
    return (int(user[0]) if user else -1, int(own[-1]) if own else pid)


def _files(directory: Path) -> Iterator[tuple[int, Report]]:
    """User id of each file's owner, and its report. What is no small regular file, or no report, is passed over."""
    try:
        names = sorted(os.listdir(directory))[:_MOST_FILES]  # noqa: PTH208 - names are all that is needed
    except OSError:
        return
    for name in names:
        if name.endswith(".json") and not name.startswith("."):
            read = _file(directory / name)
            report = parse(read[1]) if read else None
            if read and report:
                yield read[0], report


def _file(path: Path) -> tuple[int, str] | None:
    """The user and the text of a file; links, pipes and large files are not followed, since users write here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        return status.st_uid, os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
