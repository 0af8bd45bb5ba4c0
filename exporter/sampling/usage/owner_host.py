"""The host side of one owner, turn after turn: its totals, and what it did since its last turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from exporter.core.clock import NEVER, MonotonicTime
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host import cgroup, network
from exporter.host.cgroup import Freezer, Hierarchy, Limits
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.text import KeptFiles
from exporter.sampling.usage.signals import NOTHING_SAID, Counters, Tasks, signals
from exporter.sampling.usage.totals import CarriedUsage, ProcessTotals

SLOW_SECONDS = 5.0
"""Memory is read this often."""
LIMIT_SECONDS = 30.0
"""And limits this often."""
PROGRAMS_SECONDS, PROGRAMS_LONGEST = 30.0, 120.0
"""And who its programs are, and whether they listen: at first, and at most, where it was the same again and again."""
NETWORK_SECONDS = 3.0
"""And the bytes over a network namespace this often."""
_NEAR = 4
"""Processes of an owner that are asked whether they listen."""
_PORTS = 8
"""Shown of one owner."""


@dataclass(frozen=True)
class HostFiles:
    """Where the host is read. `cores` are the node's."""

    procfs: Path
    cgroupfs: Path
    cores: int
    kept: KeptFiles

    @cached_property
    def hierarchy(self) -> Hierarchy:
        return cgroup.hierarchy(self.cgroupfs)

    @cached_property
    def freezer(self) -> Freezer:
        return Freezer(self.cgroupfs)


class _Network(NamedTuple):
    """The last look at the bytes over an owner's own network namespace."""

    looked_at: MonotonicTime
    total: Mapping[str, Bytes]
    rate: BytesPerSecond | None = None
    """Both ways, since the look before."""


class _Programs(NamedTuple):
    """Who its programs are, and whether they listen; looked at now and then."""

    looked_at: MonotonicTime = NEVER
    seconds: float = 0.0
    """Until the next look."""
    processes: tuple[int, ...] = ()
    """That were asked."""
    ports: frozenset[int] | None = None
    """None: not shown."""
    names: tuple[str, ...] = ()
    launchers: frozenset[int] = frozenset()
    """Parents of its GPU processes that start ranks."""


class OwnerHost:
    """Of an owner that does nothing, what is found is the same object turn after turn."""

    __slots__ = (
        "_carried",
        "_counted_at",
        "_counters",
        "_files",
        "_limits",
        "_limits_at",
        "_network",
        "_processes",
        "_programs",
        "_resident",
        "_resident_at",
        "_stood_still",
        "signals",
        "usage",
    )  # fmt: skip

    def __init__(self, files: HostFiles) -> None:
        self._files = files
        self.usage = HostUsage()
        self.signals: HostSignals | None = None
        """Of the time between its last two turns."""
        self._counters: Counters | None = None
        self._counted_at: MonotonicTime = NEVER
        self._stood_still = False
        """Whether its last two turns counted the same."""
        self._limits = Limits()
        self._limits_at = self._resident_at = NEVER
        self._resident: Bytes | None = None
        self._processes = ProcessTotals(files.kept)
        """Where the owner has no cgroup of its own."""
        self._programs = _Programs()
        self._carried = CarriedUsage()
        self._network: _Network | None = None

    def leave(self) -> None:
        """It holds nothing any more. Where it comes back, its totals go on, and of the time between nothing is told."""
        self._processes.usage(())
        self._counters, self.signals, self._stood_still = None, None, False
        self._programs, self._network = _Programs(), None

    def look(
        self,
        running: Sequence[HostProcess],
        tasks: Mapping[int, Tasks],
        path: str | None,
        now: MonotonicTime,
        listeners: network.Listeners,
    ) -> None:
        """Take what it has used, and what it did since its last turn. `path` is its own cgroup's."""
        if running:
            self._look_at_programs(running, now, listeners)
            self._look_at_network(running[0].pid, now)
        usage = self._used(running, path, now)
        if usage != self.usage:
            self.usage = usage
        before, counters = self._counters, self._counted(running, tasks, now)
        still = before is not None and before.same(counters)
        if before is not None and not (still and self._stood_still and now > self._counted_at):
            said = self.signals.processes if self.signals else NOTHING_SAID
            if path is None and self._processes.joined:
                before = before.without_totals()
            self.signals = signals(before, counters, now - self._counted_at, self._files.cores, said)
        self._counters, self._counted_at, self._stood_still = counters, now, still

    def _counted(self, running: Sequence[HostProcess], tasks: Mapping[int, Tasks], now: MonotonicTime) -> Counters:
        looked_at = {process.pid: tasks[process.pid] for process in running if process.pid in tasks}
        counted = self._counters or Counters()
        before = counted.tasks
        used = {process.pid: process.cpu_seconds for process in running if process.pid in looked_at}
        still = frozenset(
            [
                pid
                for pid, each in looked_at.items()
                if before.get(pid) is each and counted.cpu_seconds.get(pid) == used[pid]
            ]
        )
        asleep = (
            still | counted.frozen | {pid for pid, each in looked_at.items() if any(t.blocked for t in each.values())}
        )
        programs = self._programs
        return Counters(
            self.usage,
            looked_at,
            used,
            self._network.rate if self._network else None,
            None if programs.ports is None else bool(programs.ports),
            programs.names,
            {process.pid: process.parent for process in running if process.parent in programs.launchers},
            still,
            frozenset(
                [
                    each.pid
                    for each in running
                    if each.pid in looked_at and each.pid in asleep and self._files.freezer.frozen(each.cgroup, now)
                ]
            ),
        )

    def _used(self, running: Sequence[HostProcess], path: str | None, now: MonotonicTime) -> HostUsage:
        counted = self._processes.usage(running) if path is None else self._cgroup(path, now)
        usage = self._carried.of(counted, path)
        total, ports = self._network.total if self._network else usage.network_bytes, self._programs.ports
        if not total and not ports:
            return usage
        return replace(usage, network_bytes=total, ports=tuple(sorted(ports or ())[:_PORTS]))

    def _cgroup(self, path: str, now: MonotonicTime) -> HostUsage:
        files = self._files
        if now - self._limits_at >= LIMIT_SECONDS:
            self._limits, self._limits_at = cgroup.limits(path, files.cgroupfs, files.hierarchy, files.cores), now
        if now - self._resident_at >= SLOW_SECONDS:
            self._resident, self._resident_at = cgroup.resident_bytes(path, files.cgroupfs, files.hierarchy), now
        return replace(cgroup.usage(path, files.cgroupfs, files.hierarchy, self._limits), resident_bytes=self._resident)

    def _look_at_programs(
        self, running: Sequence[HostProcess], now: MonotonicTime, listeners: network.Listeners
    ) -> None:
        before, asked = self._programs, tuple([process.pid for process in running[:_NEAR]])
        if asked == before.processes and now - before.looked_at < before.seconds:
            return
        procfs = self._files.procfs
        mine, nodes = (network.namespace(procfs, each) for each in (running[0].pid, 1))
        own = None not in {mine, nodes} and mine != nodes
        near = network.related_pids(procfs, running[:_NEAR])
        programs = {each: network.command_line(procfs, each) for each in near}
        ports = listeners.ports(near, own_namespace=own)
        found = (
            None if ports is None else network.for_clients(ports, programs.values()),
            tuple(programs.values()),
            frozenset(each for each, program in programs.items() if network.is_launcher(program)),
        )
        same = asked == before.processes and found == (before.ports, before.names, before.launchers)
        seconds = min(2 * before.seconds, PROGRAMS_LONGEST) if same else PROGRAMS_SECONDS
        self._programs = _Programs(now, seconds, asked, *found)
        self._network = self._network or _Network(now, {}) if own else None

    def _look_at_network(self, pid: int, now: MonotonicTime) -> None:
        """Through one of its processes: in a namespace of its own what goes over it is the owner's."""
        before = self._network
        if before is not None and (not before.total or now - before.looked_at >= NETWORK_SECONDS):
            total = network.traffic(self._files.procfs, pid)
            moved = sum(total.values()) - sum(before.total.values())
            known = bool(before.total) and moved >= 0
            rate = BytesPerSecond(moved / (now - before.looked_at)) if known else None
            self._network = _Network(now, total, rate)
