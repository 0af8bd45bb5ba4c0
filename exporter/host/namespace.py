"""The reader's own cgroup: in a container with a cgroup namespace of its own, every path is written relative to it."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from exporter.host.presence import exists
from exporter.host.text import lines


def own_cgroup(cgroupfs: Path, mine: Path = Path("/sys/fs/cgroup")) -> str:
    """Path in the host's tree (mounted at `cgroupfs`) of the cgroup that `mine` has as its root.

    Version 2 only: there a cgroup's inode number is its id, the same in every mount and namespace. Empty where `mine`
    shows the whole tree already, or nothing shows where it is.
    """
    try:
        if not exists(mine / "cgroup.controllers") or cgroupfs.stat().st_ino == (wanted := mine.stat().st_ino):
            return ""
    except OSError:
        return ""
    for folder, names, _ in os.walk(cgroupfs):
        for name in names:
            try:
                if Path(folder, name).stat().st_ino == wanted:
                    return f"{folder}/{name}".removeprefix(str(cgroupfs))
            except OSError:  # the cgroup has gone
                continue
    return ""


def absolute(text: str, own: str) -> str:
    """The text of /proc/PID/cgroup with the path of version 2 as the host would show it."""
    if not own:
        return text
    return "".join(f"{_line(line, own)}\n" for line in lines(text))


def _line(line: str, own: str) -> str:
    return f"0::{posixpath.normpath(f'{own}/{line[3:]}')}" if line.startswith("0::") else line
