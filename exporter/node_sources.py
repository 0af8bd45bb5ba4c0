"""The nodes there are: this machine, a simulated one, and one of which only the driver's answers were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from exporter.attribution.join import Attribution
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.host.command import command_line
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.namespace import own_cgroup
from exporter.host.process import ProcessReader
from exporter.host.reader import HostReader
from exporter.ledger.states import HOST_SIGNALS
from exporter.node import pci_gpus
from exporter.progress.reader import ProgressReader
from exporter.progress.report import Progress

_PCI_EVERY = 30.0
"""Seconds between two looks at the PCI bus."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Mounts of the host's file systems."""

    procfs: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    cgroupfs: Path = Path("/sys/fs/cgroup")


class RealNode:
    """This machine, by its /proc, /sys and cgroups and the attribution sources."""

    def __init__(
        self, paths: Paths, attribution: Attribution, *, command_lines: bool = False, progress: Path | None = None
    ) -> None:
        self._paths = paths
        self._processes = ProcessReader(paths.procfs, own_cgroup=own_cgroup(paths.cgroupfs))
        self._host = HostReader(paths.procfs, paths.cgroupfs)
        self._attribution = attribution
        self._command_lines = command_lines
        self._progress = ProgressReader(progress, paths.procfs) if progress else None
        self._arguments: dict[tuple[int, float], str] = {}
        self._pci: tuple[float, int | None] | None = None

    def processes(self, pids: Sequence[int], now: float) -> Mapping[int, HostProcess]:
        del now
        self._processes.forget(pids)
        found = {pid: process for pid in pids if (process := self._processes.read(pid)) is not None}
        return self._with_arguments(found) if self._command_lines else found

    def _with_arguments(self, found: Mapping[int, HostProcess]) -> Mapping[int, HostProcess]:
        """Arguments are read once for each process: programs seldom change them."""
        keys = {(process.pid, process.start_time) for process in found.values()}
        self._arguments = {key: text for key, text in self._arguments.items() if key in keys}
        for pid, start_time in keys - self._arguments.keys():
            self._arguments[pid, start_time] = command_line(pid, self._paths.procfs)
        return {
            pid: replace(process, arguments=self._arguments[pid, process.start_time]) for pid, process in found.items()
        }

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: float,
    ) -> Ownership:
        return self._attribution.join(targets, pids, hosts, now)

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float, monotonic: float
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        del now
        return self._host.read(ownership, hosts, monotonic)

    def progress(self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float) -> Mapping[Owner, Progress]:
        if self._progress is None:
            return {}
        return self._progress.read(ownership.processes, hosts, now)

    def host_tells(self) -> frozenset[str]:
        return self._host.tells()

    def pci_gpus(self, now: float) -> int | None:
        if self._pci is None or not 0 <= now - self._pci[0] < _PCI_EVERY:
            self._pci = (now, pci_gpus(self._paths.sysfs))
        return self._pci[1]

    def start(self) -> None:
        self._attribution.start()

    def stop(self) -> None:
        self._attribution.stop()


class SimulatedReport(Protocol):
    """What a simulated program reports of itself."""

    @property
    def samples(self) -> float: ...
    @property
    def steps(self) -> float: ...
    @property
    def ratio(self) -> float | None: ...


class SimulatedHost(Protocol):
    """What a simulated driver tells of the node around its GPUs."""

    @property
    def pci_count(self) -> int: ...
    def processes(self, now: float) -> Mapping[int, HostProcess]: ...
    def ownership(self, now: float) -> Ownership: ...
    def usage(self, now: float) -> Mapping[Owner, HostUsage]: ...
    def signals(self, now: float, seconds: float) -> Mapping[Owner, HostSignals]: ...
    def progress(self, now: float) -> Mapping[Owner, SimulatedReport]: ...


class Simulation(Protocol):
    """A driver that comes with a node."""

    @property
    def node(self) -> SimulatedHost: ...


class SimulatedNode:
    """A node that exists in the simulation alone."""

    def __init__(self, simulation: SimulatedHost) -> None:
        self._simulation = simulation
        self._last: float | None = None

    def processes(self, pids: Sequence[int], now: float) -> Mapping[int, HostProcess]:
        known = self._simulation.processes(now)
        return {pid: known[pid] for pid in pids if pid in known}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: float,
    ) -> Ownership:
        del targets, pids, hosts
        return self._simulation.ownership(now)

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float, monotonic: float
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        del ownership, hosts, monotonic
        seconds = now - self._last if self._last is not None else 0.0
        self._last = now
        return self._simulation.usage(now), self._simulation.signals(now, seconds)

    def progress(self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float) -> Mapping[Owner, Progress]:
        del ownership, hosts
        reported = self._simulation.progress(now).items()
        return {owner: Progress(each.samples, each.steps, each.ratio) for owner, each in reported}

    def host_tells(self) -> frozenset[str]:
        return HOST_SIGNALS

    def pci_gpus(self, now: float) -> int | None:
        del now
        return self._simulation.pci_count

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing runs."""


class UnknownNode:
    """The node of a capture: pids in it are those of another machine, so nothing is looked up on this one."""

    def processes(self, pids: Sequence[int], now: float) -> Mapping[int, HostProcess]:
        del pids, now
        return {}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: float,
    ) -> Ownership:
        del targets, pids, hosts, now
        return Ownership()

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float, monotonic: float
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        del ownership, hosts, now, monotonic
        return {}, {}

    def progress(self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float) -> Mapping[Owner, Progress]:
        del ownership, hosts, now
        return {}

    def host_tells(self) -> frozenset[str]:
        return frozenset()

    def pci_gpus(self, now: float) -> int | None:
        del now
        return None

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing runs."""
