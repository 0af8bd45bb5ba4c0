"""What a task sleeps in: a receive from the network, or a terminal at which nobody types."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from exporter.host.kept_files import KeptFiles
from exporter.host.task import TaskReader
from exporter.host.task_wait import TaskWait, receives
from exporter.host.text import read_text


def test_who_waits_for_a_key_to_be_pressed_waits_for_no_network() -> None:
    ours, terminal = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.DEVNULL)
    try:
        folder = f"/proc/{reader.pid}"
        end = time.monotonic() + 10
        while not receives(read_text(f"{folder}/wchan")) and time.monotonic() < end:
            time.sleep(0.01)
        assert not TaskWait(folder).receives(None, 0.0, has_terminal=True)
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

    assert TaskWait(str(tmp_path)).receives(None, 0.0, has_terminal=terminal) is counts


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
    task = TaskReader(KeptFiles(tmp_path, 8), "7/task/7", "7").read(0.0)

    assert task is not None
    assert task.blocked is blocked
