"""What processes that are being ended leave behind for a while."""

from __future__ import annotations

from pathlib import Path


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def works_in(process: Path, work: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(work)
    except OSError:
        return False


def removed(folder: str) -> bool:
    """A cgroup goes when its last process has."""
    try:
        Path(folder).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
