"""A machine that exists in a simulation alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import NEVER, MonotonicTime, UnixTime
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.network_ports import NO_PORTS, GpuSeat, NetworkPorts, PortWatch
from exporter.host.rdma import PciPath, Port
from exporter.ledger.states import HOST_SIGNALS
from exporter.progress.progress import Progress, Reported
from exporter.sampling.host_view import ExitedProcesses, Host, HostQuestion, HostView
from exporter.sampling.usage.network_port_source import EVERY


class SimulatedReport(Protocol):
    """What a simulated program reports of itself."""

    @property
    def samples(self) -> float: ...
    @property
    def steps(self) -> float: ...
    @property
    def ratio(self) -> float | None: ...


class SimulatedMachine(Protocol):
    """What a simulated driver tells of the machine around its GPUs."""

    @property
    def name(self) -> str: ...
    @property
    def pci_count(self) -> int: ...
    def processes(self, now: UnixTime) -> Mapping[int, HostProcess]: ...
    def ports(self, now: UnixTime) -> tuple[Port, ...]: ...
    def pci_paths(self) -> Mapping[str, PciPath]: ...
    def ownership(self, now: UnixTime) -> Ownership: ...
    def usage(self, now: UnixTime) -> Mapping[Owner, HostUsage]: ...
    def signals(self, now: UnixTime, seconds: float) -> Mapping[Owner, HostSignals]: ...
    def progress(self, now: UnixTime) -> Mapping[Owner, SimulatedReport]: ...


class Simulation(Protocol):
    """A driver that comes with a machine."""

    @property
    def node(self) -> SimulatedMachine: ...


class SimulatedHost(Host):
    """A machine that exists in the simulation alone."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._exited = ExitedProcesses()
        self._last: MonotonicTime | None = None
        self._watch = PortWatch()
        self._ports: tuple[MonotonicTime, NetworkPorts] = (NEVER, NO_PORTS)

    def view(self, question: HostQuestion) -> HostView:
        unix, monotonic = question.at
        known = self._machine.processes(unix)
        processes = {pid: known[pid] for pid in question.pids if pid in known}
        seconds = monotonic - self._last if self._last is not None else 0.0
        self._last = monotonic
        return HostView(
            processes=processes,
            running=self._exited.remaining(question.listed, processes),
            ownership=self._machine.ownership(unix),
            usage=self._machine.usage(unix),
            signals=self._machine.signals(unix, seconds),
            known_signals=HOST_SIGNALS,
            reported=Reported(
                {
                    owner: Progress({"samples": each.samples, "steps": each.steps}, ratio=each.ratio)
                    for owner, each in self._machine.progress(unix).items()
                }
            ),
            pci_gpus=self._machine.pci_count,
            ports=self._network_ports(question),
        )

    def _network_ports(self, question: HostQuestion) -> NetworkPorts:
        """As often as those of a real machine are read."""
        unix, monotonic = question.at
        if monotonic - self._ports[0] >= EVERY:
            paths = self._machine.pci_paths()
            seats = [GpuSeat(gpu.index, gpu.uuid, paths[gpu.uuid]) for gpu in question.gpus if gpu.uuid in paths]
            self._ports = (monotonic, self._watch.look(self._machine.ports(unix), seats, monotonic))
        return self._ports[1]
