"""The threads and direct children of GPU processes: which of them is full, which sit in D state or in a receive.

A training process has hundreds of threads and reading them all each pass would cost more than all else here. So a
process is scanned whole now and then, and between scans only the few that then stood out are read: of each workload
its hottest and its main threads, whatever else runs on the node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from exporter.clock import NEVER, MonotonicTime
from exporter.host.kept_files import KeptFiles
from exporter.host.process import CLOCK_TICKS, Stat, parse_stat
from exporter.host.process_io import LOOK_SECONDS, IoRates, ProcessIo
from exporter.host.task_wait import receives
from exporter.host.text import natural, read_text

SCAN_SECONDS = 10.0
SECOND_SCAN_SECONDS = 2.0
"""After the first scan of a process, which cannot tell what is hot now from what once was."""
SCAN_TASKS = 512
"""Threads and children of one process looked at in a scan."""
PASS_TASKS = 512
"""Tasks scanned in one pass, over all processes; the others wait for the next pass. One process is always scanned."""
WORKLOAD_TASKS = 24
"""Tasks of one workload read in one pass between scans."""
NODE_TASKS = 384
"""Tasks read in one pass between scans, over all workloads. What that leaves out has its turn after the next scan."""
_STOPPED = frozenset("Tt")
STAND_OUT = 3
"""Hot tasks, and as many blocked ones, kept of each process."""

Workloads = Mapping[Any, Collection[int]]
"""Pids of the GPU processes of each workload."""


class RunQueue(NamedTuple):
    """/proc/PID/schedstat: nanoseconds on a CPU, and ready without one, and how often it got one."""

    used: int
    delay: int
    turns: int


class Task(NamedTuple):
    """One thread, or one child process as a whole. `run_delay` is the time it was ready to run and had no CPU."""

    start_ticks: int
    cpu_seconds: float
    blocked: bool
    run_delay: float | None = None
    minor_faults: int = 0
    receiving: bool | None = None
    io: IoRates | None = None
    """These two of main threads and children only; None where they are not looked at, or not reported."""
    stopped: bool = False
    """By a signal or a debugger."""
    ready: RunQueue | None = None
    """Of a task that has a CPU or waits for one. The same at two looks: it waited all the time between them, which the
    kernel adds to `run_delay` only once it has a CPU."""


def parse_run_queue(text: str) -> RunQueue | None:
    numbers = [natural(word) for word in text.split()[:3]]
    known = [number for number in numbers if number is not None]
    return RunQueue(*known) if len(known) == len(RunQueue._fields) else None


def places(procfs: Path, pid: int) -> Sequence[str]:
    """Where the threads of a process and its direct children (loader workers) stand below procfs; main thread first."""
    try:
        threads = [entry.name for entry in Path(f"{procfs}/{pid}/task").iterdir()]
    except OSError:
        return ()
    children = read_text(f"{procfs}/{pid}/task/{pid}/children").split()
    others = [f"{pid}/task/{thread}" for thread in threads if thread != str(pid)]
    return (f"{pid}/task/{pid}", *children, *others)[:SCAN_TASKS]


class _Made(NamedTuple):
    """A task and what it was made of."""

    stat: Stat
    queue: RunQueue | None
    task: Task

    def of(self, stat: Stat, queue: RunQueue | None, receiving: bool | None, io: IoRates | None) -> bool:  # noqa: FBT001
        """Whether it was made of these very objects."""
        same = self.stat is stat and self.queue is queue
        return same and self.task.receiving is receiving and self.task.io is io


def _process(place: str) -> int:
    return int(place.partition("/")[0])


@dataclass(slots=True)
class _Watched:
    """`before` holds the CPU seconds of all its tasks at the last scan; `stood_out` those worth reading between."""

    before: Mapping[str, float]
    heat: float
    """CPU of its hottest task between the last two scans."""
    again: MonotonicTime
    """When it is to be scanned again."""
    stood_out: Sequence[str]
    """The hottest, the main thread, the blocked, and the other hot ones."""


@dataclass(slots=True)
class ThreadReader:
    """Reads the tasks of GPU processes pass after pass within a bounded number of files."""

    procfs: Path = Path("/proc")
    skipped: int = 0
    """Tasks worth reading that had no place in the budgets, summed over passes."""
    _watched: dict[int, _Watched] = field(default_factory=dict[int, _Watched])
    _io: ProcessIo = field(default_factory=ProcessIo)
    _files: KeptFiles = field(init=False)
    _receiving: dict[str, tuple[MonotonicTime, bool]] = field(default_factory=dict[str, tuple[MonotonicTime, bool]])
    """By place: when it was last looked what the task sleeps in, and whether it was a receive."""
    _turn: int = 0
    """Which workload is the first to be read, where not all can be."""
    _turned: MonotonicTime = NEVER
    _made: dict[str, _Made] = field(default_factory=dict[str, _Made])
    """By place, the tasks of the last pass: one of which the kernel reports the same is the same object again."""
    _made_before: Mapping[str, _Made] = field(default_factory=dict[str, _Made])
    _told: Mapping[int, Mapping[str, Task]] = field(default_factory=dict[int, Mapping[str, Task]])
    """Tasks by process, as of the last pass."""
    _root: str = ""

    def __post_init__(self) -> None:
        self._root = str(self.procfs)
        self._io = ProcessIo(str(self.procfs))
        self._files = KeptFiles(self.procfs)

    def read(
        self, workloads: Workloads, now: MonotonicTime, turn: Collection[Any] | None = None
    ) -> Mapping[int, Mapping[str, Task]]:
        """Tasks by place, by process; a process that is gone, or has to wait for its turn, is left out.

        `turn` are the workloads whose turn it is; without it, that of all.
        """
        self._files.close_unread()
        self._made_before, self._made = self._made, {}
        everyone = {pid for each in workloads.values() for pid in each}
        self._watched = {pid: kept for pid, kept in self._watched.items() if pid in everyone}
        workloads = {name: each for name, each in workloads.items() if turn is None or name in turn}
        pids = {pid for each in workloads.values() for pid in each}
        found: dict[int, Mapping[str, Task]] = {}
        left = PASS_TASKS
        for pid in self._due(pids, now):
            if left > 0:
                found[pid] = self._scan(pid, now)
                left -= len(found[pid])
        for pid, where in self._chosen(workloads, now).items():
            if pid not in found:
                found[pid] = self._tasks(pid, where, now)
        places_ = {place for tasks in found.values() for place in tasks}
        children = [place for place in places_ if "/" not in place]  # threads are of a process in `everyone`
        self._io.forget(everyone.union(map(_process, children), self._children()))
        if len(self._receiving) > 2 * NODE_TASKS:
            self._receiving = {place: kept for place, kept in self._receiving.items() if place in places_}
        self._told = {pid: self._same(pid, tasks) for pid, tasks in found.items() if tasks}
        return self._told

    def _same(self, pid: int, tasks: Mapping[str, Task]) -> Mapping[str, Task]:
        """The very tasks of the pass before where the kernel reports the same of each."""
        before = self._told.get(pid)
        return before if before is not None and before == tasks else tasks

    def _children(self) -> Iterator[int]:
        """Of the processes watched, those that stood out."""
        places_ = [place for kept in self._watched.values() for place in kept.stood_out if "/" not in place]
        return map(_process, places_)

    def _chosen(self, workloads: Workloads, now: MonotonicTime) -> Mapping[int, Sequence[str]]:
        """What to read of each process: in each workload the hottest of each process first, then the main threads."""
        found: dict[int, list[str]] = {}
        left = NODE_TASKS
        names = self._in_turn(list(workloads), now)
        for name in names:
            wanted = self._wanted(workloads[name])
            taken = wanted[: min(WORKLOAD_TASKS, left)]
            self.skipped += len(wanted) - len(taken)
            left -= len(taken)
            for pid, place in taken:
                found.setdefault(pid, []).append(place)
        return found

    def _in_turn(self, names: list[Any], now: MonotonicTime) -> list[Any]:
        """Stays for some passes, for what a task used is known from two of them."""
        if now - self._turned >= SCAN_SECONDS and names:
            self._turn = (self._turn + max(1, NODE_TASKS // WORKLOAD_TASKS)) % len(names)
            self._turned = now
        return [*names[self._turn :], *names[: self._turn]]

    def _wanted(self, pids: Collection[int]) -> list[tuple[int, str]]:
        watched = self._watched
        known = sorted([pid for pid in pids if pid in watched], key=lambda pid: -watched[pid].heat)
        rounds = zip_longest(*[[(pid, place) for place in watched[pid].stood_out] for pid in known])
        return [each for turn in rounds for each in turn if each is not None]

    def _due(self, pids: Collection[int], now: MonotonicTime) -> Sequence[int]:
        """Those never scanned first, then those whose turn is longest past."""
        again = {pid: self._watched[pid].again if pid in self._watched else NEVER for pid in pids}
        return sorted([pid for pid in pids if now >= again[pid]], key=lambda pid: (again[pid], pid))

    def _scan(self, pid: int, now: MonotonicTime) -> Mapping[str, Task]:
        tasks = self._tasks(pid, places(self.procfs, pid), now)
        known = self._watched.get(pid)
        before: Mapping[str, float] = known.before if known else {}
        used = {place: task.cpu_seconds - before.get(place, 0.0) for place, task in tasks.items()}
        hot = sorted(used, key=lambda place: -used[place])[:STAND_OUT]
        blocked = [place for place, task in tasks.items() if task.blocked][:STAND_OUT]
        stood_out = tuple(dict.fromkeys((*hot[:1], f"{pid}/task/{pid}", *blocked, *hot[1:])))
        totals = {place: task.cpu_seconds for place, task in tasks.items()}
        again = now + (SCAN_SECONDS if known else SECOND_SCAN_SECONDS)
        self._watched[pid] = _Watched(totals, max(used.values(), default=0.0), again, stood_out)
        return tasks

    def _tasks(self, pid: int, where: Sequence[str], now: MonotonicTime) -> Mapping[str, Task]:
        found: dict[str, Task] = {}
        for place in where:
            task = self._task(pid, place, now)
            if task is not None:
                found[place] = task
        return found

    def _task(self, pid: int, place: str, now: MonotonicTime) -> Task | None:
        stat = self._files.parsed(f"{self._root}/{place}/stat", parse_stat)
        if stat is None:
            return None
        queue = self._files.parsed(f"{self._root}/{place}/schedstat", parse_run_queue)
        receiving, io = False if stat.state == "R" else None, None
        main = place == f"{pid}/task/{pid}"
        if main or "/" not in place:
            receiving = self._receives(place, now) if receiving is None else receiving
            io = self._io.rates(pid if main else int(place), stat.start_ticks, now)
        made = self._made_before.get(place)
        if made is None or not made.of(stat, queue, receiving, io):
            made = _Made(stat, queue, _task_of(stat, queue, receiving, io))
        self._made[place] = made
        return made.task

    def _receives(self, place: str, now: MonotonicTime) -> bool:
        """Looked at as often as what it reads and writes: who waits for a moment only is of no interest."""
        looked_at, found = self._receiving.get(place, (NEVER, False))
        if now - looked_at >= LOOK_SECONDS:
            found = self._files.parsed(f"{self._root}/{place}/wchan", receives)
            self._receiving[place] = (now, found)
        return found


def _task_of(stat: Stat, queue: RunQueue | None, receiving: bool | None, io: IoRates | None) -> Task:  # noqa: FBT001
    return Task(
        start_ticks=stat.start_ticks,
        cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
        blocked=stat.state == "D",
        run_delay=queue.delay / 1e9 if queue else None,
        minor_faults=stat.minor_faults,
        receiving=receiving,
        io=io,
        stopped=stat.state in _STOPPED,
        ready=queue if queue and queue.turns and stat.state == "R" else None,
    )
