"""Hostile programs at the socket, as real processes: bounded, counted, refused, and all others are heard."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.progress.protocol import LARGEST, MAX_NAME
from exporter.progress.reader import ProgressReader
from exporter.progress.reporters import BURST, RATE
from exporter.progress.socket_source import _BATCH, SocketSource, _bind_socket

PROC = Path("/proc")
STRANGER = 4242
CREDENTIALS = """
import socket, struct, sys
def credentials(pid, user):
    return [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("=iII", pid, user, user))]
client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
client.connect(sys.argv[1])
"""
BECOME_A_STRANGER = f"""
import os
os.setuid({STRANGER})
"""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="another user and a PID namespace need root")


class Node:
    """A reader whose socket is read here, and whose clock stands still."""

    def __init__(self, path: Path) -> None:
        self.reader = ProgressReader(None, None, PROC, lambda: 0.0)
        self.source = SocketSource(path, self.reader.reporters, PROC, lambda: 0.0)
        self.server = _bind_socket(path)
        self.path = path

    def results(self) -> dict[str, int]:
        return {name: count for name, count in self.reader.reporters.results().items() if count}

    def say(self, **fields: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(json.dumps(fields).encode(), str(self.path))
        self.source.read(self.server)

    def hear(self, code: str, *before: str) -> str:
        """Run a program that sends, reading while it does; what it printed."""
        command = [*before, sys.executable, "-c", CREDENTIALS + code, str(self.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            while client.poll() is None:
                assert self.source.read(self.server) <= _BATCH
            assert client.stdout
            said = client.stdout.read()
        while self.source.read(self.server):
            pass
        assert client.returncode == 0
        return said.strip()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr("exporter.progress.socket_source._WAIT_SECONDS", 0.01)
    made = Node(tmp_path / "progress.sock")
    yield made
    made.server.close()


@needs_root
def test_flood_costs_its_sender_alone(node: Node) -> None:
    node.hear(BECOME_A_STRANGER + "for _ in range(3000): client.send(b'{\"samples\": 1}')")
    flooded = node.results()
    node.say(samples=7)

    assert flooded["rate_limited"] == 3000 - BURST
    assert sum(flooded.values()) == 3000
    assert [each.report.counters for each in node.reader.reporters.all() if each.process.user == os.getuid()] == [
        {"samples": 7.0}
    ]
    assert RATE < BURST


def test_giant_and_malformed_reports_are_counted_and_leave_nothing(node: Node) -> None:
    node.hear(f"client.send(b'{{' + b'x' * {8 * LARGEST}); client.send(b'\\xff\\x00'); client.send(b'[[[[')")

    assert node.results() == {"malformed": 3}
    assert node.reader.reporters.all() == ()


def test_a_thousand_phases_with_long_names_are_bounded(node: Node) -> None:
    phases = {f"{number:02d}{'x' * 90}": 1.0 for number in range(35)}
    node.say(samples=1, phases=phases)
    reported = node.reader.read(Ownership(processes={os.getpid(): Owner(workload="slurm:7")}))
    (progress,) = reported.owners.values()

    assert len(progress.phases) <= 24
    assert max(map(len, progress.phases)) <= MAX_NAME


@needs_root
def test_user_cannot_name_another_process_or_user(node: Node) -> None:
    code = f"""
for pid, user in ((1, {STRANGER}), ({os.getpid()}, 0)):
    try:
        client.sendmsg([b'{{"samples": 9}}'], credentials(pid, user))
    except PermissionError:
        print("refused")
"""

    assert node.hear(BECOME_A_STRANGER + code).split() == ["refused", "refused"]
    assert node.results() == {}


@needs_root
def test_root_of_a_container_names_no_process_outside_of_it(node: Node) -> None:
    """In a PID namespace of its own: whatever it names, it is a process in there."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("this machine lets nobody make a PID namespace")
    code = f"""
import os
try:
    client.sendmsg([b'{{"samples": 9}}'], credentials({os.getpid()}, 0))
except ProcessLookupError:
    print("refused", os.getpid())
client.send(b'{{"pid": {os.getpid()}, "samples": 3}}')
"""

    assert node.hear(code, unshare, "--pid", "--fork") == "refused 1"
    assert all(each.process.pid != os.getpid() for each in node.reader.reporters.all())
    assert sum(node.results().values()) == 1


def test_report_counts_for_its_senders_pod_whatever_process_it_names(node: Node) -> None:
    mine, others = (Owner(workload=name, kind="pod", namespace="ml", pod=name) for name in ("ml/mine", "ml/others"))
    node.say(pid=1, samples=5)
    reported = node.reader.read(Ownership(processes={os.getpid(): mine, 1: others}))

    assert {owner.pod: progress.counters for owner, progress in reported.owners.items()} == {
        "ml/mine": {"samples": 5.0}
    }


def test_process_of_no_workload_is_nobodys(node: Node) -> None:
    node.say(samples=5)

    assert not node.reader.read(Ownership(processes={1: Owner(workload="ml/others")})).owners
