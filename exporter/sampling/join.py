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
from exporter.sampling.exited_processes import pids_by_target
from exporter.sampling.gpus import Gpu
from exporter.sampling.host_view import HostQuestion, HostView
from exporter.sampling.readings import reading
from exporter.sampling.targets import held_apart, target_of


@record
class Join:
    """Never changed once made."""

    running: Mapping[str, Sequence[GpuProcess]]
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
    """Makes the question to the host and the join of each pass; keeps what has not changed."""

    def __init__(self) -> None:
        self._devices: Sequence[Device] = ()
        self._gpus: Sequence[Target] = ()
        self._targets: Sequence[Target] = ()
        self._owned: _Owned | None = None

    def question(self, gpus: Sequence[Gpu], at: Moment, suspects: Mapping[Owner, Sequence[int]]) -> HostQuestion:
        """Ask about GPUs that have gone too: they can still be held, for their jobs do not know yet."""
        devices = [gpu.device for gpu in gpus]
        if devices != self._devices:
            self._devices, self._gpus = devices, tuple([target_of(device) for device in devices])
            self._targets = tuple([target_of(device) for device in held_apart(gpus)])
        return HostQuestion(at, {gpu.device.uuid: _listed(gpu) for gpu in gpus}, self._gpus, self._targets, suspects)

    def join(self, question: HostQuestion, view: HostView) -> Join:
        running = view.running
        if running is None:
            running = {uuid: each.running for uuid, each in question.listed.items()}
        everyone = [process for processes in running.values() for process in processes]
        pids, ownership, hosts = pids_by_target(running), view.ownership, view.processes
        owned = self._owned
        if owned is None or not owned.of(ownership, pids):
            owned = self._owned = _Owned(ownership, pids, _starts(ownership, hosts), _unattributed(ownership, everyone))
        return Join(running, everyone, hosts, ownership, owned.starts, owned.unattributed)


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
