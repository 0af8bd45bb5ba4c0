"""Small files, and text that other programs wrote."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection
from pathlib import Path

from exporter.core.printable import printable


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether something is at `path` that may be seen.

    Path.exists() raises where a folder on the way may not be searched: a mere search must not end a cycle.
    """
    return os.path.exists(path)  # noqa: PTH110 - see above


def is_folder(path: str | os.PathLike[str]) -> bool:
    """The same of a folder."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


_CHUNK_BYTES = 1 << 14
"""Holds nearly every file read here; a buffer of a megabyte would cost three times the read itself."""
_MAX_BYTES = 1 << 20
"""Bytes read of any file: what a user can make longer is cut."""
_MAX_LABEL = 256
_DIGITS = 20
"""Digits of 2^64."""
_MAX_COUNT = 1 << 53


def read_text(path: str, limit: int = _MAX_BYTES) -> str:
    """Return the file's text, as `read_bytes` finds it. Names in procfs are bytes, so text need not be UTF-8."""
    return read_bytes(path, limit).decode("utf-8", "replace")


def read_bytes(path: str, limit: int = _MAX_BYTES) -> bytes:
    """Return `limit` bytes at most; none where the file is gone, refused, or fails half way."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe has nothing
    except OSError:
        return b""
    try:
        found = os.read(descriptor, min(limit, _CHUNK_BYTES))  # the kernel may stop between two records
        while len(found) < limit and (chunk := os.read(descriptor, min(limit - len(found), _CHUNK_BYTES))):
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
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT else None


def bounded(text: str, limit: int = _MAX_LABEL) -> str:
    """Text that somebody else wrote, fit for a label: at most `limit` characters, all printable."""
    return printable(text[:limit])[:limit]


def read_regular(path: str | os.PathLike[str], limit: int, owners: Collection[int] = ()) -> bytes | None:
    """Return `limit` bytes at most of a plain file of one of `owners` (if any are given); None for anything else.

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
    _give_to_owner(path.parent, descriptor)
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
        _give_to_owner(path.parent, descriptor)
    finally:
        os.close(descriptor)


def _give_to_owner(parent: Path, descriptor: int) -> None:
    if os.geteuid() == 0:
        owner = parent.stat()
        with contextlib.suppress(PermissionError):  # a root without that capability
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
