"""The host side of every owner, pass after pass: its totals, and what it did since the pass before."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership
from exporter.host import cgroup
from exporter.host.cgroup import Hierarchy, Limits
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.text import natural, read_text
from exporter.host.threads import ThreadReader
from exporter.node.signals import Counters, signals

SLOW_SECONDS = 5.0
"""Memory is read this often."""
LIMIT_SECONDS = 30.0
"""And limits this often."""

Usages = Mapping[Owner, HostUsage]
Signals = Mapping[Owner, HostSignals]


@dataclass(slots=True)
class _Kept:
    """What is carried from pass to pass of one owner."""

    counters: Counters | None = None
    limits: Limits = field(default_factory=Limits)
    limits_at: float = float("-inf")
    resident: int | None = None
    resident_at: float = float("-inf")
    processes: dict[tuple[int, float], tuple[float, int | None]] = field(
        default_factory=dict[tuple[int, float], tuple[float, int | None]]
    )
    """CPU seconds and bytes read of each process (pid and start time), where the owner has no cgroup of its own."""
    cpu_seconds: float = 0.0
    read_bytes: int | None = None


@dataclass(slots=True)
class HostReader:
    """Reads cgroups, PSI and threads below the given roots. `cores` are the node's."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    cores: int = os.cpu_count() or 1
    _owners: dict[Owner, _Kept] = field(default_factory=dict[Owner, _Kept])
    _threads: ThreadReader | None = None
    _layout: Hierarchy | None = None
    _last: float | None = None
    _told: frozenset[str] = frozenset()

    def read(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: float
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """Totals of every owner, and signals of those that were there in the pass before. `now` is monotonic."""
        pids = _pids(ownership, hosts)
        seconds = 0.0 if self._last is None else now - self._last
        self._last = now
        tasks = self._thread_reader().read([pid for each in pids.values() for pid in each], now)
        usages: dict[Owner, HostUsage] = {}
        found: dict[Owner, HostSignals] = {}
        kept: dict[Owner, _Kept] = {}
        for owner, own in pids.items():
            state = kept[owner] = self._owners.get(owner) or _Kept()
            usages[owner] = self._usage(state, ownership.cgroups.get(owner), [hosts[pid] for pid in own], now)
            counters = Counters(usages[owner], {pid: tasks[pid] for pid in own if pid in tasks})
            if state.counters is not None:
                found[owner] = signals(state.counters, counters, seconds, self.cores)
            state.counters = counters
        self._owners = kept
        self._told |= _told(found.values())
        return usages, found

    def tells(self) -> frozenset[str]:
        """Names of the `HostSignals` this host could tell of some owner so far; by its looks before there was any."""
        return self._told or self._looks()

    def _thread_reader(self) -> ThreadReader:
        if self._threads is None:
            self._threads = ThreadReader(self.procfs)
        return self._threads

    def _cgroups(self) -> Hierarchy:
        if self._layout is None:
            self._layout = cgroup.hierarchy(self.cgroupfs)
        return self._layout

    def _usage(self, kept: _Kept, path: str | None, processes: Sequence[HostProcess], now: float) -> HostUsage:
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
        current: dict[tuple[int, float], tuple[float, int | None]] = {}
        for process in processes:
            key = (process.pid, process.start_time)
            cpu, read = process.cpu_seconds, self._read_bytes(process.pid)
            cpu_before, read_before = kept.processes.get(key, (0.0, 0))
            kept.cpu_seconds += max(0.0, cpu - cpu_before)
            if read is not None:
                kept.read_bytes = (kept.read_bytes or 0) + max(0, read - (read_before or 0))
            current[key] = (cpu, read)
        kept.processes = current
        return HostUsage(
            cpu_seconds=kept.cpu_seconds,
            resident_bytes=sum(process.resident_bytes for process in processes),
            read_bytes=kept.read_bytes,
        )

    def _read_bytes(self, pid: int) -> int | None:
        for line in read_text(f"{self.procfs}/{pid}/io").splitlines():
            if line.startswith("read_bytes: "):
                return natural(line[12:].strip())
        return None

    def _looks(self) -> frozenset[str]:
        threads = frozenset({"hottest_thread", "blocked_threads"})
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


def _told(found: Collection[HostSignals]) -> frozenset[str]:
    return frozenset(
        item.name
        for item in fields(HostSignals)
        if item.name != "processes" and any(getattr(each, item.name) is not None for each in found)
    )
