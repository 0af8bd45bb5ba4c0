"""Files of procfs that are read pass after pass through one descriptor each.

A descriptor of /proc/PID/… belongs to that very process: once it has ended, reads through it fail for good, also when
its number is given to another one. So a pid used again is never mistaken for the process before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from exporter.host.text import read_text

T = TypeVar("T")

_CHUNK = 1 << 12
"""Holds every file that is read this way; a longer one is read as any other."""
_MAX_FILES = 256
"""Descriptors kept; what is over that is opened at each read."""
_PROCFS_ROOT = 1
"""Inode of the root of a procfs: only there does a descriptor end with its process."""


class KeptFiles:
    """Reads files below one procfs root. Used by one thread."""

    def __init__(self, procfs: Path, limit: int = _MAX_FILES) -> None:
        self._procfs = procfs
        self._limit = limit
        self._keeps: bool | None = None
        self._open: dict[str, _Kept] = {}
        self._pass = 0

    def parsed(self, path: str, parse: Callable[[str], T]) -> T:
        """What `parse` makes of the file's text: the same object again for as long as the file reports the same.

        The text is as of `text.read_text`: empty where the file is gone, refused, or fails half way. A path is always
        read with the same `parse`.
        """
        kept = self._open.get(path)
        if kept is None:
            return self._opened(path, parse)
        try:
            content = os.pread(kept.descriptor, _CHUNK, 0)
        except OSError:
            content = b""
        kept.read_in = self._pass
        if content != kept.content:
            if not _whole(content):
                os.close(self._open.pop(path).descriptor)
                return self._opened(path, parse)
            kept.content, kept.parsed = content, parse(content.decode("utf-8", "replace"))
        found: T = kept.parsed
        return found

    def close_unread(self) -> None:
        """Close what was not read since the last time: to be called once a pass."""
        for path in [path for path, kept in self._open.items() if kept.read_in != self._pass]:
            os.close(self._open.pop(path).descriptor)
        self._pass += 1

    def _opened(self, path: str, parse: Callable[[str], T]) -> T:
        if len(self._open) >= self._limit or not self._is_procfs():
            return parse(read_text(path))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return parse("")
        try:
            content = os.pread(descriptor, _CHUNK, 0)
        except OSError:
            content = b""
        if not _whole(content):
            os.close(descriptor)
            return parse(read_text(path))
        found = parse(content.decode("utf-8", "replace"))
        self._open[path] = _Kept(descriptor, content, found, self._pass)
        return found

    def _is_procfs(self) -> bool:
        if self._keeps is None:
            try:
                self._keeps = self._procfs.stat().st_ino == _PROCFS_ROOT
            except OSError:
                return False
        return self._keeps


@dataclass(slots=True)
class _Kept:
    """An open file, what it reported last, what that was parsed to, and the pass it was last read in."""

    descriptor: int
    content: bytes
    parsed: Any
    read_in: int


def _whole(content: bytes) -> bool:
    """Not so where the read failed, or the file is longer than a chunk."""
    return 0 < len(content) < _CHUNK
