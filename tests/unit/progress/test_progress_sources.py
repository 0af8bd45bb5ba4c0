"""Reports by socket, from real processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.progress.processes import process
from exporter.progress.protocol import LARGEST
from exporter.progress.reporters import BURST, Reporters
from exporter.progress.socket_source import SocketSource, _bind_socket, _sender_ids

PROC = Path("/proc")
ROOT = Path(__file__).resolve().parents[3]
Served = tuple[SocketSource, Reporters, socket.socket, Path]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    path = tmp_path / "run" / "progress.sock"
    reporters = Reporters()
    source = SocketSource(path, reporters, PROC, lambda: 0.0)
    with _bind_socket(path) as server:
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


@pytest.mark.parametrize(("pid", "sender"), [(1, (1, 1000)), (0, None)])
def test_sender_outside_of_this_pid_namespace_is_unknown(pid: int, sender: tuple[int, int] | None) -> None:
    """The kernel reports it as 0: unix(7) has pid, user and group as integers of the machine."""
    credentials = struct.pack("=iII", pid, 1000, 100)

    assert _sender_ids([(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)]) == sender


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


def test_flood_from_one_pod_costs_no_other_whose_programs_are_the_same_user(served: Served, tmp_path: Path) -> None:
    _, reporters, server, path = served
    for pod in ("0" * 32, "1" * 32):
        folder = tmp_path / pod / str(os.getpid())
        folder.mkdir(parents=True)
        for file in ("stat", "status", "uid_map"):
            (folder / file).write_text((PROC / "self" / file).read_text())
        (folder / "cgroup").write_text(f"0::/kubepods/pod{pod}/{pod * 2}\n")
    flooding, other = (SocketSource(path, reporters, tmp_path / pod, lambda: 0.0) for pod in ("0" * 32, "1" * 32))
    for _ in range(2 * int(BURST)):
        send(path, b'{"samples": 1}')
        flooding.read(server)
    send(path, b'{"samples": 7}')
    other.read(server)

    assert reporters.results()["rate_limited"] == BURST
    assert [each.report.counters for each in reporters.all()] == [{"samples": 7.0}]


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
    _bind_socket(path).close()
    _bind_socket(path).close()
    path.unlink()
    path.write_text("somebody's file")

    with pytest.raises(OSError, match="Address already in use"):
        _bind_socket(path)
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
