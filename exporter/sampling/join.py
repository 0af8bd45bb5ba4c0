"""The join of one pass: which processes run on which GPU, as the driver and the host show them, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.collectors.processes import NO_PROCESSES, GpuProcess, Processes
from exporter.core.clock import Moment, UnixTime
from exporter.core.record import record
from exporter.driver.interface import Device
from exporter.host.model import HostProcess
from exporter.node.interface import Node
from exporter.sampling.exited_processes import ExitedProcesses
from exporter.sampling.gpus import Gpu
from exporter.sampling.readings import reading
from exporter.sampling.targets import held_apart, target_of


@record
class Join:
    """Never changed once made."""

    running: Mapping[str, tuple[GpuProcess, ...]]
    """By GPU uuid."""
    everyone: Sequence[GpuProcess]
    """The same, over all GPUs."""
    hosts: Mapping[int, HostProcess]
    ownership: Ownership
    starts: Mapping[Owner, UnixTime]
    """When each workload started: its allocation where a source reports it, else its oldest process."""
    unattributed: int
    """Processes whose owner is not known."""

    def owner(self, process: GpuProcess) -> Owner:
        return self.ownership.processes.get(process.pid, NOBODY)


class _Owned(NamedTuple):
    """What follows from an ownership, for as long as it and the processes on the GPUs are the same."""

    ownership: Ownership
    pids: Mapping[str, Sequence[int]]
    starts: Mapping[Owner, UnixTime]
    unattributed: int

    def of(self, ownership: Ownership, pids: Mapping[str, Sequence[int]]) -> bool:
        same = ownership.processes is self.ownership.processes and ownership.info is self.ownership.info
        return same and pids == self.pids


class Joiner:
    """Makes the join of each pass; keeps who has left since the driver was last asked, and what has not changed."""

    def __init__(self) -> None:
        self._exited = ExitedProcesses()
        self._devices: Sequence[Device] = ()
        self._targets: Sequence[Target] = ()
        self._owned: _Owned | None = None

    def join(self, gpus: Sequence[Gpu], node: Node, at: Moment) -> Join:
        listed = {gpu.device.uuid: _listed(gpu) for gpu in gpus}
        hosts = node.processes(sorted({process.pid for each in listed.values() for process in each.running}), at)
        running = self._exited.remaining(listed, hosts)
        everyone = [process for processes in running.values() for process in processes]
        pids = _pids(everyone)
        ownership = node.ownership(self._targets_of(gpus), pids, hosts, at)
        owned = self._owned
        if owned is None or not owned.of(ownership, pids):
            owned = self._owned = _Owned(ownership, pids, _starts(ownership, hosts), _unattributed(ownership, everyone))
        return Join(running, everyone, hosts, ownership, owned.starts, owned.unattributed)

    def _targets_of(self, gpus: Sequence[Gpu]) -> Sequence[Target]:
        """Of a GPU that has gone too: it can still be held, for its job does not know yet."""
        devices = held_apart(gpus)
        if devices != self._devices:
            self._devices, self._targets = devices, tuple([target_of(device) for device in devices])
        return self._targets


def _starts(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, UnixTime]:
    starts: dict[Owner, UnixTime] = {}
    for pid, owner in ownership.processes.items():
        host = hosts.get(pid)
        if host is not None:
            starts[owner] = min(starts.get(owner, host.start_time), host.start_time)
    infos = ownership.info.items()
    return {**starts, **{owner: info.start_time for owner, info in infos if info.start_time is not None}}


def _unattributed(ownership: Ownership, everyone: Iterable[GpuProcess]) -> int:
    owners = ownership.processes
    return sum([owners.get(process.pid, NOBODY) == NOBODY for process in everyone])


def _listed(gpu: Gpu) -> Processes:
    """Processes on the GPU as last read; those of a GPU that has gone are not known any more."""
    found = reading(gpu, "processes", Processes)
    return found if found and gpu.present else NO_PROCESSES


def _pids(processes: Iterable[GpuProcess]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for process in processes:
        found.setdefault(process.target, []).append(process.pid)
    return found
