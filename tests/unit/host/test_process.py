"""What a process is, from text of /proc and from a tree made of files."""

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.printable import printable
from exporter.host import process
from exporter.host.model import HostProcess
from exporter.host.process import CYCLE_PROCESSES, ProcessReader, parse_boot_time, parse_stat, parse_uid, user_name

STAT = (
    "{pid} ({name}) S 7 1 1 0 -1 {flags} 1 2 3 4 {user} {system} 6 8 20 0 9 0 {start} 999 {rss} 18446744073709551615 1"
)


ALIVE, EXITING = 0x400100, 0x40804C
"""Flags of a running process, and those of one that exits: of a zombie of Linux 6.18."""


def write(root: Path, pid: int, *, start: int = 500, uid: str = "1234", flags: int = ALIVE) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    stat = STAT.format(pid=pid, name="python3", flags=flags, user=150, system=50, start=start, rss=3)
    (folder / "stat").write_text(stat)
    (folder / "status").write_text(f"Name:\tx\nUid:\t0\t{uid}\t0\t0\n")
    (folder / "cgroup").write_text("0::/user.slice\n")
    (root / "stat").write_text("cpu 1 2\nbtime 1700000000\nprocesses 5\n")


@given(name=st.text(max_size=15), user=st.integers(0, 10**12), start=st.integers(0, 10**12), rss=st.integers(0, 10**9))
def test_stat_survives_any_name(name: str, user: int, start: int, rss: int) -> None:
    stat = parse_stat(STAT.format(pid=3, name=name, flags=ALIVE, user=user, system=5, start=start, rss=rss))

    assert stat == (printable(name), "S", 7, 1, user + 5, start, rss, False, 5, 14, False)


@given(st.text())
def test_parsers_never_raise(text: str) -> None:
    parse_stat(text)
    parse_uid(text)
    parse_boot_time(text)


def test_process_in_base_units(tmp_path: Path) -> None:
    write(tmp_path, 42)

    found = ProcessReader(tmp_path, name_of=lambda uid: f"user{uid}").read(42)

    assert found is not None
    assert (found.pid, found.command, found.user, found.parent) == (42, "python3", "user1234", 7)
    assert found.cpu_seconds == 200 / process.CLOCK_TICKS
    assert found.resident_bytes == 3 * process.PAGE_BYTES
    assert found.start_time == 1700000000 + 500 / process.CLOCK_TICKS
    assert found.cgroup == "0::/user.slice\n"


def test_gone_process_is_none(tmp_path: Path) -> None:
    assert process.read(42, tmp_path) is None


def test_unknown_user_is_its_number() -> None:
    assert user_name(987654321) == "987654321"


def test_reused_pid_is_another_process(tmp_path: Path) -> None:
    reader = ProcessReader(tmp_path, monotonic=lambda: 0.0, name_of=str)
    write(tmp_path, 42, start=500, uid="1")
    reader.read(42)

    write(tmp_path, 42, start=900, uid="2")
    found = reader.read(42)

    assert found is not None
    assert found.user == "2"


def test_moved_process_shows_its_new_cgroup_in_time(tmp_path: Path) -> None:
    clock = [0.0]
    reader = ProcessReader(tmp_path, monotonic=lambda: clock[0])
    write(tmp_path, 42)
    reader.read(42)
    (tmp_path / "42" / "cgroup").write_text("0::/moved\n")
    clock[0] = process.IDENTITY_SECONDS + 1

    found = reader.read(42)

    assert found is not None
    assert found.cgroup == "0::/moved\n"


@pytest.mark.parametrize("shown", ["4:memory:/\n0::/\n", "0::/system.slice/docker-a.scope (deleted)\n"])
def test_exiting_process_keeps_its_cgroup(tmp_path: Path, shown: str) -> None:
    """Version 1 shows the root as its cgroup; version 2 marks a cgroup that was removed meanwhile."""
    clock = [0.0]
    reader = ProcessReader(tmp_path, monotonic=lambda: clock[0])
    write(tmp_path, 42)
    reader.read(42)
    write(tmp_path, 42, flags=EXITING)
    (tmp_path / "42" / "cgroup").write_text(shown)
    clock[0] = process.IDENTITY_SECONDS + 1

    found = reader.read(42)

    assert found is not None
    assert found.cgroup == "0::/user.slice\n"


def test_identity_is_not_read_again_within_the_period(tmp_path: Path) -> None:
    reader = ProcessReader(tmp_path, monotonic=lambda: 0.0)
    write(tmp_path, 42)
    reader.read(42)
    (tmp_path / "42" / "cgroup").unlink()

    found = reader.read(42)

    assert found is not None
    assert found.cgroup == "0::/user.slice\n"


def test_of_many_processes_a_part_is_read_in_a_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = range(1000, 1000 + 3 * CYCLE_PROCESSES)
    for pid in pids:
        write(tmp_path, pid)
    reader = ProcessReader(tmp_path, monotonic=lambda: 0.0)
    read: list[int] = []
    plain = ProcessReader.read

    def counted(self: ProcessReader, pid: int) -> HostProcess | None:
        read.append(pid)
        return plain(self, pid)

    monkeypatch.setattr(ProcessReader, "read", counted)
    shown = [len(reader.read_all(pids)) for _ in range(4)]

    assert shown == [CYCLE_PROCESSES, 2 * CYCLE_PROCESSES, 3 * CYCLE_PROCESSES, 3 * CYCLE_PROCESSES]
    assert Counter(read) == dict.fromkeys(pids, 1) | dict.fromkeys(pids[:CYCLE_PROCESSES], 2)


def test_forgotten_process_is_read_afresh(tmp_path: Path) -> None:
    reader = ProcessReader(tmp_path, monotonic=lambda: 0.0)
    write(tmp_path, 42)
    reader.read(42)
    (tmp_path / "42" / "cgroup").write_text("0::/moved\n")

    reader.read_all(())
    found = reader.read(42)

    assert found is not None
    assert found.cgroup == "0::/moved\n"


def test_this_very_process_from_the_real_proc() -> None:
    found = process.read(os.getpid())

    assert found is not None
    assert found.user == user_name(os.geteuid())
    assert found.parent == os.getppid()
    assert 0 < found.start_time <= time.time() + 1
    assert found.resident_bytes > 2**20


def test_processes_have_begun_since_boot_where_the_boot_cannot_be_read(tmp_path: Path) -> None:
    """It was 0 for good, and each process begun in 1970."""
    write(tmp_path, 42)
    (tmp_path / "stat").unlink()

    found = ProcessReader(tmp_path).read(42)

    boot = parse_boot_time(Path("/proc/stat").read_text())
    assert found is not None
    assert boot is not None
    assert abs(found.start_time - 500 / process.CLOCK_TICKS - boot) <= 2  # seconds, each of them cut
