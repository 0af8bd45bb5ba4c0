"""One process as /proc shows it: text parsers, and a reader that reads again only what can change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from exporter.clock import MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.host.kept_files import KeptFiles
from exporter.host.model import HostProcess
from exporter.host.namespace import absolute
from exporter.host.text import lines, natural, read_text
from exporter.host.turns import Turns
from exporter.host.users import account
from exporter.units import Bytes

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
IDENTITY_SECONDS = 30.0
"""User and cgroup are read again this often: slurmd and systemd move a process after it has started."""
PASS_PROCESSES = 256
"""Processes read in one pass."""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat in use, in the kernel's units: ticks and pages."""

    command: str
    state: str
    parent: int
    minor_faults: int
    cpu_ticks: int
    start_ticks: int
    resident_pages: int


class _Made(NamedTuple):
    """A process and what it was made of."""

    stat: Stat
    identity: _Identity
    process: HostProcess


class _Identity(NamedTuple):
    user: str
    cgroup: str
    read_at: MonotonicTime


def parse_stat(text: str) -> Stat | None:
    """Fields of a stat line, None where it is not one.

    The name stands in parentheses and may hold blanks, parentheses and newlines: the last `)` ends it.
    """
    opening, closing = text.find("("), text.rfind(")")
    rest = text[closing + 1 :].split()
    if opening < 0 or closing < opening or len(rest) < 22:  # noqa: PLR2004 - field 24 of proc(5) is the last in use
        return None
    try:
        return Stat(
            command=text[opening + 1 : closing],
            state=rest[0],
            parent=int(rest[1]),
            minor_faults=int(rest[7]),
            cpu_ticks=int(rest[11]) + int(rest[12]),
            start_ticks=int(rest[19]),
            resident_pages=int(rest[21]),
        )
    except ValueError:
        return None


def parse_uid(text: str) -> int | None:
    """The effective user of /proc/PID/status."""
    for line in lines(text):
        if line.startswith("Uid:"):
            words = line.split()
            return natural(words[2]) if len(words) > 2 else None  # noqa: PLR2004 - real, effective, saved, file system
    return None


def parse_boot_time(text: str) -> int | None:
    """Unix seconds of boot from /proc/stat."""
    for line in lines(text):
        if line.startswith("btime "):
            return natural(line[6:].strip())
    return None


def user_name(uid: int) -> str:
    """The account's name, however long its directory takes; the number as text where this host does not know it."""
    return account(uid) or str(uid)


@dataclass(slots=True)
class ProcessReader:
    """Reads processes under one procfs root. One `stat` a call; user and cgroup now and then.

    `name_of` is asked with each identity and must not wait for a directory service.
    """

    procfs: Path = Path("/proc")
    monotonic: MonotonicClock = monotonic_time
    name_of: Callable[[int], str] = user_name
    own_cgroup: str = ""
    """Where this reader's cgroup namespace begins (`namespace.own_cgroup`); empty on the host."""
    _identities: dict[tuple[int, int, str], _Identity] = field(default_factory=dict[tuple[int, int, str], _Identity])
    _boot: float | None = None
    _files: KeptFiles = field(init=False)
    _root: str = field(init=False)
    _turns: Turns[int] = field(default_factory=lambda: Turns[int](PASS_PROCESSES))
    _last: dict[int, HostProcess | None] = field(default_factory=dict[int, HostProcess | None])
    _made: dict[int, _Made] = field(default_factory=dict[int, _Made])
    """One of which /proc shows the same is the same object again."""

    def __post_init__(self) -> None:
        self._files = KeptFiles(self.procfs)
        self._root = str(self.procfs)

    def read_all(self, pids: Collection[int]) -> Mapping[int, HostProcess]:
        """Those of `pids` that /proc shows; what is kept of others is dropped. To be called once a pass.

        Of more than `PASS_PROCESSES` a part is read, and the others are as they were when it was their turn.
        """
        self._forget(pids)
        turn = self._turns.next(dict.fromkeys(pids, 1))
        self._last = {pid: self.read(pid) if pid in turn else self._last.get(pid) for pid in pids}
        return {pid: process for pid, process in self._last.items() if process is not None}

    def read(self, pid: int) -> HostProcess | None:
        """The process, or None where it has gone or /proc does not show it."""
        folder = f"{self._root}/{pid}"
        stat = self._files.parsed(f"{folder}/stat", parse_stat)
        if stat is None:
            return None
        identity = self._identity(pid, stat, folder)
        made = self._made.get(pid)
        if made is None or made.stat is not stat or made.identity is not identity:
            made = self._made[pid] = _Made(stat, identity, self._process(pid, stat, identity))
        return made.process

    def _process(self, pid: int, stat: Stat, identity: _Identity) -> HostProcess:
        return HostProcess(
            pid=pid,
            command=stat.command,
            user=identity.user,
            start_time=UnixTime(self._boot_time() + stat.start_ticks / CLOCK_TICKS),
            cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
            resident_bytes=Bytes(stat.resident_pages * PAGE_BYTES),
            cgroup=identity.cgroup,
            parent=stat.parent,
        )

    def _forget(self, alive: Collection[int]) -> None:
        self._files.close_unread()
        if any(key[0] not in alive for key in self._identities):
            self._identities = {key: kept for key, kept in self._identities.items() if key[0] in alive}
            self._made = {pid: made for pid, made in self._made.items() if pid in alive}

    def _identity(self, pid: int, stat: Stat, folder: str) -> _Identity:
        # The start time distinguishes a reused pid, the name an exec (which may change the user).
        key = (pid, stat.start_ticks, stat.command)
        now = self.monotonic()
        known = self._identities.get(key)
        if known is not None and now - known.read_at < IDENTITY_SECONDS:
            return known
        uid = parse_uid(read_text(f"{folder}/status"))
        user = "" if uid is None else self.name_of(uid)
        identity = _Identity(user, absolute(read_text(f"{folder}/cgroup"), self.own_cgroup), now)
        self._identities[key] = identity
        return identity

    def _boot_time(self) -> float:
        # Read once: it follows the wall clock's corrections, and a start time that moves is a new series each time.
        if self._boot is None:
            self._boot = parse_boot_time(read_text(f"{self.procfs}/stat")) or 0.0
        return self._boot


def read(pid: int, procfs: Path = Path("/proc")) -> HostProcess | None:
    """One process read once; None where it has gone. Use a `ProcessReader` to read many again and again."""
    return ProcessReader(procfs).read(pid)
