"""This machine, by its /proc, /sys and cgroups and the attribution sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.join import Attribution
from exporter.attribution.owner import SourceHealth
from exporter.core.clock import MonotonicTime, UnixTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.command import command_line
from exporter.host.model import HostProcess
from exporter.host.namespace import own_cgroup
from exporter.host.pci import pci_gpus
from exporter.host.process import ProcessReader
from exporter.host.users import SOURCE as USER_DATABASE
from exporter.host.users import UserNames
from exporter.progress.progress import Reported
from exporter.progress.reader import ProgressReader
from exporter.sampling.host_view import ExitedProcesses, HostQuestion, HostView, pids_by_target
from exporter.sampling.usage.host_reader import HostReader
from exporter.sampling.usage.nccl_status import NcclReader
from exporter.sampling.usage.network_port_source import NetworkPortSource

_PCI_EVERY = 30.0
"""Seconds between two looks at the PCI bus."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Mounts of the host's file systems."""

    procfs: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    cgroupfs: Path = Path("/sys/fs/cgroup")


class ThisHost:
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
        self._exited = ExitedProcesses()
        self._usage = HostReader(paths.procfs, paths.cgroupfs)
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

    def stages(self, question: HostQuestion) -> Iterator[HostView]:
        now, progress = question.at.monotonic, self._progress
        processes = self._processes.read_all(question.pids)
        if self._command_lines:
            processes = self._with_arguments(processes)
        running = self._exited.remaining(question.listed, processes)
        view = HostView(processes=processes, running=running)
        yield view
        owners = self._attribution.join(question.targets, pids_by_target(running), processes, now)
        owners = replace(owners, health=(*owners.health, *self._health()))
        view = replace(view, ownership=owners)
        yield view
        usage, signals = self._usage.read(owners, processes, now)
        phases = frozenset({"reported_phases"} if progress else ())
        yield replace(
            view,
            usage=usage,
            signals=signals,
            known_signals=self._usage.available_signals() | phases,
            skipped_tasks=self._usage.skipped_tasks,
            reported=progress.read(owners) if progress else Reported(),
            pci_gpus=self._pci_gpus(now),
            ports=self._ports.ports(question.gpus),
            nccl=self._nccl.statuses(question.suspects) if self._nccl else {},
        )

    def _with_arguments(self, found: Mapping[int, HostProcess]) -> Mapping[int, HostProcess]:
        """Arguments are read once for each process: programs seldom change them, and the kernel may let us wait."""
        keys = {pid: (pid, process.start_time) for pid, process in found.items()}
        self._arguments.keep(set(keys.values()))
        return {pid: replace(process, arguments=self._arguments.get(keys[pid]) or "") for pid, process in found.items()}

    def _health(self) -> Iterator[SourceHealth]:
        users = self._users.health()
        if users is not None:
            yield SourceHealth(USER_DATABASE, users[0], users[1])
        if self._progress:
            yield from self._progress.health()
        yield from self._ports.health()
        if self._nccl:
            yield self._nccl.health()

    def _pci_gpus(self, now: MonotonicTime) -> int | None:
        if self._pci is None or now - self._pci[0] >= _PCI_EVERY:
            self._pci = (now, pci_gpus(self._paths.sysfs))
            self._ports.start_where_present(self._threads)
        return self._pci[1]

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
