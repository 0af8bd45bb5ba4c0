"""The threads and loader workers of GPU processes: which of them is full, which sit in D state or in a receive.

A training process has hundreds of threads and reading them all each cycle would cost more than all else here. So a
process is scanned whole now and then, and between scans only the few that then stood out are read: of each workload
its hottest and its main threads, whatever else runs on the node.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from exporter.core.clock import NEVER, MonotonicTime
from exporter.host.task import Task, TaskReader
from exporter.host.text import natural, read_text

_WHOLE_SCANS = 3
"""Scans of which one asks all threads for children. The others ask those that had some, and the main thread."""


class Workers:
    """Finds the loader workers of one process, scan after scan."""

    __slots__ = ("_parents", "_scans")

    def __init__(self) -> None:
        self._scans = 0
        self._parents: Collection[str] = ()
        """Threads that had children when all were asked."""

    def of(self, procfs: str, threads: Sequence[str], most: int, apart: Container[int | None] = ()) -> Sequence[str]:
        """Their pids, as /proc names them. `threads` stand below procfs, the main thread first.

        Not those `apart`, with what they have started: GPU processes speak for themselves.
        """
        whole = self._scans < 2 or not self._scans % _WHOLE_SCANS  # noqa: PLR2004 - workers start soon after a process
        self._scans += 1
        asked = threads if whole else [place for place in threads if place is threads[0] or place in self._parents]
        found = {place: _child_pids(procfs, place, apart) for place in asked}
        if whole:
            self._parents = frozenset(place for place, children in found.items() if children)
        own = [child for children in found.values() for child in children][:most]
        return [*own, *[each for child in own for each in _child_pids(procfs, f"{child}/task/{child}", apart)]]


def _child_pids(procfs: str, thread: str, apart: Container[int | None]) -> Sequence[str]:
    return [child for child in read_text(f"{procfs}/{thread}/children").split() if natural(child) not in apart]


SCAN_SECONDS = 10.0
SECOND_SCAN_SECONDS = 2.0
"""Seconds until the second scan of a process. The first cannot distinguish threads hot now from those hot once."""
SCAN_TASKS = 512
"""Threads and workers of one process read in a scan."""
CYCLE_TASKS = 512
"""Tasks scanned in one cycle, over all processes; the others wait for the next cycle. One process is always scanned."""
WORKLOAD_TASKS = 24
"""Tasks of one workload read in one cycle between scans. `HostReader` bounds the workloads of a cycle."""
STAND_OUT = 3
"""Hot tasks, and as many blocked ones, kept of each process."""

Workloads = Mapping[Any, Collection[int]]
"""Pids of the GPU processes of each workload."""


def task_paths(procfs: str, pid: int, workers: Workers, apart: Container[int | None] = ()) -> Sequence[str]:
    """Return where the threads of a process and its loader workers stand below procfs; main thread first.

    Not those workers that are `apart`, with what they have started.
    """
    try:
        threads = os.listdir(f"{procfs}/{pid}/task")  # noqa: PTH208 - thousands a minute
    except OSError:
        return ()
    others = [f"{pid}/task/{thread}" for thread in threads if thread != str(pid)]
    own = (f"{pid}/task/{pid}", *others)[:SCAN_TASKS]
    room = max(SCAN_TASKS - len(own), SCAN_TASKS // 2)
    return (own[0], *workers.of(procfs, own, room, apart)[:room], *own[1:])[:SCAN_TASKS]


@dataclass(slots=True)
class _Watched:
    """One process, with those of its tasks that are worth reading between scans."""

    stood_out: Sequence[TaskReader] = ()
    """The hottest, the main thread, the blocked, and the other hot ones."""
    used: Mapping[str, float] = field(default_factory=dict[str, float])
    """CPU seconds of all its tasks at the last scan."""
    heat: float = 0.0
    """CPU of its hottest task between the last two scans."""
    again: MonotonicTime = NEVER
    """Time of its next scan."""
    workers: Workers = field(default_factory=Workers)


class ThreadReader:
    """Reads the tasks of GPU processes cycle after cycle within a bounded number of files."""

    def __init__(self, procfs: Path) -> None:
        self.skipped = 0
        """Tasks worth reading that had no place in the budgets, summed over cycles."""
        self._procfs = str(procfs)
        self._watched: dict[int, _Watched] = {}
        """Every process of the workloads."""
        self._blocked_reads: dict[int, list[bool]] = {}
        """Key: pid; value: True for each read inside the cycle that found it in D state."""

    def read(
        self, workloads: Workloads, now: MonotonicTime, turn: Collection[Any] | None = None
    ) -> Mapping[int, Mapping[str, Task]]:
        """Return the tasks by place, by process, without processes that have ended or wait for their turn.

        `turn` are the workloads whose turn it is; without it, that of all.
        """
        pids = {pid for each in workloads.values() for pid in each}
        self._watched = {pid: self._watched.get(pid) or _Watched() for pid in pids}
        self._blocked_reads = {pid: reads for pid, reads in self._blocked_reads.items() if pid in pids}
        mine = workloads if turn is None else {name: each for name, each in workloads.items() if name in turn}
        found = self._scan_due(mine, now)
        for pid, readers in self._select_tasks(mine).items():
            if pid not in found:
                found[pid] = _read_tasks(readers, now)
        return {pid: self._with_blocked_reads(pid, tasks) for pid, tasks in found.items() if tasks}

    def reread(self, pids: Iterable[int]) -> None:
        """Read whether a task of these processes that stood out is in D state."""
        for pid in pids:
            if watched := self._watched.get(pid):
                found = any(reader.is_blocked() for reader in watched.stood_out)
                self._blocked_reads.setdefault(pid, []).append(found)

    def _with_blocked_reads(self, pid: int, tasks: Mapping[str, Task]) -> Mapping[str, Task]:
        """Replace what one read in the cycle found by what the reads inside it found."""
        reads = self._blocked_reads.pop(pid, None)
        if reads is None:
            return tasks
        return {place: task._replace(blocked=sum(reads) / len(reads)) for place, task in tasks.items()}

    def _scan_due(self, workloads: Workloads, now: MonotonicTime) -> dict[int, Mapping[str, Task]]:
        """Tasks of the processes whose scan is due: of those never scanned first, then of who waits longest."""
        watched = self._watched
        due = [pid for each in workloads.values() for pid in each if now >= watched[pid].again]
        found: dict[int, Mapping[str, Task]] = {}
        left = CYCLE_TASKS
        for pid in sorted(set(due), key=lambda pid: (watched[pid].again, pid)):
            if left > 0:
                found[pid] = self._scan_process(pid, now)
                left -= len(found[pid])
        return found

    def _scan_process(self, pid: int, now: MonotonicTime) -> Mapping[str, Task]:
        watched = self._watched[pid]
        known = {reader.place: reader for reader in watched.stood_out}
        where = task_paths(self._procfs, pid, watched.workers, self._watched.keys())
        main = f"{pid}/task/{pid}"
        own = {main: str(pid)} | {place: place for place in where if "/" not in place}
        """Tasks whose `io` counts the reads of the process: the main thread and loader workers."""
        readers = {place: known.get(place) or TaskReader(self._procfs, place, own.get(place, "")) for place in where}
        tasks = _read_tasks(readers.values(), now)
        used = {place: task.cpu_seconds - watched.used.get(place, 0.0) for place, task in tasks.items()}
        hot = sorted(used, key=lambda place: -used[place])[:STAND_OUT]
        blocked = [place for place, task in tasks.items() if task.blocked][:STAND_OUT]
        stood_out = dict.fromkeys((*hot[:1], main, *blocked, *hot[1:]))
        watched.stood_out = tuple(readers[place] for place in stood_out if place in readers)
        watched.heat = max(used.values(), default=0.0)
        watched.again = now + (SECOND_SCAN_SECONDS if watched.again == NEVER else SCAN_SECONDS)
        watched.used = {place: task.cpu_seconds for place, task in tasks.items()}
        return tasks

    def _select_tasks(self, workloads: Workloads) -> Mapping[int, Sequence[TaskReader]]:
        """Return the tasks to read of each process, and add those over budget to `skipped`."""
        found: dict[int, list[TaskReader]] = {}
        for pids in workloads.values():
            wanted = self._by_priority(pids)
            self.skipped += max(0, len(wanted) - WORKLOAD_TASKS)
            for pid, reader in wanted[:WORKLOAD_TASKS]:
                found.setdefault(pid, []).append(reader)
        return found

    def _by_priority(self, pids: Collection[int]) -> list[tuple[int, TaskReader]]:
        """Return the tasks that stood out: the hottest of each process first, then the main threads."""
        watched = self._watched
        by_heat = sorted(pids, key=lambda pid: -watched[pid].heat)
        rounds = zip_longest(*[[(pid, reader) for reader in watched[pid].stood_out] for pid in by_heat])
        return [each for turn in rounds for each in turn if each is not None]


def _read_tasks(readers: Iterable[TaskReader], now: MonotonicTime) -> Mapping[str, Task]:
    every = [(reader.place, reader.read(now)) for reader in readers]
    return {place: task for place, task in every if task is not None}
