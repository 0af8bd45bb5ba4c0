"""Files of procfs that are read pass after pass through one descriptor each.

A descriptor of /proc/PID/… belongs to that very process: once it has ended, reads through it fail for good, also when
its number is given to another one. So a pid used again is never mistaken for the process before.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from exporter.host.text import read_bytes

_CHUNK = 1 << 10
"""Holds every file that is read this way; a longer one is read as any other."""
_PROCFS_ROOT = 1
"""Inode of the root of a procfs: only there does a descriptor end with its process."""


def room(most: int, part: float) -> int:
    """How many descriptors may be kept: at most this part of those that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if soft == resource.RLIM_INFINITY else min(most, int(soft * part))


class KeptFiles:
    """Room for so many descriptors of files below one procfs root. Used by one thread."""

    def __init__(self, procfs: Path, limit: int) -> None:
        self.root = str(procfs)
        self.room = limit
        """How many more may be kept; what is over that is opened at each read."""
        self._keeps: bool | None = None

    def may_keep(self) -> bool:
        return self.room > 0 and self._is_procfs()

    def _is_procfs(self) -> bool:
        if self._keeps is None:
            try:
                self._keeps = Path(self.root).stat().st_ino == _PROCFS_ROOT
            except OSError:
                return False
        return self._keeps


class KeptFile:
    """One file; its descriptor is closed with the object, or by the first read that fails."""

    __slots__ = ("_content", "_descriptor", "_files", "_folder", "_name")

    def __init__(self, files: KeptFiles, folder: str, name: str) -> None:
        """`folder` is below the root of `files`."""
        self._files = files
        self._folder = folder
        self._name = name
        self._descriptor: int | None = None
        self._content: bytes = b""

    def read(self) -> bytes:
        """What the file reports: the same object again for as long as it reports the same.

        Empty where the file is gone, refused, or fails half way.
        """
        if self._descriptor is not None:
            try:
                content = os.pread(self._descriptor, _CHUNK, 0)
            except OSError:
                content = b""
            if content == self._content:
                return self._content
            if _whole(content):
                self._content = content
                return content
            self._close()
        content = self._opened()
        if content != self._content:
            self._content = content
        return self._content

    def _opened(self) -> bytes:
        path = f"{self._files.root}/{self._folder}/{self._name}"
        if not self._files.may_keep():
            return read_bytes(path)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        self._files.room -= 1
        try:
            content = os.pread(self._descriptor, _CHUNK, 0)
        except OSError:
            content = b""
        if _whole(content):
            return content
        self._close()
        return read_bytes(path)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._files.room += 1

    def __del__(self) -> None:
        self._close()


def _whole(content: bytes) -> bool:
    """Not so where the read failed, or the file is longer than a chunk."""
    return 0 < len(content) < _CHUNK
