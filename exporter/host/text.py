"""Reading the small text files of procfs and cgroupfs."""

from __future__ import annotations

import os

_CHUNK = 1 << 14
"""Holds nearly every file read here; a buffer of a megabyte would cost three times the read itself."""


def read_text(path: str) -> str:
    """The file's text; empty where it is gone, refused, or fails half way, which for a process is the same thing.

    Names in procfs are bytes, so nothing is refused as not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.read(descriptor, _CHUNK)
        while chunk := os.read(descriptor, _CHUNK):  # the kernel may stop between two records
            found += chunk
        return found.decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def natural(word: str) -> int | None:
    """A number of plain digits, as the kernel prints it; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() else None
