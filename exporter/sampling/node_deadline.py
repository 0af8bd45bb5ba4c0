"""The node, asked under a deadline: a read of the host that hangs costs what it would have reported, not the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, SourceHealth, Target
from exporter.clock import Moment, MonotonicClock, MonotonicTime, monotonic_time
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.node.interface import Node
from exporter.node.nccl_status import Statuses
from exporter.node.network_ports import NetworkPorts
from exporter.progress.progress import Reported
from exporter.sampling.worker import Worker
from exporter.threads.runner import Threads

SOURCE = "host"
T = TypeVar("T")


class _Answers(NamedTuple):
    """What the node answers in one go."""

    usage: tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]] = ({}, {})
    host_signals_known: frozenset[str] = frozenset()
    progress: Reported = Reported()
    pci_gpus: int | None = None


class NodeDeadline:
    """Asks `node` on a thread of its own and waits `deadline` seconds for each answer.

    While it hangs, what it last reported stands for `stale` seconds; then nothing is known, and `health` shows it. They
    count from its first late answer: a machine that stood still has not asked it meanwhile.
    """

    def __init__(self, node: Node, deadline: float, stale: float, clock: MonotonicClock = monotonic_time) -> None:
        self._node = node
        self._deadline = deadline
        self._stale = stale
        self._clock = clock
        self._worker: Worker[tuple[Any]] | None = None
        self._last: dict[str, tuple[Any, MonotonicTime]] = {}
        self._late_since: dict[str, MonotonicTime] = {}
        self._late = False
        self._answers = _Answers()

    def start(self, threads: Threads) -> None:
        self._worker = Worker("node", threads)
        self._node.start(threads)

    def stop(self) -> None:
        self._node.stop()
        if self._worker:
            self._worker.stop()

    def processes(self, pids: Sequence[int], at: Moment) -> Mapping[int, HostProcess]:
        self._late = False
        nothing: Mapping[int, HostProcess] = {}
        return self._ask("processes", lambda: self._node.processes(pids, at), nothing)

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        found = self._ask("ownership", lambda: self._node.ownership(targets, pids, hosts, at), Ownership())
        age = self._clock() - self._last["ownership"][1] if "ownership" in self._last else float("inf")
        return replace(found, health=(*found.health, SourceHealth(SOURCE, not self._late, age if self._late else 0.0)))

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """Asks at once for all that a pass wants to know besides: to change threads costs as much as the answer."""

        def ask() -> _Answers:
            node = self._node
            return _Answers(
                node.usage(ownership, hosts, at),
                node.host_signals_known(),
                node.progress(ownership, at),
                node.pci_gpus(at),
            )

        self._answers = self._ask("usage", ask, _Answers())
        return self._answers.usage

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
        """As of the last `usage`, which `host_tells` and `pci_gpus` are of too."""
        del ownership, at
        return self._answers.progress

    def host_signals_known(self) -> frozenset[str]:
        return self._answers.host_signals_known

    def skipped_tasks(self) -> int:
        return self._node.skipped_tasks()

    def nccl(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        return self._node.nccl(suspects)

    def network_ports(self, targets: Sequence[Target], at: Moment) -> NetworkPorts:
        return self._node.network_ports(targets, at)

    def allocation_changes(self) -> int:
        return self._node.allocation_changes()

    def pci_gpus(self, at: Moment) -> int | None:
        del at
        return self._answers.pci_gpus

    def _ask(self, what: str, ask: Callable[[], T], nothing: T) -> T:
        if self._worker is None:
            return ask()
        if self._worker.submit(lambda: (ask(),)):
            answer = self._worker.wait(monotonic_time() + self._deadline)
            if answer is not None:
                self._last[what] = (answer[0], self._clock())
                self._late_since.pop(what, None)
                return cast("T", answer[0])
        self._late = True
        now = self._clock()
        since = self._late_since.setdefault(what, now)
        return cast("T", self._last[what][0]) if what in self._last and now - since <= self._stale else nothing
