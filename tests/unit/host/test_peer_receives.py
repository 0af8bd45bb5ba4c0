"""A receive from another GPU process of the job, told from one of a server: real processes, real sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.host.network import Peers
from exporter.host.task import TaskReader, receives
from exporter.host.text import read_text
from tests.growth import grown

PROCFS = Path("/proc")
LISTENS = """
import socket, time
server = socket.create_server(({address!r}, 0), family=socket.{family}, dualstack_ipv6={dual})
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
print("accepted", flush=True)
time.sleep(600)
"""
RECEIVES = """
import socket
socket.create_connection(({address!r}, {port})).recv(1)
"""

Starts = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def starts() -> Iterator[Starts]:
    with ExitStack() as stack:

        def start(code: str) -> subprocess.Popen[str]:
            child = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(child.kill)
            return child

        yield start


def receiver(starts: Starts, address: str, port: int) -> tuple[int, int]:
    """Return the pid of a process that sits in a receive, and its socket's inode as the exporter sees it."""
    child = starts(RECEIVES.format(address=address, port=port))
    deadline = time.monotonic() + 20
    while not receives(read_text(f"/proc/{child.pid}/wchan")) and time.monotonic() < deadline:
        time.sleep(0.01)
    task = TaskReader("/proc", f"{child.pid}/task/{child.pid}", str(child.pid)).read(0.0)  # type: ignore[arg-type]
    assert task is not None
    assert (task.receiving, task.socket > 0) == (True, True)
    return child.pid, task.socket


@pytest.mark.parametrize(
    ("family", "bound", "address"),
    [("AF_INET", "127.0.0.1", "127.0.0.1"), ("AF_INET6", "::1", "::1"), ("AF_INET6", "::", "127.0.0.1")],
    ids=["IPv4", "IPv6", "IPv4 to an IPv6 socket"],
)
def test_receive_from_a_process_of_the_job_is_from_a_peer(
    starts: Starts, family: str, bound: str, address: str
) -> None:
    server = starts(LISTENS.format(address=bound, family=family, dual=bound == "::"))
    assert server.stdout is not None
    pid, inode = receiver(starts, address, int(server.stdout.readline()))
    assert server.stdout.readline() == "accepted\n"  # a client is connected before

    assert Peers(PROCFS).receives_from_peers({inode: pid}, [pid, server.pid]) == {inode}
    assert Peers(PROCFS).receives_from_peers({inode: pid}, [pid, starts("input()").pid]) == set()


def test_receive_from_a_server_outside_the_job_is_not_from_a_peer(starts: Starts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pid, inode = receiver(starts, "127.0.0.1", server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            assert Peers(PROCFS).receives_from_peers({inode: pid}, [pid, starts("input()").pid]) == set()


def test_process_that_is_connected_to_itself_has_no_peer(starts: Starts) -> None:
    """A loader thread that serves the main thread over TCP is no other rank."""
    child = starts(
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\nother = server.accept()\nclient.recv(1)\n"
    )
    deadline = time.monotonic() + 20
    while not receives(read_text(f"/proc/{child.pid}/wchan")) and time.monotonic() < deadline:
        time.sleep(0.01)
    task = TaskReader("/proc", f"{child.pid}/task/{child.pid}", str(child.pid)).read(0.0)  # type: ignore[arg-type]
    assert task is not None

    assert Peers(PROCFS).receives_from_peers({task.socket: child.pid}, [child.pid, starts("input()").pid]) == set()


def test_processes_with_a_connection_are_one_group(starts: Starts) -> None:
    server = starts(LISTENS.format(address="127.0.0.1", family="AF_INET", dual=False))
    assert server.stdout is not None
    pid, _ = receiver(starts, "127.0.0.1", int(server.stdout.readline()))
    assert server.stdout.readline() == "accepted\n"
    alone = starts("input()").pid
    first = min(pid, server.pid)

    assert Peers(PROCFS).groups([pid, server.pid, alone]) == {pid: first, server.pid: first, alone: alone}
    assert Peers(PROCFS).groups([pid]) == {}


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
HERE, THERE = "0100000A", "0200000A"
"""10.0.0.1 and 10.0.0.2."""


def on_node(procfs: Path, *rows: str, environ: str = "") -> int:
    """Return the pid of a process whose sockets, established or listening, stand in these rows, with inodes from 1."""
    (procfs / "7/net").mkdir(parents=True)
    (procfs / "7/fd").mkdir()
    (procfs / "7/net/dev").touch()
    (procfs / "7/environ").write_text(environ)
    table = [f"  0: {row} 00000000:00000000 00:00000000 00000000  0  0 {at}" for at, row in enumerate(rows, 1)]
    (procfs / "7/net/tcp").write_text(HEAD + "".join(f"{line}\n" for line in table))
    for at in range(1, len(rows) + 1):
        (procfs / f"7/fd/{at}").symlink_to(f"socket:[{at}]")
    return 7


LISTENER = f"{HERE}:C000 00000000:0000 0A"
ACCEPTED = f"{HERE}:C000 {THERE}:D000 01"
ASKED = f"{HERE}:D001 {THERE}:C001 01"
MET = f"{HERE}:D002 {THERE}:7332 01"
"""Its own request to port 49153 there, and to 29490, where torch has its stores."""


@pytest.mark.parametrize(
    ("rows", "environ", "peers"),
    [
        ((ASKED,), "", set[int]()),
        ((ASKED,), "MASTER_PORT=49153\0", {1}),
        ((ASKED, MET), "", {1, 2}),
        ((ASKED, LISTENER, ACCEPTED), "", {1, 3}),
        ((ASKED, ACCEPTED), "", set[int]()),
    ],
    ids=["server of data", "store of the environment", "store of torch", "both ways", "no port of its own"],
)
def test_node_that_connects_here_or_has_the_store_is_a_peer(
    tmp_path: Path, rows: Sequence[str], environ: str, peers: set[int]
) -> None:
    pid = on_node(tmp_path, *rows, environ=environ)
    sockets = {inode: pid for inode, row in enumerate(rows, 1) if row.endswith("01")}

    assert Peers(tmp_path).receives_from_peers(sockets, [pid], spread=True) == peers
    assert Peers(tmp_path).receives_from_peers(sockets, [pid]) == set()


def test_peers_of_sockets_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    peers = Peers(tmp_path)

    assert grown(peers, lambda number: peers.receives_from_peers({number: 7}, (7,))) == {}
