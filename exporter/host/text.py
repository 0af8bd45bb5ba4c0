"""Reading small files, and text, that somebody else wrote.

Files of procfs that are read pass after pass keep a descriptor each. A descriptor of /proc/PID/… belongs to that very
process: once it has ended, reads through it fail for good, also when its number is given to another one. So a pid used
again is never mistaken for the process before.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Collection
from pathlib import Path


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether something is at `path` that may be seen.

    Path.exists() raises where a folder on the way may not be searched: what is only looked for must not end a pass.
    """
    return os.path.exists(path)  # noqa: PTH110 - see above


def is_folder(path: str | os.PathLike[str]) -> bool:
    """The same of a folder."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


_CHUNK = 1 << 14
"""Holds nearly every file read here; a buffer of a megabyte would cost three times the read itself."""
_MAX_BYTES = 1 << 20
"""Bytes read of any file: what a user can make longer is cut."""
_SHOWN = 256
_DIGITS = 20
"""Of 2^64."""
_MOST = 1 << 53


def read_text(path: str) -> str:
    """The file's text, as `read_bytes` finds it. Names in procfs are bytes, so nothing is refused as not UTF-8."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """Empty where the file is gone, refused, or fails half way, which for a process is the same thing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.read(descriptor, _CHUNK)  # the kernel may stop between two records
        while len(found) < _MAX_BYTES and (chunk := os.read(descriptor, _CHUNK)):
            found += chunk
    except OSError:
        found = b""
    finally:
        os.close(descriptor)
    return found


def lines(text: str) -> list[str]:
    """The lines of what the kernel, Slurm or a program wrote: they end with a newline, and with nothing else.

    str.splitlines() would also cut where a user put a vertical tab or U+2028 into the name of a process, a cgroup or a
    job, and what follows in that name would be read as a line of its own.
    """
    found = text.split("\n")
    if not found[-1]:
        found.pop()
    return found


def natural(word: str) -> int | None:
    """A number of plain digits, as the kernel prints it; None for anything else."""
    return int(word) if len(word) <= _DIGITS and word.isascii() and word.isdigit() else None


def count(value: object) -> int | None:
    """A number that counts something, in JSON that somebody else wrote; None for anything else.

    JSON's numbers have no end: beyond this one a float, as all series are, would not hold it.
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def bounded(text: str, limit: int = _SHOWN) -> str:
    """Text that somebody else wrote, fit for a label: at most `limit` characters, and nothing UTF-8 cannot say."""
    return text[:limit].encode("utf-8", "replace").decode()


def read_regular(path: str | os.PathLike[str], limit: int, owners: Collection[int] = ()) -> bytes | None:
    """At most `limit` bytes of a plain file of one of `owners` (of anybody, without); None for anything else.

    Links, pipes and devices are refused: whoever can put one in place must not choose what is read, nor make us wait.
    Raises OSError where the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (owners and status.st_uid not in owners):
            return None
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def new_file(path: Path, mode: int = 0o666) -> int:
    """Create a file, owned as its directory, and return a descriptor of it. Raises OSError, also if it exists."""
    descriptor = os.open(path, _NEW, mode)
    _give(path.parent, descriptor)
    return descriptor


def make_directory(path: Path) -> None:
    """Create the directory if it does not exist, owned as the directory above it. Raises OSError."""
    try:
        path.mkdir()
    except FileExistsError:
        if not is_folder(path):
            raise
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _give(path.parent, descriptor)
    finally:
        os.close(descriptor)


def _give(parent: Path, descriptor: int) -> None:
    if os.geteuid() == 0:
        owner = parent.stat()
        with contextlib.suppress(PermissionError):  # a root without that capability
            os.fchown(descriptor, owner.st_uid, owner.st_gid)


_KEPT_CHUNK = 1 << 10
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
                return self.room > 0 and self._is_procfs()
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
                content = os.pread(self._descriptor, _KEPT_CHUNK, 0)
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
            content = os.pread(self._descriptor, _KEPT_CHUNK, 0)
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
    return 0 < len(content) < _KEPT_CHUNK
