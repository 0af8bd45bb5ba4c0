"""One task as /proc shows it: a thread of a GPU process or a loader worker as a whole, and what it reads and writes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from exporter.core.clock import NEVER, MonotonicTime
from exporter.core.units import Bytes, BytesPerSecond
from exporter.host.process import CLOCK_TICKS, parse_io, parse_stat
from exporter.host.text import natural, read_text

READ_INTERVAL_SECONDS = 3.0
SMOOTHING_SECONDS = 20.0
_STARTED_SMOOTHING_SECONDS, _MAX_ENDED_SECONDS = 10.0, 4.0
"""The CPU of a child counts when it ends. More than the second at once is that of a time too long ago."""


class IoRates(NamedTuple):
    """Bytes per second by system calls or past the page cache, whichever is more."""

    read: BytesPerSecond
    written: BytesPerSecond
    reading: BytesPerSecond
    writing: BytesPerSecond
    """These two since the read before, and not lately: what it does now."""


_NO_RATES = IoRates(*[BytesPerSecond(0.0)] * 4)


class ProcessIo:
    """The rates of one process or thread, by its `io` file: read now and then, and smoothed over half a minute.

    A write ends in the page cache long before the disk has it, and the wait comes after, in `fsync`: what a program did
    lately shows what it waits for now.
    """

    __slots__ = ("_path", "_rates", "_start_ticks", "_totals", "read_at")

    def __init__(self, path: str) -> None:
        self._path = path
        self._start_ticks = 0
        self._totals: Sequence[Bytes | None] = ()
        """Read and written, by calls and past the page cache, at the last read."""
        self._rates: IoRates | None = None
        self.read_at: MonotonicTime = NEVER

    def rates(self, start_ticks: int, now: MonotonicTime) -> IoRates | None:
        """Return the rates of the process that started then; None at first, and if the kernel refuses."""
        same, seconds = start_ticks == self._start_ticks, now - self.read_at
        if not same or seconds >= READ_INTERVAL_SECONDS:
            totals = parse_io(read_text(self._path), "rchar", "wchar", "read_bytes", "write_bytes")
            moved = [
                max(0, after - before)
                for before, after in zip(self._totals, totals, strict=False)
                if before is not None and after is not None
            ]
            known = same and len(moved) == len(totals)
            self._rates = _smooth_rates(self._rates or _NO_RATES, moved, seconds) if known else None
            self._totals, self._start_ticks, self.read_at = totals, start_ticks, now
        return self._rates


def _smooth_rates(rates: IoRates, moved: Sequence[int], seconds: float) -> IoRates:
    """Return the rates after `moved` bytes: read and written, by calls and past the page cache."""
    fades = math.exp(-seconds / SMOOTHING_SECONDS)
    ratio = (1.0 - fades) / seconds
    read, written = max(moved[0], moved[2]), max(moved[1], moved[3])
    return IoRates(
        BytesPerSecond(rates.read * fades + read * ratio),
        BytesPerSecond(rates.written * fades + written * ratio),
        BytesPerSecond(read / seconds),
        BytesPerSecond(written / seconds),
    )


class SchedStat(NamedTuple):
    """/proc/PID/schedstat: nanoseconds on a CPU, nanoseconds runnable without one, and timeslices run."""

    cpu_ns: int
    wait_ns: int
    timeslices: int


def parse_schedstat(text: str) -> SchedStat | None:
    numbers = [natural(word) for word in text.split()[:3]]
    known = [number for number in numbers if number is not None]
    return SchedStat(*known) if len(known) == len(SchedStat._fields) else None


_ANY_READ = "wait_woken"
"""Wait for a socket, or just as well for a key of a terminal."""
RECEIVING = frozenset(
    {
        _ANY_READ,
        "sk_wait_data",
        "tcp_recvmsg",
        "tcp_recvmsg_locked",
        "inet_recvmsg",
        "inet6_recvmsg",
        "__skb_wait_for_more_packets",
    }
)
"""A blocking receive from a TCP or UDP socket. `accept`, and a wait for any of several files (`poll`), are others."""


_FOR_MEMORY = frozenset(
    {
        "__do_page_fault",
        "__do_sys_brk",
        "__do_sys_mremap",
        "__mem_cgroup_handle_over_high",
        "__vm_munmap",
        "__x64_sys_brk",
        "__x64_sys_mremap",
        "do_madvise",
        "do_mprotect_pkey",
        "do_page_fault",
        "do_user_addr_fault",
        "dup_mmap",
        "lock_mm_and_find_vma",
        "mem_cgroup_handle_over_high",
        "vm_mmap_pgoff",
        "vm_munmap",
    }
)
"""D state of threads that take memory from the kernel, and give it back, in one another's way."""
_IN_DRIVER = ("os_acquire_", "uvm_", "nvidia_", "nv_", "_nv")
"""Begins of the names of functions of NVIDIA's driver: its locks are such waits too."""


_IN_FILE_SYSTEM = frozenset({"request_wait_answer"})
"""Sleep of who reads, opens or lists a file of a FUSE mount (object stores, sshfs) or of virtiofs, until its server
answers. It is no D state, for a signal may end it."""
_FOR_REQUESTS = frozenset({"io_cqring_wait", "read_events"})
"""Sleep until one of the requests is done that were handed to the kernel before: io_uring, and asynchronous IO."""


class Sleep(Enum):
    """The kind of wait that a task sleeps in."""

    HIDDEN = "what it sleeps in is not shown to this exporter"
    RECEIVE = "a blocking receive from the network"
    FILE = "a file system"
    REQUESTS = "requests to files or sockets: what it moves tells whether to files"
    OTHER = "anything else, or nothing: it runs"


def is_for_storage(folder: str) -> bool:
    """Return whether a task in D state waits for storage, as it does unless the kernel shows another wait."""
    channel = read_text(f"{folder}/wchan").partition(".")[0]
    return channel not in _FOR_MEMORY and not channel.startswith(_IN_DRIVER)


def receives(wait_channel: str) -> bool:
    return wait_channel.partition(".")[0] in RECEIVING


def _read_file(folder: str) -> str | None:
    """Return the file that a task sleeps in a read of, as in its `fd` folder; None if that is not shown."""
    words = read_text(f"{folder}/syscall").split()
    try:
        return os.readlink(f"{folder}/fd/{int(words[1], 16)}")  # noqa: PTH115 - hundreds of them
    except (IndexError, ValueError, OSError):
        return None


class TaskWait:
    """The wait of one task, read now and then: short waits are of no interest."""

    __slots__ = ("_found", "_path", "_queue", "read_at", "socket")

    def __init__(self, path: str) -> None:
        """`path` is the folder of the task."""
        self._path = path
        self.socket = 0
        """Inode of the socket of the last receive; 0: not known."""
        self._queue: SchedStat | None = None
        self._found: Sleep | None = None
        self.read_at: MonotonicTime = NEVER

    def sleeps_in(
        self, queue: SchedStat | None, now: MonotonicTime, *, runs: bool = False, has_terminal: bool = False
    ) -> Sleep:
        """Return the wait. A task that had no CPU since the last read, by its `queue`, sleeps where it slept.

        Of one that runs only the first read counts: whether it would be shown what it sleeps in.
        """
        found = self._found
        if found is None or (not runs and now - self.read_at >= READ_INTERVAL_SECONDS):
            if found is None or queue is None or not queue.timeslices or queue != self._queue:
                found = self._found = self._read_wait(has_terminal=has_terminal)
            if not runs:
                self._queue, self.read_at = queue, now
        return Sleep.OTHER if runs and found is not Sleep.HIDDEN else found

    def _read_wait(self, *, has_terminal: bool) -> Sleep:
        channel = read_text(f"{self._path}/wchan")
        name = channel.partition(".")[0]
        if name in _IN_FILE_SYSTEM:
            return Sleep.FILE
        if name in _FOR_REQUESTS:
            return Sleep.REQUESTS
        if receives(channel):
            file = _read_file(self._path)
            self.socket = natural(file[8:-1]) or 0 if file and file.startswith("socket:[") else 0
            # A terminal is read in the same way; if the file is not shown, it may be one.
            if self.socket or channel != _ANY_READ or (file is None and not has_terminal):
                return Sleep.RECEIVE
        # Who may not read `io` may not see this either, and gets the answer of a task that runs.
        return Sleep.HIDDEN if name in {"", "0"} and not read_text(f"{self._path}/io") else Sleep.OTHER


_RUNNING = "R"
_BLOCKED = frozenset("DI")
"""The second is how Lustre's clients wait: as in D state, but they do not count as load."""
_STOPPED = frozenset("Tt")
_MIN_WRITES_PER_SECOND = 100e3
"""Bytes per second of a process, from which its threads are searched for the writer."""
_MIN_MOVED_PER_SECOND = 100e3
"""Bytes per second to and from files, from which the requests it sleeps for are classified as these."""


class Task(NamedTuple):
    """One read. `run_delay` is the time it was ready to run and had no CPU."""

    start_ticks: int
    cpu_seconds: float
    blocked: float
    """Fraction of the reads in which it waited for storage."""
    run_delay: float | None = None
    minor_faults: int = 0
    receiving: bool | None = None
    io: IoRates | None = None
    """These two of main threads and children only; None where they are not read, or not reported. `io` is the
    whole process's."""
    stopped: bool = False
    """True if stopped by a signal or a debugger."""
    ready: SchedStat | None = None
    """Statistics of a task that has a CPU or waits for one. The same at two reads: it waited all the time between them.
    The kernel adds that to `run_delay` only once it has a CPU."""
    own_io: IoRates | None = None
    """Rates of a main thread itself, where its process writes much."""
    system_seconds: float = 0.0
    """Part of `cpu_seconds`, in the kernel."""
    socket: int = 0
    """Inode of the socket that it receives from; 0: none, or not known."""
    started_cpu: float = 0.0
    """CPUs lately of processes that it started and that ended; of main threads and children only."""


class TaskReader:
    """Reads one task, cycle after cycle."""

    __slots__ = ("_ended", "_folder", "_io", "_main", "_own_io", "_seen", "_started", "_wait", "_watched", "place")

    def __init__(self, procfs: str, place: str, process: str = "") -> None:
        """`place` is below procfs; `process` is the pid of a main thread or a child, which is read in more detail."""
        self.place = place
        self._folder = f"{procfs}/{place}"
        self._io = ProcessIo(f"{procfs}/{process}/io") if process else None
        self._own_io = ProcessIo(f"{self._folder}/io")
        self._wait = TaskWait(self._folder) if process else None
        """Reads of another thread from its second read on: of hundreds, only few are read again."""
        self._main = bool(process) and place != process
        self._seen = False
        self._ended: tuple[float, MonotonicTime] | None = None
        """CPU of its children that have ended, in seconds, and the time of that."""
        self._started, self._watched = 0.0, 0.0
        """CPU that they used lately, and the time they were watched, in seconds."""

    def read(self, now: MonotonicTime) -> Task | None:
        """Return the task, or None if it has ended."""
        stat = parse_stat(read_text(f"{self._folder}/stat"))
        if stat is None:
            return None
        queue = parse_schedstat(read_text(f"{self._folder}/schedstat"))
        runs = stat.state == _RUNNING
        if self._wait is None and self._seen:
            self._wait = TaskWait(self._folder)
        self._seen = True
        sleep, own_io = Sleep.HIDDEN, None
        if self._wait:
            sleep = self._wait.sleeps_in(queue, now, runs=runs, has_terminal=stat.has_terminal)
        io = self._io.rates(stat.start_ticks, now) if self._io else None
        if self._main and io and max(io.written, io.writing) >= _MIN_WRITES_PER_SECOND:
            own_io = self._own_io.rates(stat.start_ticks, now)
        moves = io is not None and io.reading + io.writing >= _MIN_MOVED_PER_SECOND
        for_file = sleep is Sleep.FILE or (sleep is Sleep.REQUESTS and moves)
        return Task(
            start_ticks=stat.start_ticks,
            cpu_seconds=stat.cpu_ticks / CLOCK_TICKS,
            blocked=for_file or (stat.state in _BLOCKED and is_for_storage(self._folder)),
            run_delay=queue.wait_ns / 1e9 if queue else None,
            minor_faults=stat.minor_faults,
            receiving=None if sleep is Sleep.HIDDEN or not self._io else sleep is Sleep.RECEIVE,
            io=io,
            stopped=stat.state in _STOPPED,
            ready=queue if queue and queue.timeslices and runs else None,
            own_io=own_io,
            system_seconds=stat.system_ticks / CLOCK_TICKS,
            socket=self._wait.socket if self._wait and sleep is Sleep.RECEIVE else 0,
            started_cpu=self._started_cpu(stat.ended_ticks / CLOCK_TICKS, now) if self._io else 0.0,
        )

    def _started_cpu(self, ended: float, now: MonotonicTime) -> float:
        before, self._ended = self._ended or (ended, now), (ended, now)
        seconds = now - before[1]
        fades = math.exp(-seconds / _STARTED_SMOOTHING_SECONDS)
        self._started = self._started * fades + min(max(0.0, ended - before[0]), _MAX_ENDED_SECONDS)
        self._watched = self._watched * fades + seconds
        return self._started / max(self._watched, 1.0)

    def is_blocked(self) -> bool:
        """Return whether the task is in D state for storage now."""
        stat = parse_stat(read_text(f"{self._folder}/stat"))
        return stat is not None and stat.state in _BLOCKED and is_for_storage(self._folder)
