"""Doing something in the network namespace of another process, in a thread that ends with it.

Needs CAP_SYS_ADMIN (to enter) and, for programs of other users, CAP_SYS_PTRACE (to open the namespace).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000


def shared(procfs: Path, pid: int) -> bool:
    """Whether the process has this program's own network namespace. Raises OSError where that is not shown."""
    return os.stat(f"{procfs}/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - as a link


def inside(procfs: Path, pid: int, work: Callable[[], T], deadline: float) -> T:
    """What `work` returns, or raises, in the namespace of `pid`. Raises OSError where it may not be entered.

    A thread that belongs to another namespace must do nothing else: this one is made for `work` alone. Where it
    overstays, it is left to its own deadline.
    """
    if shared(procfs, pid):
        return work()
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _enter(f"{procfs}/{pid}/ns/net")
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, name="network-namespace", daemon=True)
    thread.start()
    thread.join(deadline)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError("no answer in time")
    return done[0]


def _enter(path: str) -> None:
    """`os.setns`, which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
