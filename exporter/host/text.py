"""Reading the small text files of procfs and cgroupfs."""

from __future__ import annotations

import os

_LARGEST = 1 << 20
"""More than any file read here holds; what is longer is cut."""


def read_text(path: str) -> str:
    """The file's text; empty where it is gone, refused, or fails half way, which for a process is the same thing.

    Names in procfs are bytes, so nothing is refused as not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def natural(word: str) -> int | None:
    """A number of plain digits, as the kernel prints it; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() else None
