"""The node of a capture: nothing is known of it but what the driver answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.core.clock import Moment
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.node.nccl_status import Statuses
from exporter.node.network_ports import NO_PORTS, NetworkPorts
from exporter.progress.progress import Reported


class UnknownNode:
    """The node of a capture: pids in it are those of another machine, so nothing is looked up on this one."""

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        del pids, at
        return {}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        del targets, pids, hosts, at
        return Ownership()

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        del ownership, hosts, at
        return {}, {}

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        del ownership, at
        return Reported()

    def host_signals_known(self) -> frozenset[str]:
        return frozenset()

    def skipped_tasks(self) -> int:
        return 0

    def pci_gpus(self, at: Moment) -> int | None:
        del at
        return None

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        del suspects
        return {}

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        del targets, at
        return NO_PORTS

    def start(self, threads: Threads) -> None:
        """Nothing to start."""
        del threads

    def stop(self) -> None:
        """Nothing runs."""
