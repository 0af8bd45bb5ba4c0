"""One process as /proc shows it: text parsers, and a reader that reads again only what can change."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime, boot_time, monotonic_time
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.core.units import Bytes
from exporter.host.model import HostProcess
from exporter.host.namespace import absolute
from exporter.host.text import KeptFile, KeptFiles, bounded, lines, natural, read_text, room

SOURCE = "user_database"
_MAX_NAMES = 512
"""Users that are remembered; a node with new ones every day would have thousands in the end."""


class UserNames:
    """Name by user id. The number as text until there is a name, and for a user that this host does not know."""

    def __init__(self, lookup: Lookup[int, str] | None = None) -> None:
        self._lookup = lookup or Lookup("users", account, limit=_MAX_NAMES)

    def start(self, threads: Threads) -> None:
        self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def name(self, uid: int) -> str:
        return self._lookup.get(uid) or str(uid)

    def health(self) -> tuple[bool, float] | None:
        """Whether it answers in time, and the age of the oldest open question; None while nobody was asked for."""
        return self._lookup.health()


def account(uid: int, subordinate: Path = Path("/etc/subuid")) -> str | None:
    """The account's name; None where this host does not know it (a container's user), or its directory is away.

    Of a number that a user's own containers (rootless) run under: the user it was lent to, where that is one alone.
    """
    try:
        return bounded(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return _lent_to(uid, read_text(str(subordinate)))


def _lent_to(uid: int, text: str) -> str | None:
    """By the ranges of subuid(5), `USER:FIRST:COUNT`. Root's are for the containers of others, so they tell nothing."""
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
        return None  # left behind by a user who has gone
    return bounded(known.pw_name) if known.pw_uid else None


T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """Gives turns by size, `limit` in all or one alone: first to those who never had one, then to who waits longest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[T, None] = {}
        """Those who had a turn, in the order of their next one."""

    def next(self, sizes: Mapping[T, int]) -> Collection[T]:
        """Who has a turn now. Those that `sizes` does not name are forgotten."""
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
PASS_PROCESSES = 256
"""Processes read in one pass."""
_MAX_FILES, _FILES_PART = 512, 1 / 4
"""Descriptors kept, and of this program's descriptors."""


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


class _Identity(NamedTuple):
    """What many processes have in common. Processes of one identity share one object."""

    command: str
    user: str
    cgroup: str


_NOBODY = _Identity("", "", "")


@dataclass(slots=True)
class _Kept:
    """A process of which /proc shows the same is the same object again."""

    stat: KeptFile
    content: bytes = b""
    """Of `stat`, that `process` was made of."""
    start_ticks: int = 0
    identity: _Identity = _NOBODY
    identity_at: MonotonicTime = NEVER
    process: HostProcess | None = None


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
            has_terminal=rest[4] != "0",
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
    _boot: float | None = None
    _files: KeptFiles = field(init=False)
    _kept: dict[int, _Kept] = field(default_factory=dict[int, _Kept])
    _identities: dict[_Identity, _Identity] = field(default_factory=dict[_Identity, _Identity])
    _turns: Turns[int] = field(default_factory=lambda: Turns[int](PASS_PROCESSES))
    _last: Mapping[int, HostProcess] = field(default_factory=dict[int, HostProcess])

    def __post_init__(self) -> None:
        self._files = KeptFiles(self.procfs, room(_MAX_FILES, _FILES_PART))

    def read_all(self, pids: Collection[int]) -> Mapping[int, HostProcess]:
        """Those of `pids` that /proc shows; what is kept of others is dropped. To be called once a pass.

        Of more than `PASS_PROCESSES` a part is read, and the others are as they were when it was their turn. The same
        object again where nothing has changed.
        """
        self._forget(pids)
        turn = self._turns.next(dict.fromkeys(pids, 1))
        last = self._last
        every = [(pid, self.read(pid) if pid in turn else last.get(pid)) for pid in pids]
        found = {pid: process for pid, process in every if process is not None}
        if found != last:
            self._last = found
        return self._last

    def read(self, pid: int) -> HostProcess | None:
        """The process, or None where it has gone or /proc does not show it."""
        kept = self._kept.get(pid)
        if kept is None:
            kept = self._kept[pid] = _Kept(KeptFile(self._files, str(pid), "stat"))
        content, now = kept.stat.read(), self.monotonic()
        if content is not kept.content or now - kept.identity_at >= IDENTITY_SECONDS:
            kept.process = self._look(pid, kept, content, now)
        return kept.process

    def _look(self, pid: int, kept: _Kept, content: bytes, now: MonotonicTime) -> HostProcess | None:
        stat = parse_stat(content.decode("utf-8", "replace"))
        if stat is None:
            return None
        # The start time distinguishes a reused pid, the name an exec (which may change the user).
        same = kept.start_ticks == stat.start_ticks and kept.identity.command == stat.command
        before = kept.identity
        if not same or now - kept.identity_at >= IDENTITY_SECONDS:
            kept.identity, kept.identity_at = self._identity(pid, stat.command), now
        unchanged = content is kept.content and kept.identity is before
        kept.content, kept.start_ticks = content, stat.start_ticks
        return kept.process if unchanged else self._process(pid, stat, kept.identity)

    def _process(self, pid: int, stat: Stat, identity: _Identity) -> HostProcess:
        return HostProcess(
            pid=pid,
            command=identity.command,
            user=identity.user,
            start_time=UnixTime(self._boot_time() + stat.start_ticks / CLOCK_TICKS),
            cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
            resident_bytes=Bytes(stat.resident_pages * PAGE_BYTES),
            cgroup=identity.cgroup,
            parent=stat.parent,
        )

    def _identity(self, pid: int, command: str) -> _Identity:
        folder = f"{self.procfs}/{pid}"
        uid = parse_uid(read_text(f"{folder}/status"))
        user = "" if uid is None else self.name_of(uid)
        found = _Identity(command, user, absolute(read_text(f"{folder}/cgroup"), self.own_cgroup))
        return self._identities.setdefault(found, found)

    def _forget(self, alive: Collection[int]) -> None:
        gone = self._kept.keys() - alive
        if gone:
            self._kept = {pid: kept for pid, kept in self._kept.items() if pid not in gone}
        if gone or len(self._identities) > 2 * len(self._kept):  # programs may give themselves new names all the time
            self._identities = {kept.identity: kept.identity for kept in self._kept.values()}

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
