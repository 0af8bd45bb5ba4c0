"""Programs that no scheduler runs: containers by the names that their engines keep, units, sessions, commands.

Names come from files, not from the engines' sockets: access to such a socket is root on the node, and a folder can be
mounted read-only. Each container is read once, beside the sampling cycles.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.cgroup import GUESTS, LXC, MACHINE, Cgroup
from exporter.attribution.containers import engines
from exporter.attribution.containers.engines import CONTAINERD, DOCKER, PODMAN, Container
from exporter.attribution.owner import Owner, SourceHealth, WorkloadInfo, of_user, process_owner
from exporter.attribution.source import FirstSeen, ProcessGroup, ProcessIndex, View, by_pid, own_cgroups
from exporter.core.clock import MonotonicTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

_SHORT_ID = 12
SOURCE = "containers"
ENGINES: Mapping[str, str] = {
    "docker": DOCKER,
    "libpod": PODMAN,
    "libpod-payload": PODMAN,
    "containerd": CONTAINERD,
    "cri-containerd": CONTAINERD,
    "nerdctl": CONTAINERD,
}
"""Engines by the names in cgroups."""
_RUNTIMES = {**ENGINES, "crio": "cri-o", "cri-o": "cri-o", LXC: LXC, MACHINE: MACHINE}
_RETRY_SECONDS = 60.0
_MAX_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders in which the engines keep their state."""

    docker: Path = Path("/var/lib/docker")
    podman: Path = Path("/var/lib/containers/storage")
    containerd: Path = Path("/run/containerd")


class _Key(NamedTuple):
    engine: str
    """Empty if the cgroup does not report it."""
    id: str
    namespace: str = ""


class ContainerNames:
    """Containers by their ids, read from the engines' files. Without `folders` nothing is read."""

    def __init__(self, folders: Folders | None = None, *, required: bool = False) -> None:
        self._folders = folders
        self._required = required
        self._lookup: Lookup[_Key, Container] = Lookup("containers", self._ask, retry=_RETRY_SECONDS, limit=_MAX_NAMES)
        self._failed: dict[_Key, bool] = {}
        """Containers without a name here, and whether a malformed file is the reason."""
        self._refusal_logged = False

    def start(self, threads: Threads) -> None:
        if self._folders:
            self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def find(self, cgroup: Cgroup) -> Container | None:
        """Return the container; None if it is not known, or not yet, or rootless. Never waits for long."""
        key = _container_key(cgroup)
        return self._lookup.get(key) if key and self._folders else None

    def waits(self, cgroup: Cgroup) -> bool:
        key = _container_key(cgroup)
        return bool(key and self._lookup.waits(key))

    def keep(self, cgroups: Iterable[Cgroup]) -> None:
        """Forget all others."""
        keys = {key for cgroup in cgroups if (key := _container_key(cgroup))}
        self._lookup.keep(keys)
        self._failed = {key: broken for key, broken in dict(self._failed).items() if key in keys}

    def health(self) -> Iterator[SourceHealth]:
        """Yield the health once there is a container. A missing permission is a failure only if reading is required."""
        health = self._lookup.health()
        if self._folders and health:
            in_time, waiting = health
            failed = any(broken or self._required for broken in list(self._failed.values()))
            yield SourceHealth(SOURCE, in_time and not failed, waiting)

    def _ask(self, key: _Key) -> Container | None:
        broken = False
        for engine in (key.engine,) if key.engine else (DOCKER, PODMAN, CONTAINERD):
            try:
                found = self._read(engine, key)
            except (SourceError, OSError) as error:
                found, broken = None, not self._refused(error)
                log.log(logging.WARNING if broken else logging.DEBUG, "container %.12s: %s", key.id, error)
            if found:
                self._failed.pop(key, None)
                return found
        if not key.namespace:  # a path that only looks like one of containerd's needs no name
            self._failed[key] = broken
        return None

    def _refused(self, error: Exception) -> bool:
        """Return whether the exporter has no permission to read. Logs it once."""
        if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EPERM):
            return False
        if not self._refusal_logged:
            self._refusal_logged = True
            log.info("containers go by their ids: %s", error)
        return True

    def _read(self, engine: str, key: _Key) -> Container | None:
        folders = self._folders or Folders()
        if engine == DOCKER:
            return engines.find_docker(folders.docker, key.id)
        if engine == PODMAN:
            return engines.find_podman(folders.podman, key.id)
        return engines.find_containerd(folders.containerd, key.id, key.namespace)


def _container_key(cgroup: Cgroup) -> _Key | None:
    if cgroup.delegated:
        return None
    if cgroup.container:
        engine = ENGINES.get(cgroup.runtime)
        return None if cgroup.runtime and not engine else _Key(engine or "", cgroup.container)
    if cgroup.bundle and not cgroup.unit:
        namespace, _, name = cgroup.bundle.partition("/")
        return _Key(CONTAINERD, name, namespace)
    return None


class Containers:
    """Containers by the names that their engines keep, else by their ids."""

    def __init__(self, names: ContainerNames) -> None:
        self._names = names
        self._first = FirstSeen()
        self.readers = (names,)

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        groups = [group for group in processes.groups if not group.cgroup.scheduled]
        cgroups = {group.cgroup for group in groups}
        self._names.keep(cgroups)
        found = {cgroup: each for cgroup in cgroups if (each := self._names.find(cgroup))}
        unread = {cgroup: cgroup.container or cgroup.bundle for cgroup in cgroups if self._names.waits(cgroup)}
        recent = self._first.recent(unread.values(), now)
        waiting = {cgroup for cgroup, key in unread.items() if key in recent}
        owners = {
            (group.cgroup, group.user): None if group.cgroup in waiting else owner
            for group in groups
            if (owner := _container_owner(group.cgroup, group.user, found.get(group.cgroup))) or group.cgroup in waiting
        }
        return View(
            names=by_pid((group, owners[key]) for group in groups if (key := (group.cgroup, group.user)) in owners),
            info={
                _named_owner(each): WorkloadInfo(image=each.image, part_of=each.project and f"compose:{each.project}")
                for each in found.values()
            },
            cgroups=own_cgroups((owner, cgroup.container_path) for (cgroup, _), owner in owners.items() if owner),
            health=tuple(self._names.health()),
        )


def _container_owner(cgroup: Cgroup, user: str, container: Container | None) -> Owner | None:
    """Return the owner of what runs in a container; None for a cgroup that is no container's."""
    if container:
        return _named_owner(container)
    if not cgroup.container:
        return None
    short = cgroup.container if cgroup.runtime in GUESTS else cgroup.container[:_SHORT_ID]
    runtime = _RUNTIMES.get(cgroup.runtime, "container")
    by = user if cgroup.delegated else ""  # the names of a user's own engine are the user's text
    return Owner(f"{runtime}:{of_user(by, short)}", kind="container", container=short, user=by)


def _named_owner(container: Container) -> Owner:
    """Return the owner of a named container. Containers of one compose service are one workload."""
    service = f"compose:{container.project}/{container.service}" if container.project else ""
    return Owner(service or f"{container.engine}:{container.name}", kind="container", container=container.name)


class Units:
    """Programs that no scheduler and no engine runs: their systemd unit or session, else the command."""

    readers = ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        found = [(group, _unit_owner(group)) for group in processes.groups if group.cgroup.of_host]
        return View(
            names=by_pid(found),
            cgroups=own_cgroups(
                (owner, group.cgroup.unit_path if owner.kind == "unit" and not owner.shares_place else "")
                for group, owner in found
            ),
        )


def _unit_owner(group: ProcessGroup) -> Owner:
    """Return the unit or session of a program, else its command and user.

    `workload` names the user of all that users name themselves: two users' units of one name are two workloads.
    """
    unit = group.cgroup.unit
    if not unit:
        return process_owner(group.command, group.user)
    owner = Owner(f"unit:{unit}", kind="unit", user=group.user)
    users_own = group.cgroup.delegated or not owner.one_work
    return owner._replace(workload=f"unit:{of_user(group.user, unit)}") if users_own else owner
