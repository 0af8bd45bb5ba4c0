"""The host side of every owner, cycle after cycle: its totals, and what it did since its last turn."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import NEVER, MonotonicTime
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host import network
from exporter.host.cgroup import Cgroups, Hierarchy, Limits
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.process import RoundRobin
from exporter.host.text import exists, read_text
from exporter.host.threads import ThreadReader
from exporter.ledger.states import HOST_SIGNALS
from exporter.sampling.usage.signals import Counters, Tasks, signals
from exporter.sampling.usage.totals import CarriedUsage, ProcessTotals

MEMORY_SECONDS = 5.0
"""Memory is read this often."""
LIMIT_SECONDS = 30.0
"""Seconds between two reads of limits."""
PROGRAMS_SECONDS, MAX_PROGRAMS_SECONDS = 30.0, 120.0
"""Seconds between two reads of its programs and their ports: at first, and at most, where nothing changes."""
NETWORK_SECONDS = 3.0
"""Seconds between two reads of the bytes over a network namespace."""
_ASKED_PROCESSES = 4
"""Processes of an owner that are asked whether they listen."""
_MAX_RANKS = 32
"""Processes of an owner whose sockets are searched for each other's."""
_MAX_PORTS = 8
"""Shown of one owner."""


class _Network(NamedTuple):
    """The last read of the bytes over an owner's own network namespace."""

    namespace: int
    read_at: MonotonicTime
    total: Mapping[str, Bytes] = MappingProxyType({})
    rate: BytesPerSecond | None = None
    """Both ways, since the read before."""


class _Programs(NamedTuple):
    """The owner's programs and the ports they listen on, read now and then."""

    read_at: MonotonicTime = NEVER
    seconds: float = 0.0
    """Time until the next read."""
    processes: tuple[int, ...] = ()
    """Pids that were asked."""
    ports: frozenset[int] | None = None
    """None: not shown."""
    names: tuple[str, ...] = ()
    launchers: frozenset[int] = frozenset()
    """Parents of its GPU processes that start ranks."""
    connected: Mapping[int, int] = MappingProxyType({})
    """GPU processes that connections link; not read where a launcher started them."""


class OwnerHost:
    """The host side of one owner."""

    def __init__(self, procfs: Path, cgroups: Cgroups, cores: int) -> None:
        self._procfs = procfs
        self._cgroups = cgroups
        self._cores = cores
        self.usage = HostUsage()
        self.signals: HostSignals | None = None
        """Signals of the time between its last two turns."""
        self._counters: Counters | None = None
        self._counted_at: MonotonicTime = NEVER
        self._limits = Limits()
        self._limits_at = self._resident_at = NEVER
        self._resident: Bytes | None = None
        self._processes = ProcessTotals(procfs)
        """Totals where the owner has no cgroup of its own."""
        self._programs = _Programs()
        self._carried, self._traffic = CarriedUsage(), CarriedUsage()
        self._network: _Network | None = None
        self._peers = network.Peers(procfs)
        self._spread = False

    def leave(self) -> None:
        """Forget all but the totals, which go on if the owner comes back."""
        self._processes.usage(())
        self._counters, self.signals = None, None
        self._programs, self._network = _Programs(), None

    def update(
        self,
        running: Sequence[HostProcess],
        tasks: Mapping[int, Tasks],
        path: str | None,
        now: MonotonicTime,
        listeners: network.Listeners,
        *,
        spread: bool,
    ) -> None:
        """Take what it has used, and what it did since its last turn. `path` is its own cgroup's.

        `spread`: it has GPUs on other nodes.
        """
        self._spread = spread
        if running:
            self._update_programs(running, now, listeners)
            self._update_network(running[0].pid, now)
        self.usage = self._read_usage(running, path, now)
        before, counters = self._counters, self._counted(running, tasks, now)
        if before is not None:
            if path is None and self._processes.joined:
                before = before.without_totals()
            self.signals = signals(before, counters, now - self._counted_at, self._cores)
        self._counters, self._counted_at = counters, now

    def _counted(self, running: Sequence[HostProcess], tasks: Mapping[int, Tasks], now: MonotonicTime) -> Counters:
        watched = [process for process in running if process.pid in tasks]
        before, programs = self._counters or Counters(), self._programs
        sockets = {
            task.socket: process.pid for process in watched for task in tasks[process.pid].values() if task.socket
        }
        return Counters(
            self.usage,
            {process.pid: tasks[process.pid] for process in watched},
            {process.pid: process.cpu_seconds for process in watched},
            self._network.rate if self._network else None,
            None if programs.ports is None else bool(programs.ports),
            programs.names,
            {process.pid: process.parent for process in running if process.parent in programs.launchers},
            programs.connected,
            frozenset(
                process.pid
                for process in watched
                if _is_asleep(process, tasks[process.pid], before) and self._cgroups.frozen(process.cgroup, now)
            ),
            self._peers.receives_from_peers(sockets, [each.pid for each in running], spread=self._spread)
            if sockets
            else frozenset(),
        )

    def _read_usage(self, running: Sequence[HostProcess], path: str | None, now: MonotonicTime) -> HostUsage:
        counted = self._processes.usage(running) if path is None else self._cgroup_usage(path, now)
        usage, own, ports = self._carried.of(counted, path), self._network, self._programs.ports
        if not ports and not (own and own.total):
            return usage
        moved = self._traffic.of(HostUsage(network_bytes=own.total), own.namespace) if own else HostUsage()
        return replace(usage, network_bytes=moved.network_bytes, ports=tuple(sorted(ports or ())[:_MAX_PORTS]))

    def _cgroup_usage(self, path: str, now: MonotonicTime) -> HostUsage:
        if now - self._limits_at >= LIMIT_SECONDS:
            self._limits, self._limits_at = self._cgroups.limits(path), now
        if now - self._resident_at >= MEMORY_SECONDS:
            self._resident, self._resident_at = self._cgroups.resident_bytes(path), now
        return replace(self._cgroups.usage(path, self._limits), resident_bytes=self._resident)

    def _update_programs(
        self, running: Sequence[HostProcess], now: MonotonicTime, listeners: network.Listeners
    ) -> None:
        before, asked = self._programs, tuple([process.pid for process in running[:_ASKED_PROCESSES]])
        if asked == before.processes and now - before.read_at < before.seconds:
            return
        procfs = self._procfs
        mine, nodes = (network.namespace(procfs, each) for each in (running[0].pid, 1))
        own = mine is not None and nodes is not None and mine != nodes
        near = network.related_pids(procfs, running[:_ASKED_PROCESSES])
        programs = {each: network.command_line(procfs, each) for each in near}
        ports = listeners.ports(near, own_namespace=own)
        launchers = frozenset(each for each, program in programs.items() if network.is_launcher(program))
        ranks = () if launchers else [process.pid for process in running]
        none: Mapping[int, int] = {}
        found = (
            None if ports is None else network.for_clients(ports, programs.values()),
            tuple(programs.values()),
            launchers,
            self._peers.groups(ranks) if len(ranks) <= _MAX_RANKS else none,
        )
        same = asked == before.processes and found == before[3:]
        seconds = min(2 * before.seconds, MAX_PROGRAMS_SECONDS) if same else PROGRAMS_SECONDS
        self._programs = _Programs(now, seconds, asked, *found)
        if not own or self._network is None or self._network.namespace != mine:
            self._network = _Network(mine, now) if own and mine is not None else None

    def _update_network(self, pid: int, now: MonotonicTime) -> None:
        """Read the traffic of the owner's own network namespace through one of its processes."""
        before = self._network
        if before is not None and (not before.total or now - before.read_at >= NETWORK_SECONDS):
            total = network.traffic(self._procfs, pid)
            moved = sum(total.values()) - sum(before.total.values())
            known = bool(before.total) and moved >= 0
            rate = BytesPerSecond(moved / (now - before.read_at)) if known else None
            self._network = before._replace(read_at=now, total=total, rate=rate)


def _is_asleep(process: HostProcess, tasks: Tasks, before: Counters) -> bool:
    """Return whether it may be in a paused container: it is blocked or was paused, or did nothing since `before`."""
    pid = process.pid
    still = before.tasks.get(pid) == tasks and before.cpu_seconds.get(pid) == process.cpu_seconds
    return still or pid in before.frozen or any(each.blocked for each in tasks.values())


CYCLE_PROCESSES = 64
"""Processes of owners read in one cycle; of more, owners have their turn one after the other."""
_MAX_AWAY = 64
"""Owners kept that have nothing allocated any more."""


class HostReader:
    """Reads cgroups, PSI and threads below the given roots. `cores` are the node's."""

    def __init__(
        self, procfs: Path = Path("/proc"), cgroupfs: Path = Path("/sys/fs/cgroup"), cores: int | None = None
    ) -> None:
        self._procfs = procfs
        self._cores = cores or os.cpu_count() or 1
        self._cgroups = Cgroups(cgroupfs, self._cores)
        self.threads = ThreadReader(procfs)
        self._owners: dict[Owner, OwnerHost] = {}
        self._away: dict[Owner, OwnerHost] = {}
        self._turns = RoundRobin[Owner](CYCLE_PROCESSES)
        self._signals_seen: frozenset[str] = frozenset()

    def read(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: MonotonicTime
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """Totals of every owner, and signals of those that have been read twice. `now` is monotonic.

        Where it is not an owner's turn, both are of its last one.
        """
        pids = _owner_pids(ownership, hosts)
        self._update_owners(pids.keys())
        turn = self._turns.next({owner: len(own) or 1 for owner, own in pids.items()})
        tasks = self.threads.read(pids, now, turn)
        listeners = network.Listeners(self._procfs)
        for owner in turn:
            running = [hosts[pid] for pid in pids[owner]]
            info, path = ownership.info.get(owner), ownership.cgroups.get(owner)
            self._owners[owner].update(running, tasks, path, now, listeners, spread=info is not None and info.spread)
        usages = {owner: each.usage for owner, each in self._owners.items()}
        found = {owner: each.signals for owner, each in self._owners.items() if each.signals is not None}
        if not self._signals_seen.issuperset(HOST_SIGNALS):
            wanted = _SIGNALS - self._signals_seen
            self._signals_seen |= {
                name for each in found.values() for name in wanted if getattr(each, name) is not None
            }
        return usages, found

    def _update_owners(self, owners: Collection[Owner]) -> None:
        """Keep those that have nothing allocated any more for a while: their totals go on where they come back."""
        for owner in self._owners.keys() - owners:
            each = self._away[owner] = self._owners[owner]
            each.leave()
        for owner in tuple(islice(self._away, max(0, len(self._away) - _MAX_AWAY))):
            del self._away[owner]
        self._owners = {
            owner: self._owners.get(owner)
            or self._away.pop(owner, None)
            or OwnerHost(self._procfs, self._cgroups, self._cores)
            for owner in owners
        }

    def available_signals(self) -> frozenset[str]:
        """Names of the `HostSignals` this host could report of some owner so far; before any, by the host's files."""
        return self._signals_seen or self._expected_signals()

    @property
    def skipped_tasks(self) -> int:
        """Threads worth reading that had no place in the budgets, summed over cycles."""
        return self.threads.skipped

    def _expected_signals(self) -> frozenset[str]:
        shown = exists(self._procfs / "1" / "task")  # not where hidepid hides what others run
        threads = frozenset({"hottest_thread", "blocked_threads"} if shown else ())
        if shown and read_text(f"{self._procfs}/1/io"):  # what a process sleeps in is shown to whom its IO is
            threads |= {"receiving_threads"}
        has_pressure = self._cgroups.hierarchy is not Hierarchy.V1 and exists(self._procfs / "pressure" / "io")
        return threads | ({"cpu_pressure", "io_pressure"} if has_pressure else frozenset[str]())


def _owner_pids(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, Sequence[int]]:
    """Every owner that is allocated or runs something, with those of its GPU processes that /proc shows."""
    found: dict[Owner, list[int]] = {owner: [] for holders in ownership.holders.values() for owner in holders}
    for pid, owner in ownership.processes.items():
        own = found.setdefault(owner, [])
        if pid in hosts:
            own.append(pid)
    return found


_SIGNALS = frozenset(item.name for item in fields(HostSignals) if item.name in HOST_SIGNALS)
