"""Processes behind reports, from /proc, and the accounts that their reports count for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.cgroup import Cgroup, absolute, trusted_cgroup
from exporter.core.clock import NEVER, MonotonicTime
from exporter.host import namespace
from exporter.host.process import parse_stat
from exporter.host.text import exists, lines, natural, read_text
from exporter.progress.reporters import Process, of_user


def process(pid: int, procfs: Path) -> Process | None:
    """Return the process that has this pid now; None if there is none."""
    stat = parse_stat(read_text(f"{procfs}/{pid}/stat")) if pid > 0 else None
    ids = _status_words(pid, "Uid:", procfs) if stat else []
    user = natural(ids[0]) if ids else None
    return None if stat is None or user is None else Process(pid, stat.start_ticks, user)


def lives(known: Process, procfs: Path) -> bool:
    """Return whether a process still runs. One that cannot be read for now (no free descriptor) counts as running."""
    path = f"{procfs}/{known.pid}/stat"
    stat = parse_stat(read_text(path))
    return exists(path) if stat is None else stat.start_ticks == known.start_ticks


def in_host_namespace(pid: int, procfs: Path) -> bool:
    """Return whether the process has one pid, and none of a container's own namespace."""
    return len(_status_words(pid, "NSpid:", procfs)) <= 1


def _status_words(pid: int, name: str, procfs: Path) -> list[str]:
    """Return the words of a line of /proc/PID/status."""
    found = (line.split()[1:] for line in lines(read_text(f"{procfs}/{pid}/status")) if line.startswith(name))
    return next(found, list[str]())


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Cgroups of processes as paths in the host's tree. `own` is the root of this reader's cgroup namespace."""

    procfs: Path
    cgroupfs: Path
    own: str = ""

    def paths(self, pid: int) -> Iterator[str]:
        """Yield the paths without the names of their hierarchies."""
        for line in lines(namespace.absolute(read_text(f"{self.procfs}/{pid}/cgroup"), self.own)):
            yield absolute(line.split(":", 2)[-1], self.cgroupfs)


_KEPT_SECONDS = 1.0
"""Time before a process is read again: a flood costs two small files a second and sender."""
_MOST = 4096
_ALL_USERS = ["0", "0", "4294967295"]


class Accounts:
    """Accounts for quotas: the user, or the pod or container in which a program may become any user.

    A user's own namespace has 65,536 user ids: counted by them, one user could take the places of all. Used by one
    thread.
    """

    def __init__(self, procfs: Path, cgroupfs: Path = Path("/sys/fs/cgroup")) -> None:
        self._procfs = procfs
        self._cgroupfs = cgroupfs
        self._found: dict[tuple[int, int], str] = {}
        self._since = NEVER
        self._places: dict[str, Cgroup] = {}

    def of(self, pid: int, user: int, now: MonotonicTime) -> str:
        """Return the account; empty if the process has ended."""
        if now - self._since >= _KEPT_SECONDS or len(self._found) >= _MOST:
            self._found, self._since = {}, now
        found = self._found.get((pid, user))
        if found is None:
            found = self._found[pid, user] = self._read(pid, user)
        return found

    def _read(self, pid: int, user: int) -> str:
        text = read_text(f"{self._procfs}/{pid}/cgroup")
        if not text:
            return ""
        place = self._place_of(text)
        job = place.job or place.sluid
        contained = place.pod or ("" if place.delegated else place.container) or place.allocation
        if contained and not job:
            return contained
        if read_text(f"{self._procfs}/{pid}/uid_map").split() in (_ALL_USERS, []):
            return of_user(user)
        # A process in a user namespace counts by the names that root made, else by its outermost cgroup.
        paths = [line.split(":", 2)[-1].split("/") for line in lines(text)]
        outermost = max((path[1] for path in paths if len(path) > 1), default="") or "/"
        by_root = f"job {job}" if job else of_user(int(place.login)) if place.login else place.delegated or place.unit
        return by_root or outermost

    def _place_of(self, text: str) -> Cgroup:
        if text not in self._places:
            if len(self._places) >= _MOST:
                self._places.clear()
            self._places[text] = trusted_cgroup(text, self._cgroupfs)
        return self._places[text]
