"""The host side of every owner, pass after pass: its totals, and what it did since the pass before."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership
from exporter.clock import NEVER, MonotonicTime, UnixTime
from exporter.host import ancestors, cgroup, network
from exporter.host.cgroup import Hierarchy, Limits
from exporter.host.kept_files import KeptFiles
from exporter.host.launchers import launches
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.process_io import bytes_of
from exporter.host.threads import ThreadReader
from exporter.host.turns import Turns
from exporter.ledger.states import HOST_SIGNALS
from exporter.node.signals import NOTHING_SAID, Counters, Tasks, signals
from exporter.record import record
from exporter.units import Bytes, BytesPerSecond

SLOW_SECONDS = 5.0
"""Memory is read this often."""
LIMIT_SECONDS = 30.0
"""And limits, and who listens, this often."""
NETWORK_SECONDS = 3.0
"""And the bytes over a network namespace this often."""
PASS_PROCESSES = 64
"""Processes of owners looked at in one pass; of more, owners have their turn one after the other."""

_IO_FILES = 128
"""Descriptors of `/proc/PID/io` kept: only owners without a cgroup of their own are read this way."""
_NEAR = 4
"""Processes of an owner that are asked whether they listen."""
_PORTS = 8
"""Shown of one owner."""

Usages = Mapping[Owner, HostUsage]
Signals = Mapping[Owner, HostSignals]
_Key = tuple[int, UnixTime]
"""Pid and start time of a process."""


_Io = tuple["Bytes | None", "Bytes | None"]
"""Read from and written to storage."""


class _ProcessTotals(NamedTuple):
    cpu_seconds: float
    io: _Io


@record
class _Network:
    """The last look at the bytes over an owner's own network namespace."""

    looked_at: MonotonicTime
    total: Mapping[str, Bytes]
    rate: BytesPerSecond | None = None
    """Both ways, since the look before."""


@dataclass(slots=True)
class _Kept:
    """What is carried from pass to pass of one owner."""

    counters: Counters | None = None
    counted_at: MonotonicTime = NEVER
    signals: HostSignals | None = None
    """Of the time between its last two turns."""
    limits: Limits = field(default_factory=Limits)
    limits_at: MonotonicTime = NEVER
    resident: Bytes | None = None
    resident_at: MonotonicTime = NEVER
    processes: dict[_Key, _ProcessTotals] = field(default_factory=dict[tuple[int, UnixTime], _ProcessTotals])
    """Of each process, where the owner has no cgroup of its own."""
    cpu_seconds: float = 0.0
    read_bytes: Bytes | None = None
    written_bytes: Bytes | None = None
    network: _Network | None = None
    ports: frozenset[int] | None = None
    """None: not shown."""
    programs: tuple[str, ...] = ()
    launchers: frozenset[int] = frozenset()
    """Parents of its GPU processes that start ranks."""
    looked_at: MonotonicTime = NEVER
    """When it was last looked who listens, and how its programs are called."""


@dataclass(slots=True)
class HostReader:
    """Reads cgroups, PSI and threads below the given roots. `cores` are the node's."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    cores: int = os.cpu_count() or 1
    _owners: dict[Owner, _Kept] = field(default_factory=dict[Owner, _Kept])
    _threads: ThreadReader | None = None
    _layout: Hierarchy | None = None
    _turns: Turns[Owner] = field(default_factory=lambda: Turns[Owner](PASS_PROCESSES))
    _signals_seen: frozenset[str] = frozenset()
    _io_files: KeptFiles = field(init=False)
    _root: str = field(init=False)

    def __post_init__(self) -> None:
        self._io_files = KeptFiles(self.procfs, _IO_FILES)
        self._root = str(self.procfs)

    def read(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: MonotonicTime
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """Totals of every owner, and signals of those that have been looked at twice. `now` is monotonic.

        Where it is not an owner's turn, both are of its last one.
        """
        pids = _pids(ownership, hosts)
        turn = self._turns.next({owner: len(own) or 1 for owner, own in pids.items()})
        tasks = self._thread_reader().read(pids, now, turn)
        self._io_files.close_unread()
        listeners = network.Listeners(self.procfs)
        self._owners = {owner: self._owners.get(owner) or _Kept() for owner in pids}
        for owner in turn:
            running = [hosts[pid] for pid in pids[owner]]
            self._look(self._owners[owner], running, tasks, ownership.cgroups.get(owner), now, listeners)
        usages = {
            owner: state.counters.usage if state.counters else HostUsage() for owner, state in self._owners.items()
        }
        found = {owner: state.signals for owner, state in self._owners.items() if state.signals is not None}
        if not self._signals_seen.issuperset(HOST_SIGNALS):
            self._signals_seen |= _seen(_SIGNALS - self._signals_seen, found.values())
        return usages, found

    def _look(
        self,
        state: _Kept,
        running: Sequence[HostProcess],
        tasks: Mapping[int, Tasks],
        path: str | None,
        now: MonotonicTime,
        listeners: network.Listeners,
    ) -> None:
        """Take what one owner has used, and what it did since its last turn."""
        self._look_at_network(state, running, now, listeners)
        usage = self._usage(state, path, running, now)
        total = state.network.total if state.network else usage.network_bytes
        if total or state.ports:
            usage = replace(usage, network_bytes=total, ports=tuple(sorted(state.ports or ())[:_PORTS]))
        before = state.counters
        looked_at = {process.pid: tasks[process.pid] for process in running if process.pid in tasks}
        counters = Counters(
            usage,
            looked_at,
            state.network.rate if state.network else None,
            None if state.ports is None else bool(state.ports),
            state.programs,
            {process.pid: process.parent for process in running if process.parent in state.launchers},
            frozenset([pid for pid, each in looked_at.items() if before and before.tasks.get(pid) is each]),
        )
        if before is not None:
            said = state.signals.processes if state.signals else NOTHING_SAID
            state.signals = signals(before, counters, now - state.counted_at, self.cores, said)
        state.counters, state.counted_at = counters, now

    def available_signals(self) -> frozenset[str]:
        """Names of the `HostSignals` this host could report of some owner so far; by its looks before there was any."""
        return self._signals_seen or self._looks()

    @property
    def skipped_tasks(self) -> int:
        """Threads worth reading that had no place in the budgets, summed over passes."""
        return self._threads.skipped if self._threads else 0

    def _look_at_network(
        self, kept: _Kept, running: Sequence[HostProcess], now: MonotonicTime, listeners: network.Listeners
    ) -> None:
        """Through one of its processes: in a namespace of its own what goes over it is the owner's."""
        if not running:
            return
        pid = running[0].pid
        if now - kept.looked_at >= LIMIT_SECONDS:
            mine, nodes = (network.namespace(self.procfs, each) for each in (pid, 1))
            own = None not in {mine, nodes} and mine != nodes
            near = ancestors.near(self.procfs, running[:_NEAR])
            kept.ports = listeners.ports(near, own_namespace=own)
            programs = {each: ancestors.program(self.procfs, each) for each in near}
            kept.programs = tuple(programs.values())
            kept.launchers = frozenset(each for each, program in programs.items() if launches(program))
            kept.network = kept.network or _Network(now, {}) if own else None
            kept.looked_at = now
        before = kept.network
        if before is not None and (not before.total or now - before.looked_at >= NETWORK_SECONDS):
            total = network.traffic(self.procfs, pid)
            moved = sum(total.values()) - sum(before.total.values())
            known = bool(before.total) and moved >= 0
            rate = BytesPerSecond(moved / (now - before.looked_at)) if known else None
            kept.network = _Network(now, total, rate)

    def _thread_reader(self) -> ThreadReader:
        if self._threads is None:
            self._threads = ThreadReader(self.procfs)
        return self._threads

    def _cgroups(self) -> Hierarchy:
        if self._layout is None:
            self._layout = cgroup.hierarchy(self.cgroupfs)
        return self._layout

    def _usage(self, kept: _Kept, path: str | None, processes: Sequence[HostProcess], now: MonotonicTime) -> HostUsage:
        if path is None:
            return self._processes_usage(kept, processes)
        layout = self._cgroups()
        if now - kept.limits_at >= LIMIT_SECONDS:
            kept.limits, kept.limits_at = cgroup.limits(path, self.cgroupfs, layout, self.cores), now
        if now - kept.resident_at >= SLOW_SECONDS:
            kept.resident, kept.resident_at = cgroup.resident_bytes(path, self.cgroupfs, layout), now
        return replace(cgroup.usage(path, self.cgroupfs, layout, kept.limits), resident_bytes=kept.resident)

    def _processes_usage(self, kept: _Kept, processes: Sequence[HostProcess]) -> HostUsage:
        """The sum over its GPU processes, also those that have ended: a counter must not fall when one leaves."""
        if not processes and not kept.processes:
            return HostUsage()
        current: dict[_Key, _ProcessTotals] = {}
        for process in processes:
            key = (process.pid, process.start_time)
            before = kept.processes.get(key, _NO_TOTALS)
            io = self._io_files.parsed(f"{self._root}/{process.pid}/io", _io)
            if before.io == io and before.cpu_seconds == process.cpu_seconds:
                current[key] = before
                continue
            current[key] = _ProcessTotals(process.cpu_seconds, io)
            kept.cpu_seconds += max(0.0, process.cpu_seconds - before.cpu_seconds)
            kept.read_bytes = _grown(kept.read_bytes, before.io[0], io[0])
            kept.written_bytes = _grown(kept.written_bytes, before.io[1], io[1])
        kept.processes = current
        return HostUsage(
            cpu_seconds=kept.cpu_seconds,
            resident_bytes=Bytes(sum([process.resident_bytes for process in processes])),
            read_bytes=kept.read_bytes,
            written_bytes=kept.written_bytes,
        )

    def _looks(self) -> frozenset[str]:
        threads = frozenset({"hottest_thread", "blocked_threads", "receiving_threads"})
        has_pressure = self._cgroups() is not Hierarchy.V1 and (self.procfs / "pressure" / "io").exists()
        return threads | ({"cpu_pressure", "io_pressure", "memory_pressure"} if has_pressure else frozenset[str]())


def _pids(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, Sequence[int]]:
    """Every owner that holds or runs something, with those of its GPU processes that /proc shows."""
    found: dict[Owner, list[int]] = {owner: [] for holders in ownership.holders.values() for owner in holders}
    for pid, owner in ownership.processes.items():
        own = found.setdefault(owner, [])
        if pid in hosts:
            own.append(pid)
    return found


def _io(text: str) -> _Io:
    read, written = bytes_of(text, "read_bytes", "write_bytes")
    return read, written


_NO_TOTALS = _ProcessTotals(0.0, (Bytes(0), Bytes(0)))


def _grown(total: Bytes | None, before: Bytes | None, now: Bytes | None) -> Bytes | None:
    return total if now is None else Bytes((total or 0) + max(0, now - (before or 0)))


_SIGNALS = frozenset(item.name for item in fields(HostSignals) if item.name in HOST_SIGNALS)


def _seen(names: Collection[str], found: Collection[HostSignals]) -> frozenset[str]:
    """Those of these signals that somebody has."""
    return frozenset([name for name in names for each in found if getattr(each, name) is not None])
