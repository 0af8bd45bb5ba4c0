"""Where a cgroup is under the host's mount, for a reader in a cgroup namespace of its own.

In an ordinary container on cgroup v2, /proc shows other containers' cgroups relative to the reader's own, as
`/../../kubepods-burstable-pod….slice/…`: names that are unique on the node, under a parent that is not reported. The
parents there can be are few, so it is looked for under each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from exporter.attribution.cgroup import Cgroup
from exporter.host.cgroup_mounts import mounts
from exporter.host.presence import is_folder

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
