"""Which part of a cgroup's path the system named: below a folder that is a user's own, names are that user's text.

A user can make folders below `user@UID.service`, or below any cgroup that was given to him, and call one like a job's,
a pod's or a container's. So a job or a pod is only one whose folder stands in folders of root alone.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from exporter.attribution.cgroup import GUESTS, Cgroup, parse
from exporter.host.cgroup_mounts import mounts
from exporter.host.text import lines

_USERS_OWN = re.compile(r"/user@[0-9]+\.service(?=/)")


def understood(text: str, cgroupfs: Path) -> Cgroup:
    """The cgroup of a process by the text of its /proc/PID/cgroup: job and pod from what the system named.

    Container and unit may be a user's own (rootless podman); `delegated` says which.
    """
    full = parse(text)
    roots = mounts(cgroupfs)
    whole = lines(text)
    cut = [_cut(line, roots) for line in whole]
    if cut == whole:
        return full
    named = parse("\n".join(cut))
    inner = full if full.container and named.runtime not in GUESTS else named
    found = replace(
        named,
        container=inner.container,
        runtime=inner.runtime,
        container_path=inner.container_path,
        unit=full.unit,
        unit_path=full.unit_path,
    )
    return replace(found, delegated=(named.unit or "user") if _told(found) != _told(named) else "")


def _told(cgroup: Cgroup) -> str:
    """What it goes by: a container, else a unit."""
    return cgroup.container or cgroup.unit


def _cut(line: str, roots: Collection[str]) -> str:
    """The line of /proc/PID/cgroup up to the first folder that is a user's own."""
    path = line.split(":", 2)[-1]
    head, end = line[: len(line) - len(path)], len(path)
    match = _USERS_OWN.search(path)
    if match:
        end = match.end()
    for root in roots:
        end = min(end, _roots_part(root, path))
    return head + path[:end]


def _roots_part(root: str, path: str) -> int:
    """How much of the path stands in folders that root alone may make others in, as far as they are there."""
    trusted = {0, _owner(root)}
    at = path.find("/", 1)
    while at > 0:
        try:
            status = Path(f"{root}{path[:at]}").lstat()
        except OSError:
            break
        if status.st_uid not in trusted or status.st_mode & stat.S_IWOTH:
            return at
        at = path.find("/", at + 1)
    return len(path)


def _owner(root: str) -> int:
    """Who root is in the reader's user namespace."""
    try:
        return Path(root).stat().st_uid
    except OSError:
        return 0
