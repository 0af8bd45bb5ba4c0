"""Where a cgroup is under the host's mount, and which part of its path the system named.

In an ordinary container on cgroup v2, /proc shows other containers' cgroups relative to the reader's own, as
`/../../kubepods-burstable-pod….slice/…`: names that are unique on the node, under a parent that is not reported. The
parents there can be are few, so it is looked for under each.

A user can make folders below `user@UID.service`, or below any cgroup that was given to him, and call one like a job's,
a pod's or a container's. So a job or a pod is only one whose folder stands in folders of root alone.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from exporter.attribution.cgroup import GUESTS, Cgroup, parse
from exporter.host.cgroup import mounts
from exporter.host.text import is_folder, lines

_QOS = ("", "burstable", "besteffort")


def _parents() -> Iterator[str]:
    yield ""
    for qos in _QOS:
        yield f"/kubepods/{qos}".rstrip("/")
        yield f"/kubelet/kubepods/{qos}".rstrip("/")
        yield f"/kubepods.slice/kubepods-{qos}.slice" if qos else "/kubepods.slice"
        above = "/kubelet.slice/kubelet-kubepods.slice"
        yield f"{above}/kubelet-kubepods-{qos}.slice" if qos else above
    yield from (
        "/nomad.slice/share.slice",
        "/nomad.slice/reserve.slice",
        "/nomad.slice",
        "/system.slice",
        "/machine.slice",
        "/user.slice",
        "/docker",
    )


_PARENTS = tuple(_parents())


def placed(cgroup: Cgroup, cgroupfs: Path) -> Cgroup:
    """The same with paths under the mount; one that is not found there is left empty."""
    return replace(
        cgroup,
        job_path=absolute(cgroup.job_path, cgroupfs),
        pod_path=absolute(cgroup.pod_path, cgroupfs),
        nested_in=absolute(cgroup.nested_in, cgroupfs),
        container_path=absolute(cgroup.container_path, cgroupfs),
        allocation_path=absolute(cgroup.allocation_path, cgroupfs),
        unit_path=absolute(cgroup.unit_path, cgroupfs),
    )


def absolute(path: str, cgroupfs: Path) -> str:
    """`path` as it is, unless it is relative to another cgroup: then where it is found, or empty."""
    if not path.startswith("/.."):
        return path
    while path.startswith("/.."):
        path = path[3:]
    candidates = (f"{parent}{path}" for parent in _PARENTS) if path and ".." not in path.split("/") else ()
    roots = mounts(cgroupfs)
    return next((each for each in candidates for root in roots if is_folder(f"{root}{each}")), "")


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
