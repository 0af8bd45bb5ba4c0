"""View of the machine around the GPUs: one question and one answer a cycle, under one deadline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from exporter.attribution.owner import Owner, Ownership, SourceHealth, Target
from exporter.collectors.processes import GpuProcess, Processes
from exporter.core.clock import Moment, MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.core.record import record
from exporter.core.threads import Threads
from exporter.core.worker import Worker
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.network_ports import NO_PORTS, NetworkPorts
from exporter.progress.progress import Reported
from exporter.sampling.usage.nccl_status import NcclStatus, Statuses

SOURCE = "host"


@record
class HostQuestion:
    """The GPUs and processes that a cycle asks about."""

    at: Moment
    listed: Mapping[str, Processes]
    """The processes that the driver lists, by GPU uuid."""
    gpus: Sequence[Target] = ()
    targets: Sequence[Target] = ()
    """Targets that can be allocated: GPUs without MIG, and MIG instances."""
    suspects: Mapping[Owner, Sequence[int]] = field(default_factory=dict[Owner, Sequence[int]])
    """Workloads that seemed to hang in the cycle before, with their GPU processes."""

    @property
    def pids(self) -> Sequence[int]:
        return sorted({process.pid for each in self.listed.values() for process in each.running})


@record
class HostView:
    """The machine around the GPUs in one cycle. Never changed once made."""

    processes: Mapping[int, HostProcess] = field(default_factory=dict[int, HostProcess])
    """Processes by pid, without those that have ended."""
    running: Mapping[str, Sequence[GpuProcess]] | None = None
    """The GPU processes that have not ended, by GPU uuid; None where only the driver's lists are known."""
    ownership: Ownership = field(default_factory=Ownership)
    usage: Mapping[Owner, HostUsage] = field(default_factory=dict[Owner, HostUsage])
    signals: Mapping[Owner, HostSignals] = field(default_factory=dict[Owner, HostSignals])
    """Activity of each owner's host side since the cycle before."""
    known_signals: frozenset[str] = frozenset()
    """Names of the `HostSignals` that this host can report; `reported_phases` where programs can report theirs."""
    skipped_tasks: int = 0
    """Threads worth watching that had no place in the budget, summed over cycles."""
    reported: Reported = field(default_factory=Reported)
    """Reports of the owners' programs."""
    pci_gpus: int | None = None
    """NVIDIA GPUs on the PCI bus; None where it cannot be read."""
    ports: NetworkPorts = NO_PORTS
    unexplained: frozenset[str] | None = frozenset()
    """GPUs by uuid whose memory no list of processes accounts for; None where that holds for all."""
    nccl: Statuses = field(default_factory=dict[Owner, NcclStatus])
    """Reports of NCCL about the suspects."""


NOTHING = HostView(unexplained=None)


class Host:
    """The machine of a capture: its pids are those of another machine, so nothing is looked up on this one."""

    def view(self, question: HostQuestion) -> HostView:
        """Return what the machine shows. Never blocks for long."""
        del question
        return NOTHING

    def reread(self, pids: Sequence[int]) -> None:
        """Read the state of these GPU processes inside a cycle; the next view counts it. Never blocks for long."""

    def start(self, threads: Threads) -> None:
        """Start what is asked in the background."""

    def stop(self) -> None:
        """Stop it."""


class Simulation(Protocol):
    """A driver that comes with a host of its own."""

    @property
    def node_name(self) -> str: ...

    def host(self) -> Host: ...


class StagedHost(Protocol):
    """A machine whose files may hang."""

    def stages(self, question: HostQuestion) -> Iterator[HostView]:
        """Yield three views: with the processes, with their owners too, and with all."""
        ...

    def reread(self, pids: Sequence[int]) -> None: ...

    def start(self, threads: Threads) -> None: ...

    def stop(self) -> None: ...


_STAGES = 3


class HostDeadline(Host):
    """Asks a host on a thread of its own and waits `deadline` seconds: what hangs costs what it would have shown.

    While it hangs, what it last showed stands for `stale` seconds; then nothing is known, and `health` shows it. They
    count from its first late answer: a machine that stood still has not asked it meanwhile.
    """

    def __init__(self, host: StagedHost, deadline: float, stale: float, clock: MonotonicClock = monotonic_time) -> None:
        self._host = host
        self._deadline = deadline
        self._stale = stale
        self._clock = clock
        self._worker: Worker[None] | None = None
        self._last: list[tuple[HostView, MonotonicTime] | None] = [None] * _STAGES
        """The last view that reached each stage, and when."""
        self._late_since: list[MonotonicTime | None] = [None] * _STAGES

    def start(self, threads: Threads) -> None:
        self._worker = Worker("node", threads)
        self._host.start(threads)

    def stop(self) -> None:
        self._host.stop()
        if self._worker:
            self._worker.stop()

    def view(self, question: HostQuestion) -> HostView:
        stages: list[HostView] = []

        def ask() -> None:
            for stage in self._host.stages(question):
                stages.append(stage)  # noqa: PERF402 - what is there by the deadline counts

        if self._worker is None:
            ask()
        elif self._worker.submit(ask):  # not while the one before still runs
            self._worker.wait(monotonic_time() + self._deadline)
        return self._complete(tuple(stages))

    def reread(self, pids: Sequence[int]) -> None:
        if self._worker and self._worker.submit(lambda: self._host.reread(pids)):
            self._worker.wait(monotonic_time() + self._deadline / 4)

    def _complete(self, stages: Sequence[HostView]) -> HostView:
        """Return the view of this cycle; what is missing is of the last view that had it."""
        now, reached = self._clock(), len(stages)
        processes, owners, all_ = (
            self._known(stage, stages[-1] if stage < reached else None, now) for stage in range(_STAGES)
        )
        late, last = reached < _STAGES, self._last[1]
        age = now - last[1] if last else float("inf")
        health = SourceHealth(SOURCE, not late, age if late else 0.0)
        return replace(
            all_,
            processes=processes.processes,
            running=processes.running if reached else None,
            ownership=replace(owners.ownership, health=(*owners.ownership.health, health)),
            skipped_tasks=self._last[2][0].skipped_tasks if self._last[2] else 0,
        )

    def _known(self, stage: int, view: HostView | None, now: MonotonicTime) -> HostView:
        """Return the view, if it reached the stage in time; else the last one that did, for a while."""
        if view is not None:
            self._last[stage], self._late_since[stage] = (view, now), None
            return view
        since = self._late_since[stage]
        if since is None:
            since = self._late_since[stage] = now
        last = self._last[stage]
        return last[0] if last and now - since <= self._stale else NOTHING


class ExitedProcesses:
    """Takes out of the driver's lists whoever /proc showed and shows no more.

    A list that was read after a process left has the last word: the driver may hold on to a dead one. What /proc
    never showed (another PID namespace) stays.
    """

    def __init__(self) -> None:
        self._shown: frozenset[int] = frozenset()
        self._left: dict[tuple[str, int], UnixTime] = {}
        """Time of the list that still has it, by GPU uuid and pid."""

    def remaining(
        self, listed: Mapping[str, Processes], shown: Collection[int]
    ) -> Mapping[str, tuple[GpuProcess, ...]]:
        """Processes by GPU uuid; `shown` are the pids of them in /proc."""
        gone = self._shown.difference(shown)
        times = {
            (uuid, process.pid): each.lists.time
            for uuid, each in listed.items()
            for process in each.running
            if process.pid not in shown and (process.pid in gone or (uuid, process.pid) in self._left)
        }
        self._left = {key: self._left.get(key, time) for key, time in times.items()}
        self._shown = frozenset(shown)
        return {
            uuid: tuple(process for process in each.running if self._left.get((uuid, process.pid)) != each.lists.time)
            for uuid, each in listed.items()
        }


def pids_by_target(running: Mapping[str, Sequence[GpuProcess]]) -> Mapping[str, Sequence[int]]:
    """Return the pids on each GPU or MIG instance by its uuid, of processes by GPU uuid."""
    found: dict[str, list[int]] = {}
    for processes in running.values():
        for process in processes:
            found.setdefault(process.target, []).append(process.pid)
    return found
