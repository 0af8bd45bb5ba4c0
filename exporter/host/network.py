"""The programs around a GPU process, the ports they listen on, and the bytes over their network namespace."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from exporter.core.units import Bytes
from exporter.host.model import HostProcess
from exporter.host.process import parse_stat
from exporter.host.text import lines, natural, read_text

_MODULES = r"torch\.distributed\.(?:run|launch)|deepspeed\.launcher\.launch|accelerate\.commands\.launch"
_MPI = r"mpirun|mpiexec|mpiexec\.hydra|hydra_pmi_proxy|orterun|orted|prterun|prted"
_NAMES = f"torchrun|accelerate|deepspeed|horovodrun|{_MPI}"
_LAUNCHER = re.compile(
    rf"(?:\S*/)?(?:python[0-9.]*\s+(?:-[a-z]+\s+)*?(?:-m\s+(?:{_MODULES})|(?:\S*/)?(?:{_NAMES}))|(?:{_NAMES}))(?:\s|$)"
)


def is_launcher(command_line: str) -> bool:
    """Return whether a command line, its words parted by spaces, is one of theirs.

    What starts programs that have nothing to do with each other (shells, make, parallel, a script of a sweep) is not.
    """
    return _LAUNCHER.match(command_line) is not None


_ABOVE = 3
"""A server starts an engine, which starts its ranks."""
_COMMAND = 512
"""Characters of a command line."""
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh", "screen", "tmux", "sshd"})
"""Programs whose children are no part of who started them."""


def related_pids(procfs: Path, processes: Iterable[HostProcess]) -> Sequence[int]:
    """The pids of `processes`, and of those above them in the same cgroup, up to a shell."""
    found = dict.fromkeys(process.pid for process in processes)
    for process in processes:
        mine, parent = read_text(f"{procfs}/{process.pid}/cgroup"), process.parent
        for _ in range(_ABOVE):
            if parent <= 1 or read_text(f"{procfs}/{parent}/cgroup") != mine:
                break
            stat = parse_stat(read_text(f"{procfs}/{parent}/stat"))
            if stat and stat.command.partition(":")[0] in _SHELLS:
                break
            found[parent] = None
            parent = stat.parent if stat else 0
    return list(found)


def command_line(procfs: Path, pid: int) -> str:
    """The first words of its command line; only compared with names of programs, never shown."""
    return read_text(f"{procfs}/{pid}/cmdline")[:_COMMAND].replace("\0", " ").lower()


_LISTEN, _ESTABLISHED = "0A", "01"
_PORT = re.compile("[0-9A-F]{4}")
_TABLES = ("tcp", "tcp6")
_IPV4_MAPPED = "0000000000000000FFFF0000"
"""Begin of an IPv4 address in the second table."""
_EPHEMERAL = 32768
"""First port the kernel gives out by itself: clients do not know such a port beforehand."""
_GRPC = 50051
"""Port where servers of gRPC listen by custom: the one exception."""
_STORES = range(29400, 29600)
"""Ports at which ranks of torch meet (rendezvous and store)."""
_OF_TRAINING = frozenset({22, 2222, 6006, 6379, 8265, *range(15000, 15100), 28028, *_STORES})
"""ssh (MPI starts its ranks by it, people log in), TensorBoard, Ray, Istio's sidecar, NCCL's RAS, and stores."""
_OF_RAY = frozenset({8080, *range(10001, 20000)})
"""Ports where each program of Ray listens for the others, which stay connected from elsewhere too, and the metrics
port of its agent, as KubeRay sets it."""
_RAY = re.compile(r"ray::|\S*/raylet(?:\s|$)")
"""Begin of the command lines of its workers, and of what starts them."""
_TABLE_BYTES = 1 << 16
"""Size limit of a namespace's table of sockets: listening ones stand first, and a host's table can be megabytes."""
_MEETING_BYTES = 1 << 20
"""The same, where somebody listens: connections stand after those who listen."""
_FILES = 512
"""Open files of one process that are searched."""


def namespace(procfs: Path, pid: int) -> int | None:
    """A number that is the same for processes in one network namespace; None where it is not shown."""
    try:
        return os.stat(f"{procfs}/{pid}/net/dev").st_ino  # noqa: PTH116 - once a second for each workload
    except OSError:
        return None


def traffic(procfs: Path, pid: int) -> Mapping[str, Bytes]:
    """Return the bytes over all interfaces but loopback, by direction; empty where they are not shown.

    A bond's are those of the interfaces in it.
    """
    received = sent = 0
    twice = {"lo"}
    with contextlib.suppress(OSError):  # of a kernel without bonds
        twice.update(os.listdir(f"{procfs}/{pid}/net/bonding"))  # noqa: PTH208 - names
    interfaces = lines(read_text(f"{procfs}/{pid}/net/dev"))[2:]
    for line in interfaces:
        name, _, numbers = line.partition(":")
        words = numbers.split()
        if name.strip() not in twice and len(words) >= 9:  # noqa: PLR2004 - the ninth is the first of what was sent
            received += natural(words[0]) or 0
            sent += natural(words[8]) or 0
    return {"receive": Bytes(received), "transmit": Bytes(sent)} if interfaces else {}


def parse_listeners(text: str) -> Mapping[int, int]:
    """Port by inode of the listening sockets in /proc/PID/net/tcp or tcp6."""
    rows = (line.split() for line in lines(text)[1:])
    found: dict[int, int] = {}
    for words in rows:
        if len(words) > 9 and words[3] == _LISTEN:  # noqa: PLR2004 - the tenth is the inode
            inode, port = natural(words[9]), words[1].rpartition(":")[2]
            if inode and _PORT.fullmatch(port):
                found[inode] = int(port, 16)
    return found


def for_clients(ports: frozenset[int], command_lines: Iterable[str]) -> frozenset[int]:
    """Return those of a workload of these programs that its own programs do not need among themselves."""
    return ports - _OF_RAY if any(_RAY.match(line) for line in command_lines) else ports


class Connection(NamedTuple):
    """One end of an established connection."""

    port: int
    peer_port: int
    inode: int


def parse_connections(text: str, of: Collection[int]) -> Iterator[Connection]:
    """Yield the connections from and to these ports; the thousands of others are not parsed."""
    named = re.compile("|".join(f":{port:04X} " for port in of)).search
    for line in lines(text)[1:]:
        words = line.split() if named(line) else []
        if len(words) > 9 and words[3] == _ESTABLISHED:  # noqa: PLR2004 - the tenth is the inode
            ports = [each.rpartition(":")[2] for each in words[1:3]]
            inode = natural(words[9])
            if inode and all(_PORT.fullmatch(each) for each in ports):
                yield Connection(int(ports[0], 16), int(ports[1], 16), inode)


class Listeners:
    """The listening ports of one cycle: processes in one network namespace share its table of sockets."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._ports: dict[int | None, Mapping[int, int]] = {}
        """Port by inode, by namespace, of the sockets that clients may look for."""
        self._connections: dict[int | None, Collection[Connection]] = {}

    def ports(self, pids: Iterable[int], *, own_namespace: bool) -> frozenset[int] | None:
        """Ports one of `pids` listens on for clients over TCP; None where that is not shown.

        In a network namespace of the workload's own every listener is its own; in the host's, those it has open. A port
        to which the workload itself stays connected is where its ranks meet (a store of torch's or JAX's that was given
        another port than the usual one, Ray's workers).
        """
        pids = tuple(pids)
        if not pids:
            return None
        ports = self._ports_of(pids[0])
        if not ports:
            return frozenset()
        shown = [each for pid in pids if (each := _open_sockets(self._procfs, pid)) is not None]
        mine = frozenset[int]().union(*shown)
        if own_namespace:
            found = frozenset(ports.values())
        elif shown:
            found = frozenset(port for inode, port in ports.items() if inode in mine)
        else:
            return None
        return found - self._connected_ports(pids[0], mine) if found and mine else found

    def _ports_of(self, pid: int) -> Mapping[int, int]:
        where = namespace(self._procfs, pid)
        found = self._ports.get(where) if where is not None else None
        if found is None:
            found = self._ports[where] = {
                inode: port
                for table in _TABLES
                for inode, port in parse_listeners(
                    _whole_lines(f"{self._procfs}/{pid}/net/{table}", _TABLE_BYTES)
                ).items()
                if (port < _EPHEMERAL or port == _GRPC) and port not in _OF_TRAINING
            }
        return found

    def _connected_ports(self, pid: int, mine: Collection[int]) -> frozenset[int]:
        """Ports in the namespace of `pid` to which sockets are connected that are among `mine`."""
        where, ports = namespace(self._procfs, pid), frozenset(self._ports_of(pid).values())
        found = self._connections.get(where) if where is not None else None
        if found is None:
            found = self._connections[where] = [
                each
                for table in _TABLES
                for each in parse_connections(_whole_lines(f"{self._procfs}/{pid}/net/{table}", _MEETING_BYTES), ports)
            ]
        accepted = {(each.peer_port, each.port) for each in found}
        met = [each.peer_port for each in found if each.inode in mine and (each.port, each.peer_port) in accepted]
        return ports.intersection(met)


class _Table(NamedTuple):
    """The TCP sockets of some network namespaces."""

    ends: Mapping[tuple[str, str], int]
    """Inodes of established connections by local and remote address."""
    listening: frozenset[str]
    """Ports, as the tables write them."""


class Peers:
    """The GPU processes of one workload as ends of TCP connections, also from pod to pod and from node to node."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._known: dict[int, bool] = {}
        """Key: inode of a socket; value: True if the other end is another process of the workload."""

    def receives_from_peers(
        self, sockets: Mapping[int, int], pids: Collection[int], *, spread: bool = False
    ) -> frozenset[int]:
        """Return which of the `sockets`, the pids by inode, are connected to another one of `pids`.

        Of a workload that is `spread` also those that are connected to its other nodes.
        """
        self._known = {inode: each for inode, each in self._known.items() if inode in sockets}
        new = {inode: pid for inode, pid in sockets.items() if inode not in self._known}
        table = self._table(pids) if new else _Table({}, frozenset())
        owned = {pid: _open_sockets(self._procfs, pid) or frozenset[int]() for pid in pids} if new else {}
        nodes = self._other_nodes(table, owned) if spread else frozenset[str]()
        places = {inode: end for end, inode in table.ends.items()}
        for inode, pid in new.items():
            local, remote = places.get(inode, ("", ""))
            other = table.ends.get((remote, local))
            owners = [each for each in pids if other in owned[each]] if other else []
            self._known[inode] = (bool(owners) and pid not in owners) or _end_address(remote) in nodes
        return frozenset(inode for inode, is_peer in self._known.items() if is_peer)

    def groups(self, pids: Collection[int]) -> Mapping[int, int]:
        """Return for each of `pids` the lowest one of those that connections link it to; empty where none is shown."""
        owned = {pid: _open_sockets(self._procfs, pid) for pid in pids}
        if len(owned) < 2 or None in owned.values():  # noqa: PLR2004 - one alone is connected to none
            return {}
        owners: dict[int, set[int]] = {}
        for pid, inodes in owned.items():
            for inode in inodes or ():
                owners.setdefault(inode, set()).add(pid)
        ends, lowest = self._table(pids).ends, {pid: pid for pid in pids}
        for (local, remote), inode in ends.items():
            here, there = owners.get(inode), owners.get(ends.get((remote, local), 0))
            if here and there and here.isdisjoint(there):
                linked = {lowest[pid] for pid in here | there}
                lowest = {pid: min(linked) if each in linked else each for pid, each in lowest.items()}
        return lowest

    def _other_nodes(self, table: _Table, owned: Mapping[int, Collection[int]]) -> frozenset[str]:
        """Return the addresses of the workload's other nodes.

        They connect to a port on which it listens, as no server of data does; or it is connected to the port of their
        store. An environment is the user's text: it adds a port, and no address.
        """
        mine = frozenset[int]().union(*owned.values())
        stores = {f"{port:04X}" for port in (*_STORES, *(_store_port(self._procfs, pid) for pid in owned))}
        found = {
            _end_address(remote)
            for (local, remote), inode in table.ends.items()
            if inode in mine and (_end_port(local) in table.listening or _end_port(remote) in stores)
        }
        return frozenset(found - {_end_address(local) for local, _ in table.ends})

    def _table(self, pids: Iterable[int]) -> _Table:
        places = {namespace(self._procfs, pid): pid for pid in pids}
        tables = (f"{self._procfs}/{pid}/net/{table}" for pid in places.values() for table in _TABLES)
        rows = [line.split() for path in tables for line in lines(_whole_lines(path, _MEETING_BYTES))[1:]]
        rows = [words for words in rows if len(words) > 9]  # noqa: PLR2004 - the tenth is the inode
        return _Table(
            {
                (words[1].removeprefix(_IPV4_MAPPED), words[2].removeprefix(_IPV4_MAPPED)): natural(words[9]) or 0
                for words in rows
                if words[3] == _ESTABLISHED
            },
            frozenset(_end_port(words[1]) for words in rows if words[3] == _LISTEN),
        )


_STORE_PORT = re.compile(r"(?:^|\0)MASTER_PORT=([0-9]{1,5})(?:\0|$)")
_ENVIRONMENT_BYTES = 1 << 16


def _store_port(procfs: Path, pid: int) -> int:
    """Return the port of the store that torch was given; 0: none."""
    found = _STORE_PORT.search(read_text(f"{procfs}/{pid}/environ", _ENVIRONMENT_BYTES))
    return int(found[1]) if found else 0


def _end_address(end: str) -> str:
    return end.rpartition(":")[0]


def _end_port(end: str) -> str:
    return end.rpartition(":")[2]


def _whole_lines(path: str, limit: int) -> str:
    return read_text(path, limit).rpartition("\n")[0]


def _open_sockets(procfs: Path, pid: int) -> frozenset[int] | None:
    try:
        with os.scandir(f"{procfs}/{pid}/fd") as entries:
            names = [entry.name for entry in islice(entries, _FILES)]
    except OSError:
        return None
    return frozenset(inode for name in names if (inode := _namespace_inode(f"{procfs}/{pid}/fd/{name}")))


def _namespace_inode(path: str) -> int | None:
    try:
        link = os.readlink(path)  # noqa: PTH115 - hundreds of them
    except OSError:
        return None
    return natural(link[8:-1]) if link.startswith("socket:[") else None
