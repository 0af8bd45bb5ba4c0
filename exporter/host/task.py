"""One task: a thread of a GPU process, or a loader worker of one as a whole, as /proc shows it pass after pass."""

from __future__ import annotations

from typing import NamedTuple

from exporter.core.clock import MonotonicTime
from exporter.host.kept_files import KeptFile, KeptFiles
from exporter.host.model import HostProcess
from exporter.host.process import CLOCK_TICKS, parse_stat
from exporter.host.process_io import LOOK_SECONDS, IoRates, ProcessIo
from exporter.host.task_wait import RunQueue, Sleep, TaskWait, is_for_storage, parse_run_queue

_RUNNING = "R"
_BLOCKED = frozenset("DI")
"""The second is how Lustre's clients wait: as in D state, but they do not count as load."""
_STOPPED = frozenset("Tt")
_WRITES = 100e3
"""Bytes per second of a process, from which it is looked which of its threads writes them."""
_MOVES = 100e3
"""Bytes per second to and from files, from which the requests it sleeps for are taken for these."""


class Task(NamedTuple):
    """One look. `run_delay` is the time it was ready to run and had no CPU."""

    start_ticks: int
    cpu_seconds: float
    blocked: bool
    run_delay: float | None = None
    minor_faults: int = 0
    receiving: bool | None = None
    io: IoRates | None = None
    """These two of main threads and children only; None where they are not looked at, or not reported. `io` is the
    whole process's."""
    stopped: bool = False
    """By a signal or a debugger."""
    ready: RunQueue | None = None
    """Of a task that has a CPU or waits for one. The same at two looks: it waited all the time between them, which the
    kernel adds to `run_delay` only once it has a CPU."""
    own_io: IoRates | None = None
    """Of a main thread itself, where its process writes much."""


class _Closer(NamedTuple):
    """What is looked at now and then, of main threads and children alone."""

    io: ProcessIo
    own_io: ProcessIo


class TaskReader:
    """Reads one task. While the kernel reports the same of it, it is the same object again."""

    __slots__ = ("_closer", "_folder", "_main", "_process", "_queue", "_seen", "_stat", "_task", "_wait", "place")

    def __init__(self, files: KeptFiles, place: str, process: str = "") -> None:
        """`place` is below procfs; `process` is the pid of a main thread or a child, which is looked at closer."""
        self.place = place
        self._folder = f"{files.root}/{place}"
        self._stat = KeptFile(files, place, "stat")
        self._queue = KeptFile(files, place, "schedstat")
        self._seen: tuple[bytes, bytes] = (b"", b"")
        """What both reported when `_task` was made."""
        self._task: Task | None = None
        self._closer = (
            _Closer(ProcessIo(KeptFile(files, process, "io")), ProcessIo(KeptFile(files, place, "io")))
            if process
            else None
        )
        self._wait = TaskWait(self._folder) if process else None
        """Of another thread from its second look on: of hundreds, only few are looked at again."""
        self._main = bool(process) and place != process
        self._process: HostProcess | None = None

    def read(self, now: MonotonicTime, process: HostProcess | None = None) -> Task | None:
        """None where it is gone.

        `process` is what /proc shows of its process in this pass. A main thread whose process shows the same, and that
        had no CPU since, has done nothing.
        """
        queue = self._queue.read()
        stat_seen, queue_seen = self._seen
        still = self._main and process is not None and process is self._process and queue and queue is queue_seen
        self._process = process
        stat = stat_seen if still else self._stat.read()
        if stat is not stat_seen or queue is not queue_seen or self._due(now):
            self._seen = (stat, queue)
            task = self._look(stat, queue, now)
            if task != self._task:
                self._task = task
        return self._task

    def _due(self, now: MonotonicTime) -> bool:
        if self._closer and now - self._closer.io.looked_at >= LOOK_SECONDS:
            return True
        return self._wait is None or now - self._wait.looked_at >= LOOK_SECONDS

    def _look(self, stat_content: bytes, queue_content: bytes, now: MonotonicTime) -> Task | None:
        stat = parse_stat(stat_content.decode("utf-8", "replace"))
        if stat is None:
            return None
        queue = parse_run_queue(queue_content.decode("utf-8", "replace"))
        runs = stat.state == _RUNNING
        sleep, io, own_io = Sleep.HIDDEN, None, None
        if self._wait is None and self._task is not None:
            self._wait = TaskWait(self._folder)
        if self._wait:
            sleep = self._wait.sleeps_in(queue, now, runs=runs, has_terminal=stat.has_terminal)
        if self._closer:
            io = self._closer.io.rates(stat.start_ticks, now)
            if self._main and io and max(io.written, io.writing) >= _WRITES:
                own_io = self._closer.own_io.rates(stat.start_ticks, now)
        return Task(
            start_ticks=stat.start_ticks,
            cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
            blocked=_waits_for_file(sleep, io) or (stat.state in _BLOCKED and is_for_storage(self._folder)),
            run_delay=queue.delay / 1e9 if queue else None,
            minor_faults=stat.minor_faults,
            receiving=None if sleep is Sleep.HIDDEN or not self._closer else sleep is Sleep.RECEIVE,
            io=io,
            stopped=stat.state in _STOPPED,
            ready=queue if queue and queue.turns and runs else None,
            own_io=own_io,
        )


def _waits_for_file(sleep: Sleep, io: IoRates | None) -> bool:
    """Of a task that is not in D state."""
    moves = io is not None and io.reading + io.writing >= _MOVES
    return sleep is Sleep.FILE or (sleep is Sleep.REQUESTS and moves)
