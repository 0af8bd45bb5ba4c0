"""Reports by files in a folder, for programs that cannot send. They have the same quotas.

A file only proves its user. So the process that it names must be that user's, and must see itself under its pid on the
node: a process in a container could name any other process with the same pid.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from exporter.core.clock import MonotonicClock, monotonic_time
from exporter.progress.processes import in_host_namespace, process
from exporter.progress.protocol import LARGEST, parse
from exporter.progress.reporters import Reporters, of_user

LIST_SECONDS = 5.0
"""Seconds between two listings of the folder."""
_ENTRIES = 20_000
"""Files of one round; with more the folder counts as failed, and they take turns."""
_NAMES = 200_000
"""Entries of any kind that are listed for that."""
_FILES_PER_USER = 256
"""Newest files that are read: programs may leave files."""

_Stamp = tuple[int, int]
"""Time and inode."""


class FolderSource:
    """Reader of the folder, every few seconds until stopped."""

    def __init__(
        self,
        folder: Path,
        reporters: Reporters,
        procfs: Path = Path("/proc"),
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._folder = folder
        self._reporters = reporters
        self._procfs = procfs
        self._clock = clock
        self._read: dict[str, _Stamp] = {}
        """Time and inode of each file when it was last read: an unchanged file is no new report."""
        self._reporting: frozenset[str] = frozenset()
        """Files of processes that were running when they were read."""
        self._from = 0
        """First file of the next round, in a folder of too many files."""
        self._stopped = threading.Event()
        self.error = "not read yet"

    def run(self) -> None:
        while not self._stopped.is_set():
            due = self._clock() + LIST_SECONDS
            self.read_changed()
            self._stopped.wait(max(0.0, due - self._clock()))

    def stop(self) -> None:
        self._stopped.set()

    def read_changed(self) -> None:
        """Read the files that have changed."""
        try:
            found, total = _round_names(self._folder, self._from)
            of_users = _by_user(self._folder, self._reporting.union(found))
        except OSError as error:
            self.error = f"{self._folder}: {error.strerror or error}"
            return
        self.error = f"{self._folder}: more than {_ENTRIES} entries" if total > _ENTRIES else ""
        self._from = self._from + _ENTRIES if total > self._from + _ENTRIES else 0
        newest = {name: stamp for files in of_users.values() for stamp, name in sorted(files)[-_FILES_PER_USER:]}
        changed = {name for name, stamp in newest.items() if self._read.get(name) != stamp}
        self._read = newest
        heard = {name for name in changed if self._take(self._folder / name)}
        self._reporting = self._reporting.intersection(newest.keys() - changed) | heard
        if any(len(files) > _FILES_PER_USER for files in of_users.values()):
            self._reporters.refuse("over_quota")

    def _take(self, path: Path) -> bool:
        """Read one file. Returns whether its process runs."""
        read = _read_file(path)
        if read is None:
            self._reporters.refuse("malformed")
            return False
        user, text = read
        now = self._clock()
        if not self._reporters.admit(of_user(user), now):
            return False
        report = parse(text)
        if report is None or not report.pid:
            self._reporters.refuse("malformed")
            return False
        known = process(report.pid, self._procfs)
        if known is None:
            return False  # an ended program may leave its file
        if known.user != user or not in_host_namespace(known.pid, self._procfs):
            self._reporters.refuse("not_this_process")
            return False
        self._reporters.add(known, report, now)
        return True


def _round_names(folder: Path, start: int) -> tuple[list[str], int]:
    """Return the names of this round, and the number of all."""
    found: list[str] = []
    total = 0
    with os.scandir(folder) as entries:
        for entry in islice(entries, _NAMES):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                if start <= total < start + _ENTRIES:
                    found.append(entry.name)
                total += 1
    return found, total


def _by_user(folder: Path, names: Iterable[str]) -> Mapping[int, Sequence[tuple[_Stamp, str]]]:
    found: dict[int, list[tuple[_Stamp, str]]] = defaultdict(list)
    for name in names:
        with suppress(FileNotFoundError):
            status = (folder / name).lstat()
            found[status.st_uid].append(((status.st_mtime_ns, status.st_ino), name))
    return found


def _read_file(path: Path) -> tuple[int, bytes] | None:
    """Return user and text of a file; links, pipes and large files are refused, because users write here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= LARGEST:
            return None
        return status.st_uid, os.read(descriptor, LARGEST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
