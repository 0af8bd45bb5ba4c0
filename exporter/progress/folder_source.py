"""Reports by files in a folder, for what cannot send: read on a thread of its own, within the same quotas.

A file proves its user and nothing more. So the process it names must be that user's, and must call itself by the pid it
has on the node: a process in a container could name any other one that happens to have its number.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from exporter.clock import MonotonicClock, monotonic_time
from exporter.progress.processes import in_host_namespace, process
from exporter.progress.protocol import LARGEST, parse
from exporter.progress.reporters import Reporters

EVERY = 5.0
"""Seconds between two looks into the folder."""
_ENTRIES = 20_000
"""Looked at in one go; past them the folder counts as failed."""
_FILES_PER_USER = 256


class FolderSource:
    """Reads the folder every few seconds until stopped."""

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
        self._read: dict[str, tuple[int, int]] = {}
        """Time stamp and inode of each file when it was last read: what has not changed is no new report."""
        self._stopped = threading.Event()
        self.error = "not read yet"

    def run(self) -> None:
        while not self._stopped.is_set():
            due = self._clock() + EVERY
            self.look()
            self._stopped.wait(max(0.0, due - self._clock()))

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Take in the files that have changed."""
        try:
            entries = list(_entries(self._folder))
        except OSError as error:
            self.error = f"{self._folder}: {error.strerror or error}"
            return
        self.error = f"{self._folder}: more than {_ENTRIES} entries" if len(entries) > _ENTRIES else ""
        users: Counter[int] = Counter()
        seen: dict[str, tuple[int, int]] = {}
        for name, status in entries[:_ENTRIES]:
            users[status.st_uid] += 1
            if users[status.st_uid] > _FILES_PER_USER:
                continue
            stamp = seen[name] = (status.st_mtime_ns, status.st_ino)
            if self._read.get(name) != stamp:
                self._take(self._folder / name)
        self._read = seen
        over = sum(count - _FILES_PER_USER for count in users.values() if count > _FILES_PER_USER)
        if over:
            self._reporters.refuse("over_quota")

    def _take(self, path: Path) -> None:
        read = _file(path)
        if read is None:
            self._reporters.refuse("malformed")
            return
        user, text = read
        now = self._clock()
        if not self._reporters.admit(user, now):
            return
        report = parse(text)
        if report is None or not report.pid:
            self._reporters.refuse("malformed")
            return
        known = process(report.pid, self._procfs)
        if known is None:
            return  # a file may be left behind
        if known.user != user or not in_host_namespace(known.pid, self._procfs):
            self._reporters.refuse("not_this_process")
            return
        self._reporters.add(known, report, now)


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count > _ENTRIES:
                yield entry.name, entry.stat(follow_symlinks=False)
                return
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue


def _file(path: Path) -> tuple[int, bytes] | None:
    """The user and the text of a file; links, pipes and large files are refused, since users write here."""
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
