"""The node around the GPUs of a case: what each question is answered, and that it was asked the right way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target
from exporter.core.clock import Moment
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.node.nccl_status import Statuses
from exporter.node.network_ports import NO_PORTS, NetworkPorts
from exporter.node.unknown_node import UnknownNode
from exporter.progress.progress import Reported


@dataclass
class ScriptedNode(UnknownNode):
    """Answers are fields. Those that grow with time grow by the moment of the pass."""

    hosts: Mapping[int, HostProcess] = field(default_factory=dict[int, HostProcess])
    owned: Ownership = field(default_factory=Ownership)
    used: Mapping[Owner, HostUsage] = field(default_factory=dict[Owner, HostUsage])
    signals: Mapping[Owner, HostSignals] = field(default_factory=dict[Owner, HostSignals])
    known_signals: frozenset[str] = frozenset()
    reported: Reported = field(default_factory=Reported)
    skipped: int = 0
    pci: int | None = None
    statuses: Statuses = field(default_factory=dict)
    ports: NetworkPorts = NO_PORTS
    suspects: Mapping[Owner, Sequence[int]] = field(default_factory=dict[Owner, Sequence[int]])
    targets: tuple[Target, ...] = ()
    """What the last pass asked for the owners of."""
    moments: set[Moment] = field(default_factory=set[Moment])

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        self.moments.add(at)
        return {pid: self.hosts[pid] for pid in pids if pid in self.hosts}

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        self.moments.add(at)
        self.targets = tuple(targets)
        asked = {pid for each in pids.values() for pid in each}
        assert hosts.keys() <= asked
        known = {pid: owner for pid, owner in self.owned.processes.items() if pid in asked}
        return replace(self.owned, processes=known)

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        self.moments.add(at)
        assert hosts.keys() <= self.hosts.keys()
        return self.used, {owner: each for owner, each in self.signals.items() if owner in ownership.info}

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        self.moments.add(at)
        owners = {owner: each for owner, each in self.reported.owners.items() if owner in ownership.info}
        return Reported(owners, self.reported.results, self.reported.ranks)

    def host_signals_known(self) -> frozenset[str]:
        return self.known_signals

    def skipped_tasks(self) -> int:
        return self.skipped

    def pci_gpus(self, at: Moment) -> int | None:
        self.moments.add(at)
        return self.pci

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        self.suspects = suspects
        return self.statuses

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        self.moments.add(at)
        assert all(each.uuid for each in targets)
        return self.ports
