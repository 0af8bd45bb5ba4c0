"""Job, pod, container, session or unit of a process, from the text of its /proc/PID/cgroup.

Cgroup v1, v2 and hybrid hosts; Slurm's v1 and v2 trees, with job ids or SLUIDs (26.05 and newer); both Kubernetes
cgroup drivers, static pods, kind; docker, containerd, cri-o, podman; Nomad's tasks; guests of LXC, Incus,
Proxmox and systemd-nspawn; also when the reader sits in another cgroup namespace, where paths start with `/../..`.
Patterns are in the RE2 subset, so none backtracks without bound.
"""

from __future__ import annotations

import functools
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from exporter.core.record import record
from exporter.host.cgroup import mounts
from exporter.host.text import bounded, is_folder, lines


@record
class Cgroup:
    """Names in the cgroup of one process; empty if absent. `…_path` is the cgroup of the named thing."""

    job: str = ""
    """Slurm's raw job id: an array's element has one of its own."""
    sluid: str = ""
    """Stands for the job where Slurm 26.05 and newer keep the id out of the path."""
    step: str = ""
    job_uid: str = ""
    node: str = ""
    """Slurm's name of this node, where slurmd was built to run several."""
    job_path: str = ""
    pod: str = ""
    """Pod uid with dashes; of a static pod the hash of its manifest (`kubernetes.io/config.hash`)."""
    pod_path: str = ""
    nested_in: str = ""
    """Path of the container of another pod, in which the pod's own kubelet runs."""
    container: str = ""
    runtime: str = ""
    container_path: str = ""
    allocation: str = ""
    """Id of a Nomad allocation, and its task, where the task runs in no container."""
    allocation_task: str = ""
    allocation_path: str = ""
    login: str = ""
    """Uid of the user whose slice this is."""
    unit: str = ""
    """Innermost systemd service or scope."""
    unit_path: str = ""
    bundle: str = ""
    """`NAMESPACE/ID` where the path is like one of containerd's by hand (`ctr run`); anybody else's may look so too."""
    delegated: str = ""
    """The unit of the system that a user runs container and unit below: their names are his own."""

    @property
    def scheduled(self) -> bool:
        """Return whether it belongs to a job or a pod."""
        return bool(self.job or self.sluid or self.pod)

    @property
    def of_host(self) -> bool:
        """Return whether it has no more than a unit or a session."""
        return not (self.scheduled or self.container or self.allocation)


_ID = "[0-9a-f]{64}"
_SLURM = re.compile(
    r"(?P<path>(?:/(?:slurm(?:_(?P<node1>[^/]+))?|[^/]+)/uid_(?P<job_uid>[0-9]+)|/(?:(?P<node2>[^/]+)_)?slurmstepd\.scope)"
    r"/(?:job_(?P<job>[0-9]+)|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13})))"
    r"(?:/step_(?P<step>[^/]+))?(?:/|$)"
)
_POD = re.compile(
    r"(?:[/-]|^)pod(?P<pod>[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?P<path>(?:\.slice)?)(?:[/:]|$)"
)
_CONTAINER = re.compile(
    r"(?:^|[/:])(?:(?P<runtime>docker|containerd|cri-containerd|crio|libpod|libpod-payload|nerdctl|cri-o)[-:/])?"
    rf"(?P<container>{_ID})(?P<path>(?:\.scope)?)(?:/|$)"
)
_ALLOCATION = re.compile(
    r"/(?P<allocation>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(?P<task>[^/]{1,128}?)(?:\.scope)?(?:/|$)"
)
_BUNDLE = re.compile(r"/(?P<namespace>[A-Za-z0-9][A-Za-z0-9_-]{0,63})/(?P<id>[A-Za-z0-9][A-Za-z0-9_.-]{0,127})")
_GUEST = re.compile(
    r"(?P<path>(?:/\.\.)*(?:/lxc(?:\.payload\.|/)(?P<lxc>[^/]+)"
    r"|/machine\.slice/(?:machine-(?P<machine>[^/]+)\.scope|systemd-nspawn@(?P<nspawn>[^/]+)\.service)))(?:/|$)"
)
LXC, MACHINE = "lxc", "machine"
GUESTS = (LXC, MACHINE)
"""Runtimes of guests: LXC, and systemd-nspawn and others that are registered with systemd-machined."""
_DELETED = " (deleted)"
"""Mark of version 2 on a cgroup that was removed before its last process was reaped."""
_SYSTEMD = (".slice", ".scope", ".service", ".mount")
_LOGIN = re.compile(r"/user\.slice/user-(?P<login>[0-9]+)\.slice(?:/|$)")
_UNIT = re.compile(r"(?P<path>/(?P<unit>[^/]+\.(?:service|scope)))(?:/|$)")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")

# Fields that only mean something merged: they are taken from the same line.
_GROUPS = (
    ("job", "sluid", "step", "job_uid", "node", "job_path"),
    ("pod", "pod_path", "nested_in"),
    ("container", "runtime", "container_path"),
    ("allocation", "allocation_task", "allocation_path"),
    ("login",),
    ("unit", "unit_path"),
    ("bundle",),
)


def parse(text: str) -> Cgroup:
    """Parse the whole file. The line with most fields of a group counts.

    Equal lines rank: cgroup v2, then systemd's own hierarchy, then the v1 controllers as listed.
    """
    rank = {"": 0, "name=systemd": 1}
    # id:controllers:path, and a path may itself have colons
    listed = [line.split(":", 2) for line in lines(text) if line.count(":") >= 2]  # noqa: PLR2004
    listed.sort(key=lambda line: rank.get(line[1], 2))
    each_path = [parse_path(path) for _, _, path in listed if path != "/"]
    merged: dict[str, str] = {}
    nothing: dict[str, str] = {}
    for group in _GROUPS:
        named = [{name: value for name in group if (value := getattr(line, name))} for line in each_path]
        merged |= max(named, key=len, default=nothing)
    return Cgroup(**merged)


@functools.lru_cache(maxsize=1024)
def parse_path(path: str) -> Cgroup:
    """Parse one path. The innermost match counts, because containers nest (kind, Slurm inside a pod).

    Containers inside a guest are left out: their ids mean nothing outside of it.
    """
    path = path.removesuffix(_DELETED)
    scheduled = {**_parse_slurm(path), **_parse_pod(path), **_parse_allocation(path)}
    guest = {} if scheduled else _parse_guest(path)
    bundle = _BUNDLE.fullmatch(path)
    match = _last_match(_LOGIN, path)
    return Cgroup(
        **(guest or {**scheduled, **_parse_container(path)}),
        **({name: value for name, value in match.groupdict().items() if value} if match else {}),
        **_parse_unit(path),
        bundle=path[1:] if bundle and not bundle["id"].endswith(_SYSTEMD) else "",
    )


def _last_match(pattern: re.Pattern[str], path: str) -> re.Match[str] | None:
    found, start = None, 0
    while match := pattern.search(path, start):
        found = match
        start = max(match.start() + 1, match.end() - 1)  # the closing slash may open the next match
    return found


def _parse_slurm(path: str) -> dict[str, str]:
    match = _last_match(_SLURM, path)
    if not match:
        return {}
    names = {name: match[name] or "" for name in ("job", "sluid", "step", "job_uid")}
    return names | {"node": match["node1"] or match["node2"] or "", "job_path": path[: match.end("path")]}


def _parse_pod(path: str) -> dict[str, str]:
    match = _last_match(_POD, path)
    if not match:
        return {}
    end = match.end("path")
    own = path[:end] if path[end : end + 1] in ("", "/") else ""
    return {"pod": match["pod"].replace("_", "-"), "pod_path": own, "nested_in": _outermost_pod(path, match)}


def _outermost_pod(path: str, innermost: re.Match[str]) -> str:
    """Return the path of the outermost pod and its container; empty if that is the innermost."""
    pod = _POD.search(path)
    if pod is None or pod["pod"] == innermost["pod"]:
        return ""
    container = _CONTAINER.search(path, pod.end() - 1)
    return path[: container.end("path") if container and container.end() <= innermost.start() + 1 else pod.end("path")]


def _parse_container(path: str) -> dict[str, str]:
    match = _last_match(_CONTAINER, path)
    if not match:
        return {}
    return {
        "container": match["container"],
        "runtime": match["runtime"] or "",
        "container_path": path[: match.end("path")],
    }


def _parse_guest(path: str) -> dict[str, str]:
    """Return the guest that the path is in. Its units and sessions have the same names as the host's."""
    match = _GUEST.match(path)
    if not match or (match["machine"] or "").startswith("qemu\\x2d"):  # the program of a VM has no cgroups inside
        return {}
    name = bounded(match["lxc"]) if match["lxc"] else _without_escapes(match["machine"] or match["nspawn"])
    return {"container": name, "runtime": LXC if match["lxc"] else MACHINE, "container_path": match["path"]}


def _parse_allocation(path: str) -> dict[str, str]:
    match = _last_match(_ALLOCATION, path)
    if not match:
        return {}
    end = match.end() - match[0].endswith("/")
    return {"allocation": match["allocation"], "allocation_task": bounded(match["task"]), "allocation_path": path[:end]}


def _parse_unit(path: str) -> dict[str, str]:
    match = _last_match(_UNIT, path)
    if not match:
        return {}
    return {"unit": _without_escapes(match["unit"]), "unit_path": path[: match.end("path")]}


def _without_escapes(name: str) -> str:
    """Return a name without systemd's escapes, which are of bytes. Users choose it: it may hold any of them."""
    plain = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), name.encode(errors="replace"))
    return bounded(plain.decode(errors="replace"))


def _parent_folders() -> Iterator[str]:
    yield ""
    for qos in ("", "burstable", "besteffort"):
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


_PARENTS = tuple(_parent_folders())


def with_absolute_paths(cgroup: Cgroup, cgroupfs: Path) -> Cgroup:
    """Return the same with paths under the mount; empty for a path that is not found there."""
    paths = ("job_path", "pod_path", "nested_in", "container_path", "allocation_path", "unit_path")
    return replace(cgroup, **{name: absolute(getattr(cgroup, name), cgroupfs) for name in paths})


def absolute(path: str, cgroupfs: Path) -> str:
    """Return the path; of one relative to another cgroup the path where it is found, or empty.

    In a container on cgroup v2, /proc shows the cgroups of others without their parents, so known parents are tried.
    """
    if not path.startswith("/.."):
        return path
    while path.startswith("/.."):
        path = path[3:]
    candidates = (f"{parent}{path}" for parent in _PARENTS) if path and ".." not in path.split("/") else ()
    roots = mounts(cgroupfs)
    return next((each for each in candidates for root in roots if is_folder(f"{root}{each}")), "")


_USERS_OWN = re.compile(r"/user@[0-9]+\.service(?=/)")


def trusted_cgroup(text: str, cgroupfs: Path) -> Cgroup:
    """Parse a file as far as root made the cgroups. Container and unit may be a user's own: then `delegated` is set.

    Users can make folders in `user@UID.service`, or in any cgroup that was delegated to them, and name one like a job's
    or a pod's. So a job or a pod only counts in folders that root alone can make.
    """
    full = parse(text)
    roots = mounts(cgroupfs)
    whole = lines(text)
    cut = [_cut_delegated(line, roots) for line in whole]
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
    is_users_own = (found.container or found.unit) != (named.container or named.unit)
    return replace(found, delegated=(named.unit or "user") if is_users_own else "")


def _cut_delegated(line: str, roots: Collection[str]) -> str:
    """Return the line of /proc/PID/cgroup up to the first folder that a user made."""
    path = line.split(":", 2)[-1]
    head, end = line[: len(line) - len(path)], len(path)
    match = _USERS_OWN.search(path)
    if match:
        end = match.end()
    return head + path[: min((end, *(_trusted_length(root, path) for root in roots)))]


def _trusted_length(root: str, path: str) -> int:
    """Return the length of the path that lies in folders in which only root may make others."""
    trusted = {0}
    with suppress(OSError):
        trusted.add(Path(root).stat().st_uid)  # root of the reader's user namespace
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
