"""The node around the GPUs of a case: what each question is answered, and that it was asked the right way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.attribution.owner import Owner, Ownership, Target
from exporter.core.clock import Moment
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.network_ports import NO_PORTS, NetworkPorts
from exporter.progress.progress import Reported
from exporter.sampling.host_view import ExitedProcesses, HostQuestion, HostView
from exporter.sampling.usage.nccl_status import Statuses


@dataclass
class ScriptedNode:
    """Answers are fields. Those that grow with time grow by the moment of the cycle."""

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
    """What the last cycle asked for the owners of."""
    moments: set[Moment] = field(default_factory=set[Moment])

    looked_at: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """The processes of each look inside a cycle."""

    def __post_init__(self) -> None:
        self._exited = ExitedProcesses()

    def stages(self, question: HostQuestion) -> Iterator[HostView]:
        self.moments.add(question.at)
        self.targets, self.suspects = tuple(question.targets), question.suspects
        assert all(each.uuid for each in (*question.gpus, *question.targets))
        asked = set(question.pids)
        processes = {pid: self.hosts[pid] for pid in question.pids if pid in self.hosts}
        view = HostView(processes=processes, running=self._exited.remaining(question.listed, processes))
        yield view
        known = {pid: owner for pid, owner in self.owned.processes.items() if pid in asked}
        view = replace(view, ownership=replace(self.owned, processes=known))
        yield view
        info = self.owned.info
        owners = {owner: each for owner, each in self.reported.owners.items() if owner in info}
        yield replace(
            view,
            usage=self.used,
            signals={owner: each for owner, each in self.signals.items() if owner in info},
            known_signals=self.known_signals,
            skipped_tasks=self.skipped,
            reported=Reported(owners, self.reported.results, self.reported.ranks),
            pci_gpus=self.pci,
            ports=self.ports,
            nccl=self.statuses,
        )

    def reread(self, pids: Sequence[int]) -> None:
        self.looked_at.append(tuple(pids))

    def start(self, threads: Threads) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing runs."""
