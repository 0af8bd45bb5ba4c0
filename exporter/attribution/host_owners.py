"""What runs outside Kubernetes and Slurm in one pass: tasks of Nomad, containers, units, sessions, programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.attribution import naming
from exporter.attribution.allocations import Amounts
from exporter.attribution.cgroup import Cgroup
from exporter.attribution.containers.container import Container
from exporter.attribution.containers.names import ContainerNames
from exporter.attribution.nomad.source import Nomad, NomadView
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import SourceHealth, WorkloadInfo
from exporter.attribution.process_index import HOLD_SECONDS, FirstSeen, ProcessGroup, ProcessIndex
from exporter.core.clock import MonotonicTime
from exporter.core.threads import Threads


@dataclass(frozen=True, slots=True)
class HostNow:
    """What one pass knows; `given` is what Nomad gave to whom, `offered` all that it gives out here."""

    given: Mapping[Owner, Amounts] = field(default_factory=dict[Owner, Amounts])
    offered: frozenset[str] = frozenset()
    containers: Mapping[Cgroup, Container] = field(default_factory=dict[Cgroup, Container])
    waiting: frozenset[Cgroup] = frozenset()
    """Cgroups whose names may yet come."""
    view: NomadView = field(default_factory=NomadView)
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    open: bool = False
    """Whether more may come to be known of the same processes."""

    def owner(self, group: ProcessGroup) -> Owner:
        """Nobody while its name is being asked for."""
        cgroup = group.cgroup
        if cgroup in self.waiting:
            return NOBODY
        container = self.containers.get(cgroup)
        task = _task(cgroup, container)
        if task:
            return naming.task_owner(*task, self.view.tasks.get(task))
        return naming.host_owner(cgroup, group.command, group.user, container)


class HostOwners:
    """Joins them; keeps since when each allocation of Nomad has been seen."""

    def __init__(self, containers: ContainerNames, nomad: Nomad | None = None) -> None:
        self._containers = containers
        self._nomad = nomad
        self._first = FirstSeen()

    def start(self, threads: Threads) -> None:
        self._containers.start(threads)
        if self._nomad:
            self._nomad.start(threads)

    def stop(self) -> None:
        self._containers.stop()
        if self._nomad:
            self._nomad.stop()

    def health(self, now: MonotonicTime) -> Iterator[SourceHealth]:
        yield from self._containers.health()
        if self._nomad:
            yield from self._nomad.health(now)

    def join(self, index: ProcessIndex) -> HostNow:
        cgroups = {group.cgroup for group in index.groups if _outside(group.cgroup)}
        self._containers.keep(cgroups)
        found = {cgroup: each for cgroup in cgroups if (each := self._containers.find(cgroup))}
        named = {cgroup: task for cgroup in cgroups if (task := _task(cgroup, found.get(cgroup)))}
        view = self._nomad.view(index.now) if self._nomad else NomadView()
        given, info = _allocated(view, index)
        info |= {naming.host_owner(cgroup, "", "", each): naming.container_info(each) for cgroup, each in found.items()}
        info |= {naming.task_owner(*task, None): naming.task_info(None) for task in named.values()}
        waiting = self._waiting(cgroups, named, view, index.now)
        return HostNow(
            given=given,
            offered=frozenset(target.uuid for name in view.offered for target in index.devices.find(name)),
            containers=found,
            waiting=waiting,
            view=view,
            info=info,
            open=bool(waiting) or any(self._containers.waits(cgroup) for cgroup in cgroups),
        )

    def _waiting(
        self,
        cgroups: set[Cgroup],
        named: Mapping[Cgroup, tuple[str, str]],
        view: NomadView,
        now: MonotonicTime,
    ) -> frozenset[Cgroup]:
        unread = {cgroup: cgroup.container or cgroup.bundle for cgroup in cgroups if self._containers.waits(cgroup)}
        untold = {cgroup: "/".join(task) for cgroup, task in named.items() if self._nomad and task not in view.tasks}
        open_ = unread | untold
        self._first.update(open_.values(), now)
        waiting = frozenset(cgroup for cgroup, key in open_.items() if self._first.age(key, now) < HOLD_SECONDS)
        if self._nomad and waiting & untold.keys():
            self._nomad.wake()
        return waiting


def _outside(cgroup: Cgroup) -> bool:
    return not (cgroup.job or cgroup.sluid or cgroup.pod)


def _task(cgroup: Cgroup, container: Container | None) -> tuple[str, str] | None:
    """Allocation and name of the task of Nomad that runs there."""
    if container and container.allocation:
        return container.allocation, container.task
    return (cgroup.allocation, cgroup.allocation_task) if cgroup.allocation and not cgroup.container else None


def _allocated(view: NomadView, index: ProcessIndex) -> tuple[Mapping[Owner, Amounts], dict[Owner, WorkloadInfo]]:
    """What Nomad gave to each task, also to one with nothing on it; and what it reports of the tasks."""
    given: dict[Owner, Amounts] = {}
    info: dict[Owner, WorkloadInfo] = {}
    for (allocation, name), task in view.tasks.items():
        owner = naming.task_owner(allocation, name, task)
        info[owner] = naming.task_info(task)
        uuids = {target.uuid for device in task.devices for target in index.devices.find(device)}
        if uuids:
            given[owner] = dict.fromkeys(uuids)
    return given, info
