"""The host of a simulated node, as the sampler sees it."""

from __future__ import annotations

from exporter.core.clock import NEVER, MonotonicTime
from exporter.host.network_ports import NO_PORTS, READ_SECONDS, GpuSeat, NetworkPorts, PortWatch
from exporter.ledger.states import HOST_SIGNALS
from exporter.progress.progress import Progress, Reported
from exporter.sampling.host_view import ExitedProcesses, Host, HostQuestion, HostView
from exporter.tools.simulator.node import SimulatedNode


class SimulatedHost(Host):
    """Answers for a machine that exists in the simulation alone."""

    def __init__(self, machine: SimulatedNode) -> None:
        self._machine = machine
        self._exited = ExitedProcesses()
        self._last: MonotonicTime | None = None
        self._watch = PortWatch()
        self._ports: tuple[MonotonicTime, NetworkPorts] = (NEVER, NO_PORTS)

    def view(self, question: HostQuestion) -> HostView:
        unix, monotonic = float(question.at.unix), question.at.monotonic
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
        """Return the network ports, as often as those of a real machine are read."""
        unix, monotonic = float(question.at.unix), question.at.monotonic
        if monotonic - self._ports[0] >= READ_SECONDS:
            paths = self._machine.pci_paths()
            seats = [GpuSeat(gpu.index, gpu.uuid, paths[gpu.uuid]) for gpu in question.gpus if gpu.uuid in paths]
            self._ports = (monotonic, self._watch.update(self._machine.ports(unix), seats, monotonic))
        return self._ports[1]
