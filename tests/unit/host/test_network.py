"""What is read of network namespaces, on a /proc made of files and on this machine's own."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from exporter.host.network import Listeners, for_clients, namespace, parse_listeners, traffic
from exporter.host.task import receives

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
   1: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0 100 0 0 10 0
"""


def process(root: Path, pid: int, *, port: int = 8000, sockets: tuple[int, ...] = ()) -> None:
    (root / str(pid) / "net").mkdir(parents=True)
    (root / str(pid) / "net/tcp").write_text(TCP.format(port=port))
    (root / str(pid) / "fd").mkdir()
    for number, inode in enumerate(sockets):
        (root / str(pid) / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_listening_sockets_by_inode() -> None:
    assert parse_listeners(TCP.format(port=8000)) == {777: 8000}
    assert parse_listeners("head\nnonsense\n") == {}
    assert parse_listeners(TCP.replace("{port:04X}", "port")) == {}


def test_in_a_namespace_of_its_own_every_listener_is_the_workloads(tmp_path: Path) -> None:
    process(tmp_path, 10)

    assert Listeners(tmp_path).ports([10], own_namespace=True) == {8000}


def test_processes_in_one_namespace_share_its_table(tmp_path: Path) -> None:
    process(tmp_path, 10, port=8000)
    process(tmp_path, 11, port=9000)
    (tmp_path / "10/net/dev").touch()
    (tmp_path / "11/net/dev").hardlink_to(tmp_path / "10/net/dev")
    listeners = Listeners(tmp_path)

    assert [listeners.ports([pid], own_namespace=True) for pid in (10, 11)] == [{8000}, {8000}]


def test_in_the_hosts_namespace_only_sockets_it_has_open_count(tmp_path: Path) -> None:
    process(tmp_path, 10, sockets=(5, 777))
    process(tmp_path, 11, sockets=(5,))

    assert Listeners(tmp_path).ports([10], own_namespace=False) == {8000}
    assert Listeners(tmp_path).ports([11], own_namespace=False) == frozenset()
    assert Listeners(tmp_path).ports([11, 10], own_namespace=False) == {8000}


@pytest.mark.parametrize("port", [8000, 32767, 50051])
def test_where_clients_look_for_a_server_is_served(tmp_path: Path, port: int) -> None:
    """The last is where servers of gRPC listen (Riva's, and those made after its examples)."""
    process(tmp_path, 10, port=port)

    assert Listeners(tmp_path).ports([10], own_namespace=True) == {port}


@pytest.mark.parametrize("port", [29500, 28028, 6006, 32768, 40000, 22, 15021])
def test_where_ranks_meet_nobody_is_served(tmp_path: Path, port: int) -> None:
    process(tmp_path, 10, port=port, sockets=(777,))

    assert Listeners(tmp_path).ports([10], own_namespace=True) == frozenset()


@pytest.mark.parametrize(
    ("command_line", "ports"),
    [
        ("ray::a.idle", {8000}),
        ("ray::rolloutworker.sample()", {8000}),
        ("/opt/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp", {8000}),
        ("python /home/ada/raylet.py", {8000, 8080, 14531}),
        ("ollama serve", {8000, 8080, 14531}),
    ],
)
def test_programs_of_ray_listen_for_each_other(command_line: str, ports: set[int]) -> None:
    """As `ray start` and KubeRay have it: a port for each worker from 10002 to 19999, to which the head connects."""
    assert for_clients(frozenset({8000, 8080, 14531}), ["python x", command_line]) == ports


def connected(inode: int, *, client: bool = True) -> str:
    """A connection to port 15123 in /proc/net/tcp: by somebody on this node, with both ends, or from elsewhere."""
    ends = [(15123, 40000, 801), (40000, 15123, inode)][: 2 if client else 1]
    rest = "00000000:00000000 00:00000000 00000000     0        0"
    return "".join(f"   9: 0100007F:{a:04X} 0100007F:{b:04X} 01 {rest} {socket} 1\n" for a, b, socket in ends)


@pytest.mark.parametrize("own_namespace", [True, False])
@pytest.mark.parametrize(
    ("connections", "ports"),
    [
        ("", {15123}),
        (connected(802), set[int]()),  # by rank 0, which is a client of its own store
        (connected(803), set[int]()),  # by another one of the workload
        (connected(900), {15123}),  # by a proxy beside it
        (connected(802, client=False), {15123}),  # from another node
    ],
    ids=["alone", "itself", "a rank", "a proxy", "elsewhere"],
)
def test_a_port_to_which_the_workload_itself_is_connected_is_where_its_ranks_meet(
    tmp_path: Path, connections: str, ports: set[int], *, own_namespace: bool
) -> None:
    """Lightning's under Slurm, or whatever MASTER_PORT says."""
    process(tmp_path, 10, port=15123, sockets=(777, 801, 802))
    process(tmp_path, 11, port=15123, sockets=(803,))
    for pid in (10, 11):
        with (tmp_path / f"{pid}/net/tcp").open("a") as file:
            file.write(connections)

    assert Listeners(tmp_path).ports([10, 11], own_namespace=own_namespace) == ports


def test_a_real_store_that_its_own_process_is_connected_to_serves_nobody() -> None:
    """Under /proc, where the client is an IPv4 socket and the server one of IPv6."""
    mine = [os.getpid()]
    port = next(free for free in range(20000 + os.getpid() % 1000, 30000) if is_free(free))
    with socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        before = Listeners(Path("/proc")).ports(mine, own_namespace=False)
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            after = Listeners(Path("/proc")).ports(mine, own_namespace=False)

    assert before is not None
    assert after is not None
    assert before - after == {port}


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True):
        return True
    return False


def test_traffic_leaves_out_loopback(tmp_path: Path) -> None:
    (tmp_path / "10/net").mkdir(parents=True)
    row = "{}: {} 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0\n"
    text = "Inter-\n face\n" + row.format("lo", 9, 9) + row.format("eth0", 100, 20) + row.format("eth1", 1, 2)
    (tmp_path / "10/net/dev").write_text(text)

    assert traffic(tmp_path, 10) == {"receive": 101, "transmit": 22}
    assert traffic(tmp_path, 11) == {}


def test_traffic_of_a_bond_is_that_of_its_interfaces(tmp_path: Path) -> None:
    (tmp_path / "10/net/bonding").mkdir(parents=True)
    (tmp_path / "10/net/bonding/bond0").write_text("Slave Interface: eth0\n\nSlave Interface: eth1\n")
    row = "{}: {} 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0\n"
    text = "Inter-\n face\n" + row.format("bond0", 101, 22) + row.format("eth0", 100, 20) + row.format("eth1", 1, 2)
    (tmp_path / "10/net/dev").write_text(text)

    assert traffic(tmp_path, 10) == {"receive": 101, "transmit": 22}


def test_this_process_is_in_its_own_namespace_and_listens_where_it_says() -> None:
    proc = Path("/proc")
    assert namespace(proc, os.getpid()) == namespace(proc, os.getppid())
    assert namespace(proc, 1 << 22) is None
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = os.fstat(server.fileno()).st_ino
        assert parse_listeners(Path("/proc/self/net/tcp").read_text())[inode] == server.getsockname()[1]


def test_what_a_receive_looks_like() -> None:
    assert receives("wait_woken")
    assert receives("tcp_recvmsg_locked.constprop.0")
    assert not receives("inet_csk_accept")
    assert not receives("futex_do_wait")
