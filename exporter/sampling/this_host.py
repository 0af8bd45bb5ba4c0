"""This machine, by its /proc, /sys and cgroups and the attribution sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.background_source import BackgroundSource
from exporter.attribution.join import Attribution
from exporter.attribution.owner import SourceHealth, Target
from exporter.core.clock import MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host import rdma
from exporter.host.command import masked_command_line
from exporter.host.namespace import own_cgroup, sees_all_processes
from exporter.host.network_ports import NO_PORTS, READ_SECONDS, GpuSeat, NetworkPorts, PortWatch
from exporter.host.process import SOURCE as USER_DATABASE
from exporter.host.process import ProcessReader, UserNames
from exporter.host.rdma import memory_is_numa_node, pci_gpus
from exporter.progress.progress import Reported
from exporter.progress.reader import ProgressReader
from exporter.sampling.host_view import ExitedProcesses, HostQuestion, HostView, pids_by_target
from exporter.sampling.usage.host_reader import HostReader
from exporter.sampling.usage.nccl_status import NcclReader

_PORT_SOURCE = "rdma"
_MAX_PORT_AGE_SECONDS = 60.0
"""Seconds that what was read last is shown while nothing more is read."""


def seats(sysfs: Path, gpus: Sequence[Target]) -> tuple[GpuSeat, ...]:
    """Return the places of whole GPUs that have an address; MIG instances are where their GPU is."""
    return tuple(
        GpuSeat(gpu.index, gpu.uuid, rdma.pci_path(sysfs, gpu.pci_bus_id), rdma.pci_numa_node(sysfs, gpu.pci_bus_id))
        for gpu in gpus
        if gpu.pci_bus_id and not gpu.parent_uuid
    )


def unexplained_memory(procfs: Path, gpus: Sequence[Target]) -> frozenset[str] | None:
    """Return the GPUs whose memory no list of processes accounts for; None for all."""
    if not sees_all_processes():
        return None
    return frozenset(gpu.uuid for gpu in gpus if gpu.pci_bus_id and memory_is_numa_node(procfs, gpu.pci_bus_id))


class NetworkPortSource:
    """`ports` never waits. Nothing runs, and no health is reported, on a machine without such ports."""

    def __init__(self, sysfs: Path, clock: MonotonicClock = monotonic_time) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._gpus: tuple[Target, ...] = ()
        self._watch = PortWatch()
        self._source = BackgroundSource(
            lambda: self._watch.update(rdma.ports(sysfs), seats(sysfs, self._gpus), self._clock()),
            NO_PORTS,
            name=_PORT_SOURCE,
            interval=lambda _: READ_SECONDS,
            clock=clock,
        )
        self._started = False

    def start_where_present(self, threads: Threads | None) -> None:
        """The kernel may load the class of such devices later."""
        if threads is not None and not self._started and rdma.present(self._sysfs):
            self._started = True
            self._source.start(threads)

    def ports(self, gpus: Sequence[Target]) -> NetworkPorts:
        self._gpus = tuple(gpus)
        answer = self._source.answer
        return answer.value if self._clock() - answer.at <= _MAX_PORT_AGE_SECONDS else NO_PORTS

    def health(self) -> tuple[SourceHealth, ...]:
        return (self._source.health(_PORT_SOURCE, self._clock()),) if self._started else ()

    def stop(self) -> None:
        if self._started:
            self._source.stop()


_PCI_READ_SECONDS = 30.0
"""Seconds between two reads of the PCI bus."""


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
            "command-lines", lambda key: masked_command_line(key[0], paths.procfs)
        )
        self._pci: tuple[MonotonicTime, int | None] | None = None
        self._ports = NetworkPortSource(paths.sysfs)
        self._threads: Threads | None = None
        arguments = self._arguments if command_lines else None
        parts = (self._users, arguments, attribution, progress, nccl)
        self._parts = [part for part in parts if part is not None]

    def stages(self, question: HostQuestion) -> Iterator[HostView]:
        now, progress = question.at.monotonic, self._progress
        processes = self._processes.read_all(question.pids)
        if self._command_lines:
            # Arguments are read once for each process: programs seldom change them, and the kernel may let us wait.
            keys = {pid: (pid, process.start_time) for pid, process in processes.items()}
            self._arguments.keep(set(keys.values()))
            processes = {
                pid: replace(process, arguments=self._arguments.get(keys[pid]) or "")
                for pid, process in processes.items()
            }
        running = self._exited.remaining(question.listed, processes)
        view = HostView(processes=processes, running=running)
        yield view
        owners = self._attribution.join(question.targets, pids_by_target(running), processes, now)
        owners = replace(owners, health=(*owners.health, *self._source_health()))
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
            unexplained=unexplained_memory(self._paths.procfs, question.gpus),
            nccl=self._nccl.statuses(question.suspects) if self._nccl else {},
        )

    def reread(self, pids: Sequence[int]) -> None:
        self._usage.threads.reread(pids)

    def _source_health(self) -> Iterator[SourceHealth]:
        users = self._users.health()
        if users is not None:
            yield SourceHealth(USER_DATABASE, users[0], users[1])
        if self._progress:
            yield from self._progress.health()
        yield from self._ports.health()
        if self._nccl:
            yield self._nccl.health()

    def _pci_gpus(self, now: MonotonicTime) -> int | None:
        if self._pci is None or now - self._pci[0] >= _PCI_READ_SECONDS:
            self._pci = (now, pci_gpus(self._paths.sysfs))
            self._ports.start_where_present(self._threads)
        return self._pci[1]

    def start(self, threads: Threads) -> None:
        self._threads = threads
        for part in self._parts:
            part.start(threads)

    def stop(self) -> None:
        for part in (*self._parts, self._ports):
            part.stop()
