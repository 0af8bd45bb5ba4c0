"""Containers that no scheduler runs, by the names that their engines keep, else by their ids."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.cgroup import GUESTS, LXC, MACHINE, Cgroup
from exporter.attribution.containers import engines
from exporter.attribution.containers.engines import CONTAINERD, DOCKER, PODMAN, Container
from exporter.attribution.owner import Owner, SourceHealth, WorkloadInfo, of_user, process_owner
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessGroup, ProcessIndex
from exporter.attribution.source import View, by_pid, own_cgroups
from exporter.core.clock import MonotonicTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads

_RUNTIMES = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
    "crio": "cri-o",
    "cri-o": "cri-o",
    "containerd": "containerd",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    LXC: LXC,
    MACHINE: MACHINE,
}
_SHORT_ID = 12


class Containers:
    """Keeps since when each container has waited for its name."""

    def __init__(self, names: ContainerNames) -> None:
        self._names = names
        self._first = FirstSeen()
        self.readers = (names,)

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        groups = [group for group in processes.groups if not group.cgroup.scheduled]
        cgroups = {group.cgroup for group in groups}
        self._names.keep(cgroups)
        found = {cgroup: each for cgroup in cgroups if (each := self._names.find(cgroup))}
        waiting = self._waiting(cgroups, now)
        owners = {
            (group.cgroup, group.user): None if group.cgroup in waiting else owner
            for group in groups
            if (owner := _owner(group.cgroup, group.user, found.get(group.cgroup))) or group.cgroup in waiting
        }
        return View(
            names=by_pid((group, owners[key]) for group in groups if (key := (group.cgroup, group.user)) in owners),
            info={_named(each): _info(each) for each in found.values()},
            cgroups=own_cgroups((owner, cgroup.container_path) for (cgroup, _), owner in owners.items() if owner),
            health=tuple(self._names.health()),
        )

    def _waiting(self, cgroups: Iterable[Cgroup], now: MonotonicTime) -> set[Cgroup]:
        unread = {cgroup: cgroup.container or cgroup.bundle for cgroup in cgroups if self._names.waits(cgroup)}
        self._first.update(unread.values(), now)
        return {cgroup for cgroup, key in unread.items() if self._first.age(key, now) < HOLD_SECONDS}


def _owner(cgroup: Cgroup, user: str, container: Container | None) -> Owner | None:
    """Return the owner of what runs in a container; None for a cgroup that is no container's.

    The names of a user's own engine are the user's text.
    """
    if container:
        return _named(container)
    if not cgroup.container:
        return None
    short = cgroup.container if cgroup.runtime in GUESTS else cgroup.container[:_SHORT_ID]
    runtime = _RUNTIMES.get(cgroup.runtime, "container")
    by = user if cgroup.delegated else ""
    return Owner(f"{runtime}:{of_user(by, short)}", kind="container", container=short, user=by)


def _named(container: Container) -> Owner:
    """Containers of one service of a compose file are one workload, as pods of a Deployment are."""
    service = f"compose:{container.project}/{container.service}" if container.project else ""
    return Owner(service or f"{container.engine}:{container.name}", kind="container", container=container.name)


def _info(container: Container) -> WorkloadInfo:
    part_of = f"compose:{container.project}" if container.project else ""
    return WorkloadInfo(image=container.image, part_of=part_of)


log = logging.getLogger(__name__)

SOURCE = "containers"
ENGINES: Mapping[str, str] = {
    "docker": DOCKER,
    "libpod": PODMAN,
    "libpod-payload": PODMAN,
    "containerd": CONTAINERD,
    "cri-containerd": CONTAINERD,
    "nerdctl": CONTAINERD,
}
"""By what cgroups call them."""
_RETRY_SECONDS = 60.0
_MAX_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the engines keep their state."""

    docker: Path = Path("/var/lib/docker")
    podman: Path = Path("/var/lib/containers/storage")
    containerd: Path = Path("/run/containerd")


class _Key(NamedTuple):
    engine: str
    """Empty where the cgroup does not report."""
    id: str
    namespace: str = ""


class ContainerNames:
    """`find` never waits for long. Without `folders` it knows nothing, and nothing is read."""

    def __init__(self, folders: Folders | None = None, *, required: bool = False) -> None:
        self._folders = folders
        self._required = required
        self._lookup: Lookup[_Key, Container] = Lookup("containers", self._ask, retry=_RETRY_SECONDS, limit=_MAX_NAMES)
        self._failed: dict[_Key, bool] = {}
        """Containers without a name here; whether that is because a file is not what it should be."""
        self._refusal_logged = False

    def start(self, threads: Threads) -> None:
        if self._folders:
            self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def find(self, cgroup: Cgroup) -> Container | None:
        """None where nobody knows it, or not yet. A user's own containers (rootless) are his word alone."""
        key = _key(cgroup)
        return self._lookup.get(key) if key and self._folders else None

    def waits(self, cgroup: Cgroup) -> bool:
        key = _key(cgroup)
        return bool(key and self._lookup.waits(key))

    def keep(self, cgroups: Iterable[Cgroup]) -> None:
        """Forget all others."""
        keys = {key for cgroup in cgroups if (key := _key(cgroup))}
        self._lookup.keep(keys)
        self._failed = {key: broken for key, broken in dict(self._failed).items() if key in keys}

    def health(self) -> Iterator[SourceHealth]:
        """Nothing while there is no container; what may not be read is a failure only where it must be."""
        health = self._lookup.health()
        if self._folders and health:
            in_time, waiting = health
            failed = any(broken or self._required for broken in list(self._failed.values()))
            yield SourceHealth(SOURCE, in_time and not failed, waiting)

    def _ask(self, key: _Key) -> Container | None:
        broken = False
        for engine in (key.engine,) if key.engine else (DOCKER, PODMAN, CONTAINERD):
            try:
                found = self._finder(engine)(key)
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
        """Whether this exporter may not read: no fault of the file, and logged once."""
        if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EPERM):
            return False
        if not self._refusal_logged:
            self._refusal_logged = True
            log.info("containers go by their ids: %s", error)
        return True

    def _finder(self, engine: str) -> Callable[[_Key], Container | None]:
        folders = self._folders or Folders()
        finders: Mapping[str, Callable[[_Key], Container | None]] = {
            DOCKER: lambda key: engines.find_docker(folders.docker, key.id),
            PODMAN: lambda key: engines.find_podman(folders.podman, key.id),
            CONTAINERD: lambda key: engines.find_containerd(folders.containerd, key.id, key.namespace),
        }
        return finders[engine]


def _key(cgroup: Cgroup) -> _Key | None:
    if cgroup.delegated:
        return None
    if cgroup.container:
        engine = ENGINES.get(cgroup.runtime)
        return None if cgroup.runtime and not engine else _Key(engine or "", cgroup.container)
    if cgroup.bundle and not cgroup.unit:
        namespace, _, name = cgroup.bundle.partition("/")
        return _Key(CONTAINERD, name, namespace)
    return None


class Units:
    """Reads nothing but the cgroups of processes."""

    readers = ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        found = [(group, _unit_owner(group)) for group in processes.groups if group.cgroup.of_host]
        return View(
            names=by_pid(found),
            cgroups=own_cgroups((owner, _unit_path(group, owner)) for group, owner in found),
        )


def _unit_owner(group: ProcessGroup) -> Owner:
    """Return the unit or session of a program, else its command and user.

    What a user named himself is told apart by the user, also where nothing but `workload` is looked at: his unit is not
    the system's of that name, and his programs and sessions are not other people's, here and on all nodes.
    """
    unit = group.cgroup.unit
    if not unit:
        return process_owner(group.command, group.user)
    owner = Owner(f"unit:{unit}", kind="unit", user=group.user)
    users_own = group.cgroup.delegated or not owner.one_work
    return owner._replace(workload=f"unit:{of_user(group.user, unit)}") if users_own else owner


def _unit_path(group: ProcessGroup, owner: Owner) -> str:
    return group.cgroup.unit_path if owner.kind == "unit" and not owner.shares_place else ""
