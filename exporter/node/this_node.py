"""This machine, by its /proc, /sys and cgroups and the attribution sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.join import Attribution
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, SourceHealth, Target
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.command import command_line
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.namespace import own_cgroup
from exporter.host.process import ProcessReader
from exporter.host.users import SOURCE as USER_DATABASE
from exporter.host.users import UserNames
from exporter.node.interface import pci_gpus
from exporter.node.nccl_status import NcclReader, Statuses
from exporter.node.network_port_source import NetworkPortSource
from exporter.node.network_ports import NetworkPorts
from exporter.node.usage import HostReader
from exporter.progress.progress import Reported
from exporter.progress.reader import ProgressReader

_PCI_EVERY = 30.0
"""Seconds between two looks at the PCI bus."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Mounts of the host's file systems."""

    procfs: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    cgroupfs: Path = Path("/sys/fs/cgroup")


class ThisNode:
    """This machine, by its /proc, /sys and cgroups and the attribution sources."""

    def __init__(
        self,
        paths: Paths,
        attribution: Attribution,
        *,
        users: UserNames | None = None,
        command_lines: bool = False,
        progress: ProgressReader | None = None,
        nccl: NcclReader | None = None,
    ) -> None:
        self._paths = paths
        self._users = users or UserNames()
        self._processes = ProcessReader(paths.procfs, name_of=self._users.name, own_cgroup=own_cgroup(paths.cgroupfs))
        self._host = HostReader(paths.procfs, paths.cgroupfs)
        self._attribution = attribution
        self._command_lines = command_lines
        self._progress = progress
        self._nccl = nccl
        self._arguments: Lookup[tuple[int, UnixTime], str] = Lookup(
            "command-lines", lambda key: command_line(key[0], paths.procfs)
        )
        self._pci: tuple[MonotonicTime, int | None] | None = None
        self._ports = NetworkPortSource(paths.sysfs)
        self._threads: Threads | None = None

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        del at
        found = self._processes.read_all(pids)
        return self._with_arguments(found) if self._command_lines else found

    def _with_arguments(self, found: Mapping[int, HostProcess]) -> Mapping[int, HostProcess]:
        """Arguments are read once for each process: programs seldom change them, and the kernel may let us wait."""
        keys = {pid: (pid, process.start_time) for pid, process in found.items()}
        self._arguments.keep(set(keys.values()))
        return {pid: replace(process, arguments=self._arguments.get(keys[pid]) or "") for pid, process in found.items()}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        found = self._attribution.join(targets, pids, hosts, at.monotonic)
        health = self._users.health()
        users = () if health is None else (SourceHealth(USER_DATABASE, health[0], health[1]),)
        programs = self._progress.health() if self._progress else ()
        nccl = (self._nccl.health(),) if self._nccl else ()
        return replace(found, health=(*found.health, *users, *programs, *self._ports.health(), *nccl))

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        return self._host.read(ownership, hosts, at.monotonic)

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        del at
        return self._progress.read(ownership) if self._progress else Reported()

    def host_signals_known(self) -> frozenset[str]:
        return self._host.available_signals() | ({"reported_phases"} if self._progress else frozenset[str]())

    def skipped_tasks(self) -> int:
        return self._host.skipped_tasks

    def pci_gpus(self, at: Moment) -> int | None:
        if self._pci is None or at.monotonic - self._pci[0] >= _PCI_EVERY:
            self._pci = (at.monotonic, pci_gpus(self._paths.sysfs))
            self._ports.start_where_present(self._threads)
        return self._pci[1]

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        return self._nccl.statuses(suspects) if self._nccl else {}

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        del at
        return self._ports.ports(targets)

    def start(self, threads: Threads) -> None:
        self._threads = threads
        self._users.start(threads)
        if self._command_lines:
            self._arguments.start(threads)
        self._attribution.start(threads)
        if self._progress:
            self._progress.start(threads)
        if self._nccl:
            self._nccl.start(threads)

    def stop(self) -> None:
        self._attribution.stop()
        self._arguments.stop()
        self._ports.stop()
        self._users.stop()
        if self._progress:
            self._progress.stop()
        if self._nccl:
            self._nccl.stop()
