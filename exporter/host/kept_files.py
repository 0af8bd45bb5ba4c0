"""Files of procfs that are read pass after pass through one descriptor each.

A descriptor of /proc/PID/… belongs to that very process: once it has ended, reads through it fail for good, also when
its number is given to another one. So a pid used again is never mistaken for the process before.
"""

from __future__ import annotations

import os
from pathlib import Path

from exporter.host.text import read_text

_CHUNK = 1 << 12
"""Holds every file that is read this way; a longer one is read as any other."""
_MOST = 256
"""Descriptors kept; what is over that is opened at each read."""
_PROCFS_ROOT = 1
"""Inode of the root of a procfs: only there does a descriptor end with its process."""


class KeptFiles:
    """Reads files below one procfs root. Used by one thread."""

    def __init__(self, procfs: Path, most: int = _MOST) -> None:
        self._procfs = procfs
        self._most = most
        self._keeps: bool | None = None
        self._open: dict[str, int] = {}
        self._read: set[str] = set()

    def read(self, path: str) -> str:
        """As `text.read_text`: empty where the file is gone, refused, or fails half way."""
        self._read.add(path)
        descriptor = self._open.get(path)
        if descriptor is not None:
            found = _content(descriptor)
            if found is not None:
                return found
            os.close(self._open.pop(path))
        return self._opened(path)

    def close_unread(self) -> None:
        """Close what was not read since the last time: to be called once a pass."""
        for path in self._open.keys() - self._read:
            os.close(self._open.pop(path))
        self._read.clear()

    def _opened(self, path: str) -> str:
        if len(self._open) >= self._most or not self._is_procfs():
            return read_text(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        found = _content(descriptor)
        if found is None:
            os.close(descriptor)
            return read_text(path)
        self._open[path] = descriptor
        return found

    def _is_procfs(self) -> bool:
        if self._keeps is None:
            try:
                self._keeps = self._procfs.stat().st_ino == _PROCFS_ROOT
            except OSError:
                return False
        return self._keeps


def _content(descriptor: int) -> str | None:
    """The whole file as it is now; None where it fails, is empty, or is longer than a chunk."""
    try:
        found = os.pread(descriptor, _CHUNK, 0)
    except OSError:
        return None
    return found.decode("utf-8", "replace") if 0 < len(found) < _CHUNK else None
