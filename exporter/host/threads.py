"""The threads and direct children of GPU processes: which of them is full, which sit in D state.

A training process has hundreds of threads and reading them all each pass would cost more than all else here. So a
process is scanned whole now and then, and between scans only its main thread and the few that then stood out are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from exporter.host.process import CLOCK_TICKS, parse_stat
from exporter.host.text import natural, read_text

SCAN_SECONDS = 10.0
SCAN_TASKS = 512
"""Threads and children of one process looked at in a scan."""
PASS_TASKS = 512
"""Tasks scanned in one pass, over all processes; the others wait for the next pass. One process is always scanned."""
WATCH_TASKS = 64
"""Tasks read in one pass between scans, over all processes."""
STAND_OUT = 3
"""Hot tasks, and as many blocked ones, kept of each process where that many can be read."""


class Task(NamedTuple):
    """One thread, or one child process as a whole. `run_delay` is the time it was ready to run and had no CPU."""

    start_ticks: int
    cpu_seconds: float
    blocked: bool
    run_delay: float | None = None


def parse_run_delay(text: str) -> float | None:
    """Seconds waited on a run queue: the second number of /proc/PID/schedstat."""
    words = text.split()
    delay = natural(words[1]) if len(words) > 1 else None
    return None if delay is None else delay / 1e9


def read_task(procfs: Path, place: str) -> Task | None:
    """The task at `place` below procfs (`12`, or `12/task/13`), None where it has gone."""
    stat = parse_stat(read_text(f"{procfs}/{place}/stat"))
    if stat is None:
        return None
    return Task(
        start_ticks=stat.start_ticks,
        cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
        blocked=stat.state == "D",
        run_delay=parse_run_delay(read_text(f"{procfs}/{place}/schedstat")),
    )


def places(procfs: Path, pid: int) -> Sequence[str]:
    """Where the threads of a process and its direct children (loader workers) stand below procfs; main thread first."""
    try:
        threads = [entry.name for entry in Path(f"{procfs}/{pid}/task").iterdir()]
    except OSError:
        return ()
    children = read_text(f"{procfs}/{pid}/task/{pid}/children").split()
    others = [f"{pid}/task/{thread}" for thread in threads if thread != str(pid)]
    return (f"{pid}/task/{pid}", *children, *others)[:SCAN_TASKS]


@dataclass(slots=True)
class _Watched:
    """`before` holds the CPU seconds of all its tasks at the last scan, `stood_out` those worth reading between."""

    scanned: float
    before: Mapping[str, float]
    stood_out: Sequence[str]


@dataclass(slots=True)
class ThreadReader:
    """Reads the tasks of GPU processes pass after pass within a bounded number of files."""

    procfs: Path = Path("/proc")
    _watched: dict[int, _Watched] = field(default_factory=dict[int, _Watched])

    def read(self, pids: Collection[int], now: float) -> Mapping[int, Mapping[str, Task]]:
        """Tasks by place, by process; a process that is gone, or has to wait for its first scan, is left out."""
        self._watched = {pid: kept for pid, kept in self._watched.items() if pid in pids}
        each = max(1, WATCH_TASKS // max(1, len(pids)))
        due = self._due(pids, now)
        found: dict[int, Mapping[str, Task]] = {}
        left = PASS_TASKS
        for pid in due:
            if left > 0:
                found[pid] = self._scan(pid, now)
                left -= len(found[pid])
        for pid, kept in self._watched.items():
            if pid not in found:
                found[pid] = self._tasks(kept.stood_out[:each])
        return {pid: tasks for pid, tasks in found.items() if tasks}

    def _due(self, pids: Collection[int], now: float) -> Sequence[int]:
        """Those never scanned first, then those whose scan is oldest."""
        last = {pid: self._watched[pid].scanned if pid in self._watched else float("-inf") for pid in pids}
        return sorted((pid for pid in pids if now - last[pid] >= SCAN_SECONDS), key=lambda pid: (last[pid], pid))

    def _scan(self, pid: int, now: float) -> Mapping[str, Task]:
        tasks = self._tasks(places(self.procfs, pid))
        known = self._watched.get(pid)
        before: Mapping[str, float] = known.before if known else {}
        used = {place: task.cpu_seconds - before.get(place, 0.0) for place, task in tasks.items()}
        hot = sorted(used, key=lambda place: -used[place])[:STAND_OUT]
        blocked = [place for place, task in tasks.items() if task.blocked][:STAND_OUT]
        main = f"{pid}/task/{pid}"
        stood_out = tuple(dict.fromkeys((main, *hot, *blocked)))
        self._watched[pid] = _Watched(now, {place: task.cpu_seconds for place, task in tasks.items()}, stood_out)
        return tasks

    def _tasks(self, where: Sequence[str]) -> Mapping[str, Task]:
        read = ((place, read_task(self.procfs, place)) for place in where)
        return {place: task for place, task in read if task is not None}
