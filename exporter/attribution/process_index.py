"""The processes of one sampling cycle, parsed once for all sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from exporter.attribution.cgroup import Cgroup, parse_path, placed, understood
from exporter.attribution.devices import Devices
from exporter.attribution.owner import Target
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.host.model import HostProcess

HOLD_SECONDS = 3.0
"""How long a new job or pod has no owner while its name is asked for, so that its series keep their labels."""
_MPS = "nvidia-cuda-mps-server"[:15]
"""The kernel keeps 15 bytes of a command."""


@record
class ProcessGroup:
    """Processes that nothing distinguishes: same cgroup, name and user. A node has few such groups."""

    cgroup: Cgroup
    command: str
    user: str
    pids: set[int] = field(default_factory=set[int])
    targets: set[str] = field(default_factory=set[str])
    """Uuids of the targets that any of them runs on."""

    @property
    def serves_clients(self) -> bool:
        """Whether it is MPS's server or its control daemon: the kernels there are those of its clients."""
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
    """By path: cgroups of the owners that more trusted sources know, also with nothing of them on a GPU."""
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
                    same = groups[key] = ProcessGroup(self._parse(host.cgroup), host.command, host.user)
                same.pids.add(pid)
                same.targets.add(uuid)
        self._parsed = {text: self._parsed[text] for text, _, _ in groups}
        self._cycle += 1
        return ProcessIndex(self._devices, groups.values(), unseen, hosts, processes, cycle=self._cycle)

    def _parse(self, text: str) -> Cgroup:
        found = self._parsed.get(text)
        if found is None:
            found = self._parsed[text] = placed(understood(text, self._cgroupfs), self._cgroupfs)
        return found


class FirstSeen:
    """When each thing was first there, for as long as it is."""

    def __init__(self) -> None:
        self._at: dict[str, MonotonicTime] = {}

    def update(self, present: Iterable[str], now: MonotonicTime) -> None:
        self._at = {name: self._at.get(name, now) for name in present}

    def age(self, name: str, now: MonotonicTime) -> float:
        return now - self._at.get(name, now)
