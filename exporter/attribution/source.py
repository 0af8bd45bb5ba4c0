"""The seam of attribution: the processes of one sampling cycle, and the interface of every source of owners.

To add a source, write one class with the methods of `OwnerSource` and put it into the list of sources by its trust.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from exporter.attribution.cgroup import Cgroup, parse_path, trusted_cgroup, with_absolute_paths
from exporter.attribution.devices import Devices
from exporter.attribution.owner import NOBODY, Owner, SourceHealth, Target, WorkloadInfo
from exporter.core.clock import MonotonicTime, UnixTime
from exporter.core.record import record
from exporter.core.threads import Threads
from exporter.host.model import HostProcess

T = TypeVar("T")

HOLD_SECONDS = 3.0
"""Time that a new job or pod has no owner while its name is asked for, so that its series keep their labels."""
_MPS = "nvidia-cuda-mps-server"[:15]
"""The kernel keeps 15 bytes of a command."""


@record
class ProcessGroup:
    """Processes with the same cgroup, name and user. A node has few such groups."""

    cgroup: Cgroup
    command: str
    user: str
    pids: set[int] = field(default_factory=set[int])
    targets: set[str] = field(default_factory=set[str])
    """Uuids of the targets that any of them runs on."""

    @property
    def serves_clients(self) -> bool:
        """Return whether it is MPS's server or its control daemon: they run the kernels of their clients."""
        return self.command == _MPS


@record
class ProcessIndex:
    """Processes on GPUs in one sampling cycle; `unseen` are those that the driver lists and /proc does not show."""

    devices: Devices
    groups: Collection[ProcessGroup] = ()
    unseen: Collection[int] = ()
    hosts: Mapping[int, HostProcess] = field(default_factory=dict[int, HostProcess])
    processes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    places: Mapping[str, Cgroup] = field(default_factory=dict[str, Cgroup])
    """Cgroups by path, of owners that more trusted sources know, also without a process on a GPU."""
    cycle: int = 0

    def beside(self, paths: Iterable[str]) -> ProcessIndex:
        """Return the same processes with more places."""
        more = {path: parse_path(path) for path in paths if path and path not in self.places}
        return replace(self, places={**self.places, **more}) if more else self

    def targets_of(self, pid: int) -> tuple[str, ...]:
        return tuple(uuid for uuid, pids in self.processes.items() if pid in pids)


class ProcessIndexer:
    """Makes the `ProcessIndex` of a cycle. Keeps the cgroups that it has parsed: most are the same next time."""

    def __init__(self, cgroupfs: Path) -> None:
        self._cgroupfs = cgroupfs
        self._parsed: dict[str, Cgroup] = {}
        self._devices = Devices(())
        self._cycle = 0

    def index(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
    ) -> ProcessIndex:
        """Return the index of one sampling cycle."""
        if self._devices.targets != tuple(targets):
            self._devices = Devices(targets)
        groups: dict[tuple[str, str, str], ProcessGroup] = {}
        unseen: set[int] = set()
        for uuid, pids in processes.items():
            for pid in pids:
                host = hosts.get(pid)
                if host is None:
                    unseen.add(pid)
                    continue
                key = (host.cgroup, host.command, host.user)
                same = groups.get(key)
                if same is None:
                    same = groups[key] = ProcessGroup(self._parse_cgroup(host.cgroup), host.command, host.user)
                same.pids.add(pid)
                same.targets.add(uuid)
        self._parsed = {text: self._parsed[text] for text, _, _ in groups}
        self._cycle += 1
        return ProcessIndex(self._devices, groups.values(), unseen, hosts, processes, cycle=self._cycle)

    def _parse_cgroup(self, text: str) -> Cgroup:
        found = self._parsed.get(text)
        if found is None:
            found = self._parsed[text] = with_absolute_paths(trusted_cgroup(text, self._cgroupfs), self._cgroupfs)
        return found


class FirstSeen:
    """Times at which present things were first seen."""

    def __init__(self) -> None:
        self._at: dict[object, MonotonicTime] = {}

    def recent(self, present: Collection[T], now: MonotonicTime) -> set[T]:
        """Return the present things that were first seen less than HOLD_SECONDS ago. Forgets all others."""
        self._at = {each: self._at.get(each, now) for each in present}
        return {each for each in present if now - self._at[each] < HOLD_SECONDS}


Amounts = Mapping[str, float | None]
"""Target uuid to the amount allocated of it (replicas, shards), None where the source states none."""


@record
class Match:
    """The owners that a process may have, by one source. None or several leave it unnamed, and the source's."""

    owners: frozenset[Owner] = frozenset()

    @property
    def owner(self) -> Owner:
        """The only owner, or NOBODY."""
        return next(iter(self.owners)) if len(self.owners) == 1 else NOBODY


UNNAMED = Match()
"""Match of a process whose name is still being asked for, or cannot be known."""


def named(owner: Owner | None) -> Match:
    """Return the match of one owner; None is an owner without a name yet."""
    return Match(frozenset({owner})) if owner else UNNAMED


@record
class View:
    """Report of one source at one moment."""

    names: Mapping[int, Match] = field(default_factory=dict[int, Match])
    """Processes that the source knows, by pid."""
    places: Mapping[str, Match] = field(default_factory=dict[str, Match])
    """Cgroups of `ProcessIndex.places` that it knows, by path."""
    allocated: Mapping[Owner, Amounts] = field(default_factory=dict[Owner, Amounts])
    """Allocation of each owner; empty for one that the source knows to have none."""
    offered: frozenset[str] = frozenset()
    """Uuids of the targets that the source allocates on this node."""
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    cgroups: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """The owner's own cgroup; empty if it has several."""
    unsure: frozenset[Owner] = frozenset()
    """Owners that may have been allocated more than the source reports."""
    health: tuple[SourceHealth, ...] = ()
    ended: Mapping[str, UnixTime] = field(default_factory=dict[str, UnixTime])
    """End of the allocations that ended lately, by `Owner.source_id`."""


class Reader(Protocol):
    """Reader for a source, in threads of its own."""

    def start(self, threads: Threads) -> None:
        """Start the threads."""

    def stop(self) -> None:
        """Stop them."""


class OwnerSource(Protocol):
    """One source of owners."""

    @property
    def readers(self) -> Sequence[Reader]:
        """Readers of the source."""
        ...

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        """Return the source's owners of these processes, and its allocations. Never waits."""
        ...


def by_pid(found: Iterable[tuple[ProcessGroup, Owner | None]]) -> dict[int, Match]:
    """Return the match of each process of the groups; None is an owner without a name yet."""
    return {pid: match for group, owner in found for match in (named(owner),) for pid in group.pids}


def own_cgroups(found: Iterable[tuple[Owner, str]]) -> dict[Owner, str]:
    """Return the cgroup of each owner; empty for one that was found in several."""
    paths: dict[Owner, str] = {}
    for owner, path in found:
        if paths.setdefault(owner, path) != path:
            paths[owner] = ""
    return paths
