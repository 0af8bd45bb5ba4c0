"""The programs around a GPU process, the ports they listen on, and the bytes over their network namespace."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
"""What these start is no part of who started them."""


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
"""But for this one, where servers of gRPC listen by custom."""
_OF_TRAINING = frozenset({22, 2222, 6006, 6379, 8265, *range(15000, 15100), 28028, *range(29400, 29600)})
"""ssh (MPI starts its ranks by it, people log in), TensorBoard, Ray, Istio's sidecar, NCCL's RAS, and where ranks meet
(torch's rendezvous and store)."""
_OF_RAY = frozenset({8080, *range(10001, 20000)})
"""Where each program of Ray listens for the others: they stay connected from elsewhere too, as from the head node. And
the metrics of its agent, as KubeRay sets them."""
_RAY = re.compile(r"ray::|\S*/raylet(?:\s|$)")
"""Begin of the command lines of its workers, and of what starts them."""
_TABLE_BYTES = 1 << 16
"""Of a namespace's sockets: listening ones stand first, and a host's table can be megabytes."""
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
    """Return the bytes over all interfaces but loopback, by direction; empty where they are not shown."""
    received = sent = 0
    interfaces = lines(read_text(f"{procfs}/{pid}/net/dev"))[2:]
    for line in interfaces:
        name, _, numbers = line.partition(":")
        words = numbers.split()
        if name.strip() != "lo" and len(words) >= 9:  # noqa: PLR2004 - the ninth is the first of what was sent
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
        """By namespace: port by inode of the sockets that clients may look for."""
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
        ports = self._of(pids[0])
        if not ports:
            return frozenset()
        shown = [each for pid in pids if (each := _sockets(self._procfs, pid)) is not None]
        mine = frozenset[int]().union(*shown)
        if own_namespace:
            found = frozenset(ports.values())
        elif shown:
            found = frozenset(port for inode, port in ports.items() if inode in mine)
        else:
            return None
        return found - self._met(pids[0], mine) if found and mine else found

    def _of(self, pid: int) -> Mapping[int, int]:
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

    def _met(self, pid: int, mine: Collection[int]) -> frozenset[int]:
        """Ports in the namespace of `pid` to which sockets are connected that are among `mine`."""
        where, ports = namespace(self._procfs, pid), frozenset(self._of(pid).values())
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


class Peers:
    """The processes of one workload as ends of TCP connections on this node, also from pod to pod."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._known: dict[int, bool] = {}
        """Key: inode of a socket; value: True if the other end is another process of the workload."""

    def receives_from_peers(self, sockets: Mapping[int, int], pids: Collection[int]) -> frozenset[int]:
        """Return which of the `sockets`, the pids by inode, are connected to another one of `pids`."""
        self._known = {inode: each for inode, each in self._known.items() if inode in sockets}
        new = {inode: pid for inode, pid in sockets.items() if inode not in self._known}
        ends = self._ends(pids) if new else dict[tuple[str, str], int]()
        places = {inode: end for end, inode in ends.items()}
        for inode, pid in new.items():
            local, remote = places.get(inode, ("", ""))
            other = ends.get((remote, local))
            owners = [each for each in pids if other in (_sockets(self._procfs, each) or ())] if other else []
            self._known[inode] = bool(owners) and pid not in owners
        return frozenset(inode for inode, is_peer in self._known.items() if is_peer)

    def _ends(self, pids: Iterable[int]) -> Mapping[tuple[str, str], int]:
        """Inodes by local and remote address, of the established connections in the namespaces of `pids`."""
        places = {namespace(self._procfs, pid): pid for pid in pids}
        tables = (f"{self._procfs}/{pid}/net/{table}" for pid in places.values() for table in _TABLES)
        rows = (line.split() for path in tables for line in lines(_whole_lines(path, _MEETING_BYTES))[1:])
        return {
            (words[1].removeprefix(_IPV4_MAPPED), words[2].removeprefix(_IPV4_MAPPED)): natural(words[9]) or 0
            for words in rows
            if len(words) > 9 and words[3] == _ESTABLISHED  # noqa: PLR2004 - the tenth is the inode
        }


def _whole_lines(path: str, limit: int) -> str:
    return read_text(path, limit).rpartition("\n")[0]


def _sockets(procfs: Path, pid: int) -> frozenset[int] | None:
    try:
        with os.scandir(f"{procfs}/{pid}/fd") as entries:
            names = [entry.name for _, entry in zip(range(_FILES), entries, strict=False)]
    except OSError:
        return None
    return frozenset(inode for name in names if (inode := _inode(f"{procfs}/{pid}/fd/{name}")))


def _inode(path: str) -> int | None:
    try:
        link = os.readlink(path)  # noqa: PTH115 - hundreds of them
    except OSError:
        return None
    return natural(link[8:-1]) if link.startswith("socket:[") else None
