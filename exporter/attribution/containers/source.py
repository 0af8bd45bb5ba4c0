"""Containers that no scheduler runs, by the names that their engines keep, else by their ids."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.attribution.cgroup import GUESTS, LXC, MACHINE, Cgroup
from exporter.attribution.containers.engines import Container
from exporter.attribution.containers.names import ContainerNames
from exporter.attribution.owner import Owner, of_user
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessIndex
from exporter.attribution.source import View, by_pid, own_cgroups
from exporter.core.clock import MonotonicTime

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
