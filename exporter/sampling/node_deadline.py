"""The node, asked under a deadline: a read of the host that hangs costs what it would have reported, not the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, SourceHealth, Target
from exporter.core.clock import Moment, MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.node.interface import Node
from exporter.node.nccl_status import Statuses
from exporter.node.network_ports import NetworkPorts
from exporter.progress.progress import Reported
from exporter.sampling.worker import Worker

SOURCE = "host"
T = TypeVar("T")


class _Answers(NamedTuple):
    """What the node answers once it is known who runs what."""

    usage: tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]] = ({}, {})
    host_signals_known: frozenset[str] = frozenset()
    progress: Reported = Reported()
    pci_gpus: int | None = None


class _Go:
    """What the node answers in one go, filled on its thread: what is there by the deadline counts."""

    def __init__(self) -> None:
        self.processes: Mapping[int, HostProcess] | None = None
        self.ownership: Ownership | None = None
        self.answers: _Answers | None = None


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
        self._worker: Worker[None] | None = None
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
        go = _Go()

        def ask() -> None:
            go.processes = self._node.processes(pids, at)

        self._late = False
        self._in_time(ask)
        nothing: Mapping[int, HostProcess] = {}
        return self._known("processes", go.processes, nothing)

    def ownership(
        self,
        targets: Sequence[Target],
        pids: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        at: Moment,
    ) -> Ownership:
        """Asks at once for all that a pass wants to know besides: to change threads costs as much as the answer."""
        go, node = _Go(), self._node

        def ask() -> None:
            go.ownership = node.ownership(targets, pids, hosts, at)
            go.answers = _Answers(
                node.usage(go.ownership, hosts, at),
                node.host_signals_known(),
                node.progress(go.ownership, at),
                node.pci_gpus(at),
            )

        self._in_time(ask)
        found = self._known("ownership", go.ownership, Ownership())
        self._answers = self._known("usage", go.answers, _Answers())
        age = self._clock() - self._last["ownership"][1] if "ownership" in self._last else float("inf")
        return replace(found, health=(*found.health, SourceHealth(SOURCE, not self._late, age if self._late else 0.0)))

    def usage(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], at: Moment
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """As of the last `ownership`, which all that follows is of too."""
        del ownership, hosts, at
        return self._answers.usage

    def progress(self, ownership: Ownership, at: Moment) -> Reported:
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

    def pci_gpus(self, at: Moment) -> int | None:
        del at
        return self._answers.pci_gpus

    def _in_time(self, ask: Callable[[], None]) -> None:
        """Run `ask` on the node's thread, and wait for it until the deadline; not while the one before still runs."""
        if self._worker is None:
            ask()
        elif self._worker.submit(ask):
            self._worker.wait(monotonic_time() + self._deadline)

    def _known(self, what: str, answer: T | None, nothing: T) -> T:
        """The answer, where it came in time; else the last one, for a while."""
        now = self._clock()
        if answer is not None:
            self._last[what] = (answer, now)
            self._late_since.pop(what, None)
            return answer
        self._late = True
        since = self._late_since.setdefault(what, now)
        return cast("T", self._last[what][0]) if what in self._last and now - since <= self._stale else nothing
