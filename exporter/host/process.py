"""One process as /proc shows it: text parsers, and a reader that reads again only what can change."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from exporter.core.clock import MonotonicClock, MonotonicTime, UnixTime, boot_time, monotonic_time
from exporter.core.lookup import Lookup
from exporter.core.printable import printable
from exporter.core.units import Bytes
from exporter.host.model import HostProcess
from exporter.host.namespace import absolute
from exporter.host.text import bounded, lines, natural, read_text

SOURCE = "user_database"
_MAX_NAMES = 512
"""Users that are remembered; a node with new ones every day would have thousands in the end."""


class UserNames(Lookup[int, str]):
    """Names by user id, from a directory service that may be slow or away: asked beside the cycles, never in one."""

    def __init__(self, ask: Callable[[int], str | None] | None = None, clock: MonotonicClock = monotonic_time) -> None:
        super().__init__("users", ask or account, limit=_MAX_NAMES, clock=clock)

    def name(self, uid: int) -> str:
        """Return the name; the number as text until there is one, and for a user that this host does not know."""
        return self.get(uid) or str(uid)


def account(uid: int, subordinate: Path = Path("/etc/subuid")) -> str | None:
    """The account's name; None where this host does not know it (a container's user), or its directory is away.

    Of a number that a user's own containers (rootless) run under: the user it was lent to, where that is one alone.
    """
    try:
        return bounded(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return _lent_to(uid, read_text(str(subordinate)))


def _lent_to(uid: int, text: str) -> str | None:
    """Return the owner of the id by subuid(5), `USER:FIRST:COUNT`. Root's ranges are for the containers of others."""
    entries = [line.split(":") for line in lines(text) if line.count(":") == 2]  # noqa: PLR2004 - as above
    users: set[str] = set()
    for user, first, count in entries:
        start, size = natural(first), natural(count.strip())
        if start is not None and size is not None and start <= uid < start + size:
            users.add(user)
    if len(users) != 1:
        return None
    user = users.pop()
    try:
        known = pwd.getpwuid(int(user)) if natural(user) is not None else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):
        return None  # stale, of a user who has gone
    return bounded(known.pw_name) if known.pw_uid else None


T = TypeVar("T", bound=Hashable)


class RoundRobin(Generic[T]):
    """Gives turns by size, `limit` in all or one alone: first to those who never had one, then to who waits longest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[T, None] = {}
        """Those who had a turn, in the order of their next one."""

    def next(self, sizes: Mapping[T, int]) -> Collection[T]:
        """Return who has a turn now. Those that `sizes` does not name are forgotten."""
        if sum(sizes.values()) <= self._limit:
            self._waiting = dict.fromkeys(sizes)
            return sizes.keys()
        waiting = [name for name in self._waiting if name in sizes]
        chosen: dict[T, None] = {}
        left = self._limit
        for name in [*(name for name in sizes if name not in self._waiting), *waiting]:
            if chosen and sizes[name] > left:
                break
            chosen[name] = None
            left -= sizes[name]
        self._waiting = dict.fromkeys([*(name for name in waiting if name not in chosen), *chosen])
        return chosen.keys()


CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
IDENTITY_SECONDS = 30.0
"""User and cgroup are read again this often: slurmd and systemd move a process after it has started."""
CYCLE_PROCESSES = 256
"""Processes read in one cycle."""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat in use, in the kernel's units: ticks and pages."""

    command: str
    state: str
    parent: int
    minor_faults: int
    cpu_ticks: int
    start_ticks: int
    resident_pages: int
    has_terminal: bool = False
    """It belongs to a session with a terminal."""
    system_ticks: int = 0
    """Part of `cpu_ticks`, in the kernel."""
    ended_ticks: int = 0
    """CPU of the children of the process that have ended, and of theirs."""
    exiting: bool = False
    """True once it has begun to exit, which takes long in the GPU's driver."""


class _Identity(NamedTuple):
    """The properties of a process that are read only now and then."""

    start_ticks: int
    command: str
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
            command=printable(text[opening + 1 : closing]),
            state=rest[0],
            parent=int(rest[1]),
            minor_faults=int(rest[7]),
            cpu_ticks=int(rest[11]) + int(rest[12]),
            start_ticks=int(rest[19]),
            resident_pages=int(rest[21]),
            has_terminal=rest[4] != "0",
            system_ticks=int(rest[12]),
            ended_ticks=int(rest[13]) + int(rest[14]),
            exiting=bool(int(rest[6]) & 0x4),  # PF_EXITING
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


def parse_io(text: str, *names: str) -> list[Bytes | None]:
    """Return the numbers of these lines of /proc/PID/io; None where there is no such line."""
    words = text.split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    numbers = [natural(found.get(f"{name}:", "")) for name in names]
    return [None if number is None else Bytes(number) for number in numbers]


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
    """Root of this reader's cgroup namespace (`namespace.own_cgroup`); empty on the host."""
    _boot: float | None = None
    _identities: dict[int, _Identity] = field(default_factory=dict[int, _Identity])
    _turns: RoundRobin[int] = field(default_factory=lambda: RoundRobin[int](CYCLE_PROCESSES))
    _last: Mapping[int, HostProcess] = field(default_factory=dict[int, HostProcess])

    def read_all(self, pids: Collection[int]) -> Mapping[int, HostProcess]:
        """Return those of `pids` that /proc shows, and drop what is kept of others. Called once a cycle.

        Of more than `CYCLE_PROCESSES` a part is read. The others are as they were at their turn.
        """
        wanted = set(pids)
        self._identities = {pid: each for pid, each in self._identities.items() if pid in wanted}
        turn, last = self._turns.next(dict.fromkeys(pids, 1)), self._last
        every = [(pid, self.read(pid) if pid in turn else last.get(pid)) for pid in pids]
        self._last = {pid: process for pid, process in every if process is not None}
        return self._last

    def read(self, pid: int) -> HostProcess | None:
        """Return the process, or None if it has ended or /proc does not show it."""
        stat = parse_stat(read_text(f"{self.procfs}/{pid}/stat"))
        if stat is None:
            return None
        identity = self._read_identity(pid, stat)
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

    def _read_identity(self, pid: int, stat: Stat) -> _Identity:
        """Read user and cgroup now and then. The start time distinguishes a reused pid, the name an exec.

        A process that exits keeps its identity: version 1 shows it in the root cgroup.
        """
        known, now = self._identities.get(pid), self.monotonic()
        same = known is not None and known[:2] == (stat.start_ticks, stat.command)
        if known and same and (stat.exiting or now - known.read_at < IDENTITY_SECONDS):
            return known
        folder = f"{self.procfs}/{pid}"
        uid = parse_uid(read_text(f"{folder}/status"))
        user = "" if uid is None else self.name_of(uid)
        cgroup = absolute(read_text(f"{folder}/cgroup"), self.own_cgroup)
        found = self._identities[pid] = _Identity(stat.start_ticks, stat.command, user, cgroup, now)
        return found

    def _boot_time(self) -> float:
        # Read once: it follows the wall clock's corrections, and a start time that moves is a new series each time.
        if self._boot is None:
            known = parse_boot_time(read_text(f"{self.procfs}/stat"))
            # By the clocks, where it cannot be read: 0 would be kept, and each process begin in 1970.
            self._boot = float(boot_time() if known is None else known)
        return self._boot


def read(pid: int, procfs: Path = Path("/proc")) -> HostProcess | None:
    """One process read once; None where it has gone. Use a `ProcessReader` to read many again and again."""
    return ProcessReader(procfs).read(pid)
