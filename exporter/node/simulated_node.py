"""A node that exists in a simulation alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.core.clock import NEVER, Moment, MonotonicTime, UnixTime
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.rdma import PciPath, Port
from exporter.ledger.states import HOST_SIGNALS
from exporter.node.nccl_status import Statuses
from exporter.node.network_port_source import EVERY
from exporter.node.network_ports import NO_PORTS, GpuSeat, NetworkPorts, PortWatch
from exporter.progress.progress import Progress, Reported


class SimulatedReport(Protocol):
    """What a simulated program reports of itself."""

    @property
    def samples(self) -> float: ...
    @property
    def steps(self) -> float: ...
    @property
    def ratio(self) -> float | None: ...


class SimulatedHost(Protocol):
    """What a simulated driver gives the node around its GPUs."""

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
    """A driver that comes with a node."""

    @property
    def node(self) -> SimulatedHost: ...


class SimulatedNode:
    """A node that exists in the simulation alone."""

    def __init__(self, simulation: SimulatedHost) -> None:
        self._simulation = simulation
        self._last: MonotonicTime | None = None
        self._ports = PortWatch()
        self._looked: tuple[MonotonicTime, NetworkPorts] = (NEVER, NO_PORTS)

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        known = self._simulation.processes(at.unix)
        return {pid: known[pid] for pid in pids if pid in known}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        del targets, pids, hosts
        return self._simulation.ownership(at.unix)

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        del ownership, hosts
        seconds = at.monotonic - self._last if self._last is not None else 0.0
        self._last = at.monotonic
        return self._simulation.usage(at.unix), self._simulation.signals(at.unix, seconds)

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        del ownership
        reported = self._simulation.progress(at.unix).items()
        return Reported(
            {
                owner: Progress({"samples": each.samples, "steps": each.steps}, ratio=each.ratio)
                for owner, each in reported
            }
        )

    def host_signals_known(self) -> frozenset[str]:
        return HOST_SIGNALS

    def skipped_tasks(self) -> int:
        return 0

    def pci_gpus(self, at: Moment) -> int | None:
        del at
        return self._simulation.pci_count

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        del suspects
        return {}

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        """As often as those of a real node are read."""
        if at.monotonic - self._looked[0] >= EVERY:
            paths = self._simulation.pci_paths()
            seats = [GpuSeat(each.index, each.uuid, paths[each.uuid]) for each in targets if each.uuid in paths]
            self._looked = (at.monotonic, self._ports.look(self._simulation.ports(at.unix), seats, at.monotonic))
        return self._looked[1]

    def start(self, threads: Threads) -> None:
        """Nothing to start."""
        del threads

    def stop(self) -> None:
        """Nothing runs."""
