"""What a task sleeps in: a receive from the network, or a terminal at which nobody types."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from exporter.host.task import Sleep, TaskReader, TaskWait, receives
from exporter.host.text import read_text


def test_who_waits_for_a_key_to_be_pressed_waits_for_no_network() -> None:
    ours, terminal = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.DEVNULL)
    try:
        folder = f"/proc/{reader.pid}"
        end = time.monotonic() + 10
        while not receives(read_text(f"{folder}/wchan")) and time.monotonic() < end:
            time.sleep(0.01)
        assert TaskWait(folder).sleeps_in(None, 0.0, has_terminal=True) is Sleep.OTHER
    finally:
        reader.kill()
        reader.wait()
        os.close(ours)
        os.close(terminal)


@pytest.mark.parametrize(
    ("syscall", "fd", "terminal", "counts"),
    [
        ("45 0x7 0x7f00 0x1", "socket:[4711]", True, True),
        ("0 0x7 0x7f00 0x1", "/dev/pts/3", True, False),
        ("0 0x7 0x7f00 0x1", "anon_inode:inotify", False, False),
        ("0 0x8 0x7f00 0x1", "socket:[4711]", True, False),
        ("running", "socket:[4711]", False, True),
        ("", "socket:[4711]", True, False),
        ("", "socket:[4711]", False, True),
    ],
)
def test_a_read_counts_as_a_receive_unless_it_may_be_of_a_terminal(
    tmp_path: Path, syscall: str, fd: str, *, terminal: bool, counts: bool
) -> None:
    (tmp_path / "wchan").write_text("wait_woken")
    (tmp_path / "syscall").write_text(syscall)
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd/7").symlink_to(fd)

    found = TaskWait(str(tmp_path)).sleeps_in(None, 0.0, has_terminal=terminal)

    assert found is (Sleep.RECEIVE if counts else Sleep.OTHER)


@pytest.mark.parametrize(
    ("channel", "blocked"),
    [
        ("folio_wait_bit_common", True),
        ("rpc_wait_bit_killable", True),
        ("0", True),
        ("", True),
        ("vm_mmap_pgoff", False),
        ("__vm_munmap", False),
        ("lock_mm_and_find_vma.isra.0", False),
        ("os_acquire_rwlock_write", False),
        ("uvm_api_alloc", False),
    ],
)
def test_threads_in_one_anothers_way_for_memory_or_in_the_driver_wait_for_no_storage(
    channel: str, tmp_path: Path, *, blocked: bool
) -> None:
    """All are in D state."""
    folder = tmp_path / "7/task/7"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("7 (python) D 1 7 7 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 77 0 0\n")
    (folder / "wchan").write_text(channel)
    task = TaskReader(str(tmp_path), "7/task/7", "7").read(0.0)

    assert task is not None
    assert task.blocked is blocked


@pytest.mark.parametrize(
    ("state", "channel", "moved", "blocked"),
    [
        ("S", "request_wait_answer", 0, True),  # of a FUSE mount
        ("S", "request_wait_answer.isra.0", 0, True),
        ("S", "io_cqring_wait", 6_000_000, True),
        ("S", "read_events", 6_000_000, True),
        ("S", "io_cqring_wait", 9_000, False),  # a server of connections waits there too
        ("S", "futex_do_wait", 6_000_000, False),
        ("R", "0", 6_000_000, False),
        ("I", "cl_sync_io_wait", 0, True),  # of Lustre
        ("I", "os_acquire_rwlock_write", 0, False),
    ],
)
def test_who_waits_for_a_file_system_is_not_always_in_d_state(
    state: str, channel: str, moved: int, tmp_path: Path, *, blocked: bool
) -> None:
    folder = tmp_path / "7/task/7"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"7 (python) {state} 1 7 7 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 77 0 0\n")
    (folder / "wchan").write_text(channel)
    reader = TaskReader(str(tmp_path), "7/task/7", "7")
    for second, total in ((0.0, 0), (3.0, moved)):
        for place in (tmp_path / "7", folder):
            (place / "io").write_text(f"rchar: 0\nwchar: 0\nread_bytes: {total}\nwrite_bytes: 0\n")
        task = reader.read(second)

    assert task is not None
    assert task.blocked is blocked
    assert task.receiving is False


def test_one_that_runs_does_not_tell_what_is_hidden(tmp_path: Path) -> None:
    wait = TaskWait(str(tmp_path))
    assert wait.sleeps_in(None, 0.0, runs=True) is Sleep.HIDDEN

    (tmp_path / "wchan").write_text("wait_woken")
    assert wait.sleeps_in(None, 0.0) is Sleep.RECEIVE
    assert wait.sleeps_in(None, 1.0, runs=True) is Sleep.OTHER
    assert wait.sleeps_in(None, 1.0) is Sleep.RECEIVE


def test_another_thread_than_the_main_one_waits_for_files_too(tmp_path: Path) -> None:
    """One of a pool that reads a mount of an object store. What it receives explains nothing: it may be a heartbeat."""
    folder = tmp_path / "7/task/8"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("8 (python) S 1 7 7 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 77 0 0\n")
    (folder / "wchan").write_text("request_wait_answer")
    reader = TaskReader(str(tmp_path), "7/task/8")
    looks = [reader.read(float(second)) for second in range(3)]

    assert [(task.blocked, task.receiving) for task in looks if task] == [(False, None), (True, None), (True, None)]

    (folder / "wchan").write_text("wait_woken")
    later = reader.read(4.0)

    assert later is not None
    assert (later.blocked, later.receiving) == (False, None)
