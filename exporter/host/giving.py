"""What root makes by hand in a folder of a service belongs to the service's user, who could not change it else."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from exporter.host.presence import is_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def new_file(path: Path, mode: int = 0o666) -> int:
    """A descriptor of a file that was not there. Raises OSError."""
    descriptor = os.open(path, _NEW, mode)
    _give(path.parent, descriptor)
    return descriptor


def folder(path: Path) -> None:
    """Make it where it is not there. Raises OSError."""
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
