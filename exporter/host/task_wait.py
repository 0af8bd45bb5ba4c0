"""What a task waits for: a CPU (/proc/PID/schedstat), or a function of the kernel (/proc/PID/wchan)."""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

from exporter.core.clock import NEVER, MonotonicTime
from exporter.host.process_io import LOOK_SECONDS
from exporter.host.text import natural, read_text


class RunQueue(NamedTuple):
    """Nanoseconds on a CPU, and ready without one, and how often it got one."""

    used: int
    delay: int
    turns: int


def parse_run_queue(text: str) -> RunQueue | None:
    numbers = [natural(word) for word in text.split()[:3]]
    known = [number for number in numbers if number is not None]
    return RunQueue(*known) if len(known) == len(RunQueue._fields) else None


_ANY_READ = "wait_woken"
"""From a socket, and just as well from a terminal: who waits for a key to be pressed."""
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
    """What a task sleeps in."""

    HIDDEN = "what it sleeps in is not shown to this exporter"
    RECEIVE = "a blocking receive from the network"
    FILE = "a file system"
    REQUESTS = "requests to files or sockets: what it moves tells whether to files"
    OTHER = "anything else, or nothing: it runs"


def is_for_storage(folder: str) -> bool:
    """Of a task in D state: true where what it waits in is not shown, or not known to be something else."""
    channel = read_text(f"{folder}/wchan").partition(".")[0]
    return channel not in _FOR_MEMORY and not channel.startswith(_IN_DRIVER)


def receives(wait_channel: str) -> bool:
    return wait_channel.partition(".")[0] in RECEIVING


def _reads_socket(folder: str, *, has_terminal: bool) -> bool:
    """Of a task that sleeps in a read of some kind. Where it is not shown what it reads, a terminal may be it."""
    words = read_text(f"{folder}/syscall").split()
    try:
        return os.readlink(f"{folder}/fd/{int(words[1], 16)}").startswith("socket:")  # noqa: PTH115 - hundreds of them
    except (IndexError, ValueError, OSError):
        return not has_terminal


class TaskWait:
    """What one task sleeps in, looked at now and then: who waits for a moment only is of no interest."""

    __slots__ = ("_found", "_path", "_queue", "looked_at")

    def __init__(self, path: str) -> None:
        """`path` is the folder of the task."""
        self._path = path
        self._queue: RunQueue | None = None
        self._found: Sleep | None = None
        self.looked_at: MonotonicTime = NEVER

    def sleeps_in(
        self, queue: RunQueue | None, now: MonotonicTime, *, runs: bool = False, has_terminal: bool = False
    ) -> Sleep:
        """Of a task that had no CPU since the last look, by its `queue`: it sleeps where it slept.

        Of one that runs only the first look counts: whether it would be shown what it sleeps in.
        """
        found = self._found
        if found is None or (not runs and now - self.looked_at >= LOOK_SECONDS):
            if found is None or queue is None or not queue.turns or queue != self._queue:
                found = self._found = self._look(has_terminal=has_terminal)
            if not runs:
                self._queue, self.looked_at = queue, now
        return Sleep.OTHER if runs and found is not Sleep.HIDDEN else found

    def _look(self, *, has_terminal: bool) -> Sleep:
        channel = read_text(f"{self._path}/wchan")
        name = channel.partition(".")[0]
        if name in _IN_FILE_SYSTEM:
            return Sleep.FILE
        if name in _FOR_REQUESTS:
            return Sleep.REQUESTS
        if receives(channel) and (channel != _ANY_READ or _reads_socket(self._path, has_terminal=has_terminal)):
            return Sleep.RECEIVE
        # Who may not read `io` may not see this either, and is told what is told of a task that runs.
        return Sleep.HIDDEN if name in {"", "0"} and not read_text(f"{self._path}/io") else Sleep.OTHER
