"""The join of one pass: which processes run on which GPU, as the driver and the host show them, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership
from exporter.clock import Moment, UnixTime
from exporter.collectors.processes import NO_PROCESSES, GpuProcess, Processes
from exporter.host.model import HostProcess
from exporter.node.interface import Node
from exporter.record import record
from exporter.sampling.exited_processes import ExitedProcesses
from exporter.sampling.gpus import Gpu
from exporter.sampling.readings import reading
from exporter.sampling.targets import targets


@record
class Join:
    """Never changed once made."""

    running: Mapping[str, tuple[GpuProcess, ...]]
    """By GPU uuid."""
    everyone: Sequence[GpuProcess]
    """The same, over all GPUs."""
    hosts: Mapping[int, HostProcess]
    ownership: Ownership

    def owner(self, process: GpuProcess) -> Owner:
        return self.ownership.processes.get(process.pid, NOBODY)

    def unattributed(self) -> int:
        """Processes whose owner is not known."""
        owners = self.ownership.processes
        return sum([owners.get(process.pid, NOBODY) == NOBODY for process in self.everyone])

    def starts(self) -> Mapping[Owner, UnixTime]:
        """When each workload started: its allocation where a source reports it, else its oldest process."""
        starts: dict[Owner, UnixTime] = {}
        for pid, owner in self.ownership.processes.items():
            host = self.hosts.get(pid)
            if host is not None:
                starts[owner] = min(starts.get(owner, host.start_time), host.start_time)
        infos = self.ownership.info.items()
        return {**starts, **{owner: info.start_time for owner, info in infos if info.start_time is not None}}


class Joiner:
    """Makes the join of each pass; keeps who has left since the driver was last asked."""

    def __init__(self) -> None:
        self._exited = ExitedProcesses()

    def join(self, gpus: Sequence[Gpu], node: Node, at: Moment) -> Join:
        listed = {gpu.device.uuid: _listed(gpu) for gpu in gpus}
        hosts = node.processes(sorted({process.pid for each in listed.values() for process in each.running}), at)
        running = self._exited.remaining(listed, hosts)
        everyone = [process for processes in running.values() for process in processes]
        return Join(running, everyone, hosts, node.ownership(targets(gpus), _pids(everyone), hosts, at))


def _listed(gpu: Gpu) -> Processes:
    """Processes on the GPU as last read; those of a GPU that has gone are not known any more."""
    found = reading(gpu, gpu.device.uuid, "processes", Processes)
    return found if found and gpu.present else NO_PROCESSES


def _pids(processes: Iterable[GpuProcess]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for process in processes:
        found.setdefault(process.target, []).append(process.pid)
    return found
