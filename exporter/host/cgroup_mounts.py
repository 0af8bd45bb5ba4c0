"""Where cgroup hierarchies are mounted, and the folders in them."""

from __future__ import annotations

import os
from pathlib import Path

from exporter.host.presence import exists


def mounts(cgroupfs: Path) -> tuple[str, ...]:
    """Where hierarchies are mounted: the v2 root alone, or v1's controllers and the hybrid's v2 tree."""
    if exists(cgroupfs / "cgroup.controllers"):
        return (str(cgroupfs),)
    return tuple(f"{cgroupfs}/{name}" for name in sorted(folders(str(cgroupfs))))


def folders(path: str) -> list[str]:
    """Names of the folders in `path`, links left out; none where it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
