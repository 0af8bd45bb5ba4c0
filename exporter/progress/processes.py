"""The processes behind reports, as /proc shows them, and the accounts that their reports count for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.cgroup import Cgroup, absolute, understood
from exporter.core.clock import NEVER, MonotonicTime
from exporter.host import namespace
from exporter.host.presence import exists
from exporter.host.process import parse_stat
from exporter.host.text import lines, natural, read_text
from exporter.progress.reporters import Process, of_user


def process(pid: int, procfs: Path) -> Process | None:
    """The process that has this pid now; None where there is none."""
    stat = parse_stat(read_text(f"{procfs}/{pid}/stat")) if pid > 0 else None
    status = read_text(f"{procfs}/{pid}/status") if stat else ""
    user = _field(status, "Uid:")
    return None if stat is None or user is None else Process(pid, stat.start_ticks, user)


def lives(known: Process, procfs: Path) -> bool:
    """One of which nothing can be read for now (no descriptor is free) is not taken for one that has ended."""
    path = f"{procfs}/{known.pid}/stat"
    stat = parse_stat(read_text(path))
    return exists(path) if stat is None else stat.start_ticks == known.start_ticks


def in_host_namespace(pid: int, procfs: Path) -> bool:
    """Whether the process calls itself by the pid it has here: one in a container of its own does not."""
    for line in lines(read_text(f"{procfs}/{pid}/status")):
        if line.startswith("NSpid:"):
            return len(line.split()) == 2  # noqa: PLR2004 - the word and one pid
    return True


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Finds the cgroups of processes in the host's tree, as owners' are: /proc may show them from elsewhere."""

    procfs: Path
    cgroupfs: Path
    own: str = ""
    """Where this reader's cgroup namespace begins; empty on the host."""

    def paths(self, pid: int) -> Iterator[str]:
        """Without the names of their hierarchies."""
        for line in lines(namespace.absolute(read_text(f"{self.procfs}/{pid}/cgroup"), self.own)):
            yield absolute(line.split(":", 2)[-1], self.cgroupfs)


def _field(status: str, name: str) -> int | None:
    for line in lines(status):
        if line.startswith(name):
            words = line.split()
            return natural(words[1]) if len(words) > 1 else None
    return None


_KEPT_SECONDS = 1.0
"""So long a process is not looked at again: a flood costs two small files a second and sender."""
_MOST = 4096
_ALL_USERS = ["0", "0", "4294967295"]


class Accounts:
    """Whose quota a report takes: its user's, or that of its pod or container, where anybody may be any user.

    In a container a program may become any user, and a user's own namespace gives him 65,536 of them: counted by user,
    one could use up the places of all, and those of the users that run beside him. Used by one thread.
    """

    def __init__(self, procfs: Path, cgroupfs: Path = Path("/sys/fs/cgroup")) -> None:
        self._procfs = procfs
        self._cgroupfs = cgroupfs
        self._found: dict[tuple[int, int], str] = {}
        self._since = NEVER
        self._places: dict[str, Cgroup] = {}

    def of(self, pid: int, user: int, now: MonotonicTime) -> str:
        """Empty where nothing shows the process: it has ended."""
        if now - self._since >= _KEPT_SECONDS or len(self._found) >= _MOST:
            self._found, self._since = {}, now
        found = self._found.get((pid, user))
        if found is None:
            found = self._found[pid, user] = self._look(pid, user)
        return found

    def _look(self, pid: int, user: int) -> str:
        text = read_text(f"{self._procfs}/{pid}/cgroup")
        if not text:
            return ""
        place = self._place(text)
        contained = place.pod or ("" if place.delegated else place.container) or place.allocation
        if contained and not _job(place):
            return contained
        if read_text(f"{self._procfs}/{pid}/uid_map").split() in (_ALL_USERS, []):
            return of_user(user)
        return _of_namespace(place) or _top(text)

    def _place(self, text: str) -> Cgroup:
        if text not in self._places:
            if len(self._places) >= _MOST:
                self._places.clear()
            self._places[text] = understood(text, self._cgroupfs)
        return self._places[text]


def _of_namespace(place: Cgroup) -> str:
    """Of a process in a user namespace, by what root named around it."""
    if _job(place):
        return f"job {_job(place)}"
    if place.login:
        return of_user(int(place.login))
    return place.delegated or place.unit


def _job(place: Cgroup) -> str:
    return place.job or place.sluid


def _top(text: str) -> str:
    """The outermost cgroup, which only root can make."""
    paths = [line.split(":", 2)[-1].split("/") for line in lines(text)]
    return max((path[1] for path in paths if len(path) > 1), default="") or "/"
