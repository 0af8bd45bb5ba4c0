"""Reads the node's network ports in the background, and judges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.background_source import BackgroundSource
from exporter.attribution.owner import SourceHealth, Target
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads
from exporter.host import rdma
from exporter.host.network_ports import NO_PORTS, GpuSeat, NetworkPorts, PortWatch

SOURCE = "rdma"
EVERY = 10.0
_KEPT = 60.0
"""Seconds that what was read last is shown while nothing more is read."""


@dataclass(frozen=True, slots=True)
class _Look:
    ports: tuple[rdma.Port, ...] = ()
    seats: tuple[GpuSeat, ...] = ()


def seats(sysfs: Path, gpus: Sequence[Target]) -> tuple[GpuSeat, ...]:
    """Of whole GPUs that have an address; MIG instances sit where their GPU does."""
    return tuple(
        GpuSeat(gpu.index, gpu.uuid, rdma.pci_path(sysfs, gpu.pci_bus_id), rdma.pci_numa_node(sysfs, gpu.pci_bus_id))
        for gpu in gpus
        if gpu.pci_bus_id and not gpu.parent_uuid
    )


class NetworkPortSource:
    """`ports` never waits. Nothing runs, and no health is reported, on a machine without such ports."""

    def __init__(self, sysfs: Path, clock: MonotonicClock = monotonic_time) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._gpus: tuple[Target, ...] = ()
        self._watch = PortWatch()
        self._source = BackgroundSource(
            lambda: _Look(rdma.ports(self._sysfs), seats(self._sysfs, self._gpus)),
            _Look(),
            name=SOURCE,
            interval=lambda _: EVERY,
            clock=clock,
        )
        self._started = False
        self._judged: tuple[MonotonicTime, NetworkPorts] = (NEVER, NO_PORTS)

    def start_where_present(self, threads: Threads | None) -> None:
        """The kernel may load the class of such devices later."""
        if threads is not None and not self._started and rdma.present(self._sysfs):
            self._started = True
            self._source.start(threads)

    def ports(self, gpus: Sequence[Target]) -> NetworkPorts:
        self._gpus = tuple(gpus)
        answer = self._source.answer
        if not answer.value.ports or self._clock() - answer.at > _KEPT:
            return NO_PORTS
        if answer.at != self._judged[0]:
            self._judged = (answer.at, self._watch.look(answer.value.ports, answer.value.seats, answer.at))
        return self._judged[1]

    def health(self) -> tuple[SourceHealth, ...]:
        return (self._source.health(SOURCE, self._clock()),) if self._started else ()

    def ask_once(self) -> None:
        """Read now, in the caller's thread."""
        self._source.ask_once()

    def stop(self) -> None:
        if self._started:
            self._source.stop()
