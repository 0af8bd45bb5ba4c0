"""Namespaces: of this program's cgroup, which paths are written relative to, and of the network of other programs."""

from __future__ import annotations

import ctypes
import os
import posixpath
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from exporter.host.text import exists, lines


def own_cgroup(cgroupfs: Path, mine: Path = Path("/sys/fs/cgroup")) -> str:
    """Path in the host's tree (mounted at `cgroupfs`) of the cgroup that `mine` has as its root.

    Version 2 only: there a cgroup's inode number is its id, the same in every mount and namespace. Empty where `mine`
    shows the whole tree already, or nothing shows where it is.
    """
    try:
        if not exists(mine / "cgroup.controllers") or cgroupfs.stat().st_ino == (wanted := mine.stat().st_ino):
            return ""
    except OSError:
        return ""
    for folder, names, _ in os.walk(cgroupfs):
        for name in names:
            try:
                if Path(folder, name).stat().st_ino == wanted:
                    return f"{folder}/{name}".removeprefix(str(cgroupfs))
            except OSError:  # the cgroup has gone
                continue
    return ""


def absolute(text: str, own: str) -> str:
    """The text of /proc/PID/cgroup with the path of version 2 as the host would show it."""
    if not own:
        return text
    absolute = (
        f"0::{posixpath.normpath(f'{own}/{line[3:]}')}" if line.startswith("0::") else line for line in lines(text)
    )
    return "".join(f"{line}\n" for line in absolute)


_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode number of the machine's own (PROC_PID_INIT_INO)."""


def sees_all_processes() -> bool:
    """Return whether this program is in the machine's own PID namespace: elsewhere the driver lists no process."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116 - as a link
    except OSError:
        return False


T = TypeVar("T")

_CLONE_NEWNET = 0x40000000


def shares_network_namespace(procfs: Path, pid: int) -> bool:
    """Return whether the process has this program's own network namespace. Raises OSError where that is not shown."""
    return os.stat(f"{procfs}/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - as a link


def run_in_network_namespace(procfs: Path, pid: int, work: Callable[[], T], deadline: float) -> T:
    """Return what `work` returns, or raises, in the namespace of `pid`. Raises OSError where it may not be entered.

    Needs CAP_SYS_ADMIN (to enter) and, for programs of other users, CAP_SYS_PTRACE (to open the namespace).

    A thread that belongs to another namespace must do nothing else: this one is made for `work` alone. Where it
    overstays, it is left to its own deadline.
    """
    if shares_network_namespace(procfs, pid):
        return work()
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _enter_namespace(f"{procfs}/{pid}/ns/net")
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


def _enter_namespace(path: str) -> None:
    """`os.setns`, which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
