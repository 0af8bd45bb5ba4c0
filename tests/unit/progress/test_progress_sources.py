"""Reports by socket and by file, from real processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.progress.folder_source import FolderSource
from exporter.progress.processes import process
from exporter.progress.protocol import LARGEST
from exporter.progress.reporters import Reporters
from exporter.progress.socket_source import SocketSource, _bound

PROC = Path("/proc")
ROOT = Path(__file__).resolve().parents[3]
Served = tuple[SocketSource, Reporters, socket.socket, Path]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    path = tmp_path / "run" / "progress.sock"
    reporters = Reporters()
    source = SocketSource(path, reporters, PROC, lambda: 0.0)
    with _bound(path) as server:
        yield source, reporters, server, path


def send(path: Path, content: bytes, ancillary: list[tuple[int, int, bytes]] | None = None) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(str(path))
        client.sendmsg([content], ancillary or [])


def test_report_is_its_senders_whatever_pid_it_names(
    served: Served,
) -> None:
    source, reporters, server, path = served
    send(path, json.dumps({"pid": 1, "samples": 7}).encode())

    assert source.read(server) == 1
    (reporter,) = reporters.all()
    assert reporter.process == process(os.getpid(), PROC)
    assert reporter.report.counters == {"samples": 7.0}


def test_report_of_one_whose_pid_is_another_users_by_now_is_nobodys(served: Served, tmp_path: Path) -> None:
    _, reporters, server, path = served
    folder = tmp_path / "proc" / str(os.getpid())
    folder.mkdir(parents=True)
    (folder / "stat").write_text((PROC / "self/stat").read_text())
    (folder / "status").write_text("Name:\tx\nUid:\t4242\t4242\t4242\t4242\n")
    source = SocketSource(path, reporters, tmp_path / "proc", lambda: 0.0)
    send(path, b'{"samples": 7}')
    source.read(server)

    assert reporters.all() == ()
    assert reporters.results()["unknown_sender"] == 1


def test_giant_malformed_and_empty_reports_are_counted(
    served: Served,
) -> None:
    source, reporters, server, path = served
    for content in (b"", b"{", b'{"samples": 1, "x": "' + b"a" * (2 * LARGEST) + b'"}', b"\xff" * 100):
        send(path, content)
    source.read(server)

    assert reporters.all() == ()
    assert reporters.results()["malformed"] == 4


def test_socket_that_was_left_behind_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "progress.sock"
    _bound(path).close()
    _bound(path).close()
    path.unlink()
    path.write_text("somebody's file")

    with pytest.raises(OSError, match="Address already in use"):
        _bound(path)
    assert path.read_text() == "somebody's file"
    assert path.stat().st_mode & 0o777 != 0o666


def test_client_reports_and_never_raises(served: Served) -> None:
    source, reporters, server, path = served
    code = """
from gpu_progress import Progress
nobody = Progress("/nowhere/progress.sock", interval=0.0)
nobody.step(samples=1)
nobody.send()
progress = Progress(total=20, group_size=2, interval=0.0)
for batch in progress.data(range(10)):
    with progress.phase("forward"):
        pass
    progress.step(samples=32)
progress.send()
print("unharmed")
"""
    environment = {**os.environ, "PYTHONPATH": "deploy/progress", "GPU_PROGRESS_SOCKET": str(path), "RANK": "3"}
    done = subprocess.Popen(
        [sys.executable, "-c", code + "import sys; sys.stdout.flush(); sys.stdin.read()"],
        env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert done.stdout
    assert done.stdout.readline() == "unharmed\n"
    source.read(server)
    done.communicate()

    (reporter,) = reporters.all()
    report = reporter.report
    assert (report.rank, report.group_size, report.ratio) == (3, 2, 0.5)
    assert report.counters == {"steps": 10.0, "samples": 320.0}
    assert set(report.phases) == {"data", "forward"}
    assert report.remaining is not None
    assert report.step_seconds is not None


def _client(path: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": "deploy/progress", "GPU_PROGRESS_SOCKET": str(path), "RANK": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, cwd=ROOT, stdin=subprocess.PIPE, text=True
    )  # fmt: skip


def test_last_words_of_a_client_that_has_ended_are_heard(served: Served) -> None:
    source, reporters, server, path = served
    code = """
import sys
from gpu_progress import Progress
progress = Progress()
progress.step(samples=32)
sys.stdin.read()
progress.step(samples=32)
"""
    client = _client(path, "-c", code)
    while not reporters.all():
        source.read(server)
    client.communicate()
    source.read(server)

    assert client.returncode == 0
    assert [each.report.counters for each in reporters.all()] == [{"steps": 2.0, "samples": 64.0}]


def test_nothing_older_is_heard_after_the_last_totals(served: Served) -> None:
    source, reporters, server, path = served
    code = """
import threading
from gpu_progress import Progress
inside, go = threading.Event(), threading.Event()
class Slow(Progress):
    def report(self):
        told = super().report()
        if threading.current_thread().name == "slow":
            inside.set()
            go.wait()
        return told
progress = Slow(interval=0.0)
progress.step()
slow = threading.Thread(target=progress.send, name="slow")
slow.start()
inside.wait()
progress.step()
last = threading.Thread(target=progress.close)
last.start()
last.join(0.3)
go.set()
slow.join()
last.join()
import sys; sys.stdin.read()
"""
    client = _client(path, "-c", code)
    while [each.report.counters for each in reporters.all()] != [{"steps": 2.0}]:
        assert source.read(server)
    client.communicate()

    assert source.read(server) == 0


def test_lines_of_a_shell_are_the_totals_of_one_process(served: Served) -> None:
    source, reporters, server, path = served
    client = _client(path, "deploy/progress/gpu_progress.py")
    assert client.stdin
    client.stdin.write("steps=1 samples=64 rubbish total=12 lr=nan\n")
    client.stdin.flush()
    while not reporters.all():
        source.read(server)
    client.communicate("steps=2 samples=128\nsteps=3 samples=192\n")
    source.read(server)

    (reporter,) = reporters.all()
    assert (reporter.report.counters, reporter.report.rank) == ({"steps": 3.0, "samples": 192.0}, 1)
    assert reporter.report.ratio == 0.25


def test_full_socket_does_not_hold_the_client_up(served: Served) -> None:
    _, _, _, path = served
    code = """
from gpu_progress import Progress
progress = Progress(interval=0.0)
progress.add(samples=1)
print(not all(progress.send() for _ in range(5000)))
"""
    environment = {**os.environ, "PYTHONPATH": "deploy/progress", "GPU_PROGRESS_SOCKET": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert done.stdout == "True\n"


def folder(tmp_path: Path) -> tuple[FolderSource, Reporters]:
    reporters = Reporters()
    return FolderSource(tmp_path, reporters, PROC, lambda: 0.0), reporters


def test_file_counts_for_the_process_it_names_once(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps({"pid": os.getpid(), "samples": 7}))
    source.look()
    source.look()

    assert [each.process.pid for each in reporters.all()] == [os.getpid()]
    assert reporters.results()["accepted"] == 1


def test_file_for_somebody_elses_process_is_refused(tmp_path: Path) -> None:
    """This test's user is not that of the process, or the process calls itself otherwise."""
    procfs, reporters = tmp_path / "proc", Reporters()
    files = tmp_path / "files"
    files.mkdir()
    for pid, user, names in ((71, os.getuid() + 1, "71"), (72, os.getuid(), "72\t5")):
        (procfs / str(pid)).mkdir(parents=True)
        (procfs / str(pid) / "stat").write_text(f"{pid} (python3) S 1 {' '.join(['0'] * 17)} 100 0 0 0")
        (procfs / str(pid) / "status").write_text(f"Uid:\t{user}\t0\t0\t0\nNSpid:\t{names}\n")
        (files / f"{pid}.json").write_text(json.dumps({"pid": pid, "samples": 7}))
    FolderSource(files, reporters, procfs, lambda: 0.0).look()

    assert reporters.all() == ()
    assert reporters.results()["not_this_process"] == 2


def test_users_files_beyond_the_quota_silence_nobody(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    for number in range(1100):
        (tmp_path / f"{number:04d}.json").write_text("")
    mine = tmp_path / "zzz.json"
    mine.write_text(json.dumps({"pid": os.getpid(), "samples": 7}))
    if os.getuid() == 0:
        os.chown(mine, 4242, 4242)
    source.look()

    results = reporters.results()
    assert results["over_quota"] == 1
    assert results["malformed"] <= 256
    if os.getuid() == 0:  # another user's report is looked at all the same: it names a process of root
        assert results["not_this_process"] == 1


def test_links_pipes_and_large_files_are_refused(tmp_path: Path) -> None:
    source, reporters = folder(tmp_path)
    (tmp_path / "link.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "large.json").write_text(" " * (LARGEST + 1))
    source.look()

    assert reporters.results()["malformed"] == 3
    assert source.error == ""


def test_missing_folder_is_told(tmp_path: Path) -> None:
    source, _ = folder(tmp_path / "none")
    source.look()

    assert "No such file" in source.error
