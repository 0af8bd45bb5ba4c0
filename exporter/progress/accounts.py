"""Whose quota a report takes: its user's, or that of the pod or container it is from, where anybody may be any user.

In a container a program may become any user, and a user's own namespace gives him 65,536 of them: counted by user, one
could use up the places of all, and those of the users that run beside him.
"""

from __future__ import annotations

from pathlib import Path

from exporter.attribution.cgroup import Cgroup
from exporter.attribution.cgroup_place import understood
from exporter.core.clock import NEVER, MonotonicTime
from exporter.host.text import lines, read_text
from exporter.progress.reporters import of_user

_KEPT_SECONDS = 1.0
"""So long a process is not looked at again: a flood costs two small files a second and sender."""
_MOST = 4096
_ALL_USERS = ["0", "0", "4294967295"]


class Accounts:
    """Used by one thread."""

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
