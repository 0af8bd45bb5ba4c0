"""The host side of every owner, pass after pass: its totals, and what it did since the pass before."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path

from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import MonotonicTime
from exporter.host import network
from exporter.host import process as host_process
from exporter.host.cgroup import Hierarchy
from exporter.host.model import HostProcess, HostSignals, HostUsage
from exporter.host.presence import exists
from exporter.host.process import Turns
from exporter.host.text import KeptFiles, read_text, room
from exporter.host.threads import ThreadReader
from exporter.ledger.states import HOST_SIGNALS
from exporter.sampling.usage.owner_host import HostFiles, OwnerHost

PASS_PROCESSES = 64
"""Processes of owners looked at in one pass; of more, owners have their turn one after the other."""
_MAX_FILES, _FILES_PART = 1024, 3 / 8
"""Descriptors kept, of tasks and of what processes read; and of this program's descriptors."""
_MAX_AWAY = 64
"""Owners kept that hold nothing any more."""
_NOT_READ: Mapping[int, HostProcess] = {}


@dataclass(slots=True)
class HostReader:
    """Reads cgroups, PSI and threads below the given roots. `cores` are the node's."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    cores: int = os.cpu_count() or 1
    _files: HostFiles = field(init=False)
    _threads: ThreadReader = field(init=False)
    _owners: dict[Owner, OwnerHost] = field(default_factory=dict[Owner, OwnerHost])
    _away: dict[Owner, OwnerHost] = field(default_factory=dict[Owner, OwnerHost])
    _turns: Turns[Owner] = field(default_factory=lambda: Turns[Owner](PASS_PROCESSES))
    _signals_seen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        kept = KeptFiles(self.procfs, room(_MAX_FILES, _FILES_PART))
        self._files = HostFiles(self.procfs, self.cgroupfs, self.cores, kept)
        self._threads = ThreadReader(kept)

    def read(
        self, ownership: Ownership, hosts: Mapping[int, HostProcess], now: MonotonicTime
    ) -> tuple[Mapping[Owner, HostUsage], Mapping[Owner, HostSignals]]:
        """Totals of every owner, and signals of those that have been looked at twice. `now` is monotonic.

        Where it is not an owner's turn, both are of its last one.
        """
        pids = _pids(ownership, hosts)
        self._meet(pids.keys())
        turn = self._turns.next({owner: len(own) or 1 for owner, own in pids.items()})
        all_read = len(hosts) <= host_process.PASS_PROCESSES
        tasks = self._threads.read(pids, now, turn, hosts if all_read else _NOT_READ)
        listeners = network.Listeners(self.procfs)
        for owner in turn:
            running = [hosts[pid] for pid in pids[owner]]
            self._owners[owner].look(running, tasks, ownership.cgroups.get(owner), now, listeners)
        usages = {owner: each.usage for owner, each in self._owners.items()}
        found = {owner: each.signals for owner, each in self._owners.items() if each.signals is not None}
        if not self._signals_seen.issuperset(HOST_SIGNALS):
            self._signals_seen |= _seen(_SIGNALS - self._signals_seen, found.values())
        return usages, found

    def _meet(self, owners: Collection[Owner]) -> None:
        """Keep those that hold nothing any more for a while: their totals go on where they come back."""
        for owner in self._owners.keys() - owners:
            each = self._away[owner] = self._owners[owner]
            each.leave()
        for owner in tuple(islice(self._away, max(0, len(self._away) - _MAX_AWAY))):
            del self._away[owner]
        self._owners = {
            owner: self._owners.get(owner) or self._away.pop(owner, None) or OwnerHost(self._files) for owner in owners
        }

    def available_signals(self) -> frozenset[str]:
        """Names of the `HostSignals` this host could report of some owner so far; by its looks before there was any."""
        return self._signals_seen or self._looks()

    @property
    def skipped_tasks(self) -> int:
        """Threads worth reading that had no place in the budgets, summed over passes."""
        return self._threads.skipped

    def _looks(self) -> frozenset[str]:
        shown = exists(self.procfs / "1" / "task")  # not where hidepid hides what others run
        threads = frozenset({"hottest_thread", "blocked_threads"} if shown else ())
        if shown and read_text(f"{self.procfs}/1/io"):  # what a process sleeps in is shown to whom its IO is
            threads |= {"receiving_threads"}
        has_pressure = self._files.hierarchy is not Hierarchy.V1 and exists(self.procfs / "pressure" / "io")
        return threads | ({"cpu_pressure", "io_pressure"} if has_pressure else frozenset[str]())


def _pids(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, Sequence[int]]:
    """Every owner that holds or runs something, with those of its GPU processes that /proc shows."""
    found: dict[Owner, list[int]] = {owner: [] for holders in ownership.holders.values() for owner in holders}
    for pid, owner in ownership.processes.items():
        own = found.setdefault(owner, [])
        if pid in hosts:
            own.append(pid)
    return found


_SIGNALS = frozenset(item.name for item in fields(HostSignals) if item.name in HOST_SIGNALS)


def _seen(names: Collection[str], found: Collection[HostSignals]) -> frozenset[str]:
    """Those of these signals that somebody has."""
    return frozenset([name for name in names for each in found if getattr(each, name) is not None])
