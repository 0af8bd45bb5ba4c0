"""Whether files have changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def stamps(files: Iterable[Path]) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever one of the files does."""

    def stamp(path: Path) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    return tuple(stamp(path) for path in files)
