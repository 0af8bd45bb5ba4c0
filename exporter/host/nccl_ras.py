"""Asks a job's NCCL (2.24 and newer) through its RAS port which rank its collectives wait for.

The port answers on loopback, inside of the job's network namespace. The other side is a user's program: every answer
has a deadline and a size, and what cannot be understood is left out.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from exporter.core.clock import MonotonicTime, monotonic_time
from exporter.host.text import bounded, count, lines, natural, read_text

ADDRESS = ("localhost", 28028)
LOOPBACK = ("127.0.0.1", "::1")
"""Addresses of `localhost`: NCCL listens on the one that the job's own resolver names first."""
ANSWER_TIMEOUT_SECONDS = 12.0
"""Seconds for the whole question: NCCL gathers for up to 3, and then gives up within another 5."""
CONNECT_TIMEOUT_SECONDS = 1.0
"""Seconds for a process to answer the first word."""
_TRIES = 8
"""Connections to one address."""
MAX_BYTES = 4 << 20
"""Size limit of one answer: 16,000 ranks."""
_MAX_RANKS = 1 << 20
_POINT_TO_POINT = frozenset({"Send", "Recv", "SendRecv"})
"""Their counts differ between ranks that are well."""


class RasError(Exception):
    """No answer, or none of a RAS port."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a communicator. `operations` are the collectives it launched; None where it did not answer."""

    rank: int
    host: str = ""
    pid: int | None = None
    gpu: str = ""
    """NVML index on its host."""
    operations: int | None = None


@dataclass(frozen=True, slots=True)
class Communicator:
    ranks: tuple[Rank, ...] = ()
    missing: tuple[Rank, ...] = ()

    @property
    def lagging(self) -> tuple[Rank, ...]:
        """The ranks that launched the fewest collectives, where others launched more."""
        counts = [each.operations for each in self.ranks if each.operations is not None]
        if not counts or min(counts) == max(counts):
            return ()
        return tuple(each for each in self.ranks if each.operations == min(counts))


Operations = Mapping[tuple[str, int], int]
"""Collectives launched, by communicator and rank: ranks that do not answer are in none."""


@dataclass(frozen=True, slots=True)
class RasAnswer:
    communicators: tuple[Communicator, ...] = ()
    pids: frozenset[int] = frozenset()
    """Pids of all processes it names, as they are in their own pid namespaces."""
    operations: Operations = field(default_factory=dict[tuple[str, int], int])
    """Empty where the answer does not count them."""
    user: int | None = None
    """User id of the process that answered, by the kernel; None if it is not known."""


def ask(
    address: tuple[str, int] = ADDRESS,
    mine: Callable[[RasAnswer], bool] = lambda _: True,
    deadline: float = ANSWER_TIMEOUT_SECONDS,
) -> RasAnswer:
    """The answer that is `mine`, in the network namespace of the calling thread. Raises RasError.

    Every process of a job listens on the same port, those of another job of the user too, and the kernel picks who
    answers: after one that hangs, or one of another job, there is another try.
    """
    until, host = monotonic_time() + deadline, address[0]
    failed = RasError("only other jobs answer")
    left: dict[str, int] = dict.fromkeys(LOOPBACK if host == "localhost" else (host,), _TRIES)
    while left:
        for each in tuple(left):
            try:
                answer = _ask_once((each, address[1]), until)
            except (TimeoutError, EOFError, ConnectionResetError) as error:
                failed = RasError(str(error) or type(error).__name__)
            except (OSError, RasError) as error:
                failed, left[each] = RasError(str(error) or type(error).__name__), 0
            else:
                if mine(answer):
                    return answer
            left[each] -= 1
        left = {each: tries for each, tries in left.items() if tries > 0 and monotonic_time() < until}
    raise failed


def _ask_once(address: tuple[str, int], until: MonotonicTime) -> RasAnswer:
    """One conversation. Raises RasError, OSError and EOFError."""
    soon = min(until, monotonic_time() + CONNECT_TIMEOUT_SECONDS)
    with socket.create_connection(address, timeout=max(0.001, soon - monotonic_time())) as connection:
        talk = _Conversation(connection, soon)
        if not talk.request("CLIENT PROTOCOL 2").upper().startswith("SERVER PROTOCOL"):
            raise RasError("not a RAS port of NCCL")
        user = peer_user(connection)
        talk.until = until
        talk.request("TIMEOUT 3")
        structured = talk.request("SET FORMAT json") == "OK"
        talk.send("VERBOSE STATUS")
        text = talk.rest()
    return replace(parse_json(text) if structured else parse_text(text), user=user)


_NET = Path("/proc/thread-self/net")
"""Sockets of the network namespace of the calling thread."""
_ESTABLISHED = "01"
_TABLE_FIELDS = 8
"""Up to the user id."""


def peer_user(connection: socket.socket, net: Path = _NET) -> int | None:
    """Return the user id of the process at the other end of a connection within this network namespace.

    Only after its first answer: a connection that is not accepted yet has no owner. The format is that of proc(5).
    """
    local, peer = connection.getsockname()[:2], connection.getpeername()[:2]
    wanted = set(zip(_socket_addresses(*peer), _socket_addresses(*local), strict=True))
    users: set[int | None] = set()
    for name in ("tcp", "tcp6"):
        for line in lines(read_text(str(net / name), _MAX_TABLE_BYTES)):
            _, here, there, state, _, _, _, user, *_ = (*line.split(), *[""] * _TABLE_FIELDS)
            if (here, there) in wanted and state == _ESTABLISHED:
                users.add(natural(user))
    return users.pop() if len(users) == 1 else None


_MAX_TABLE_BYTES = 16 << 20
"""A node of 100,000 connections."""


def _socket_addresses(host: str, port: int) -> tuple[str, ...]:
    """Return an address as /proc/net/tcp and tcp6 write it; an IPv4 address also as one of IPv6."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    words = "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))
    mapped = f"{0:016X}{int.from_bytes(bytes(2) + bytes([255, 255]), sys.byteorder):08X}"
    return tuple(f"{each}:{port:04X}" for each in ((words,) if ":" in host else (words, mapped + words)))


class _Conversation:
    def __init__(self, connection: socket.socket, until: MonotonicTime) -> None:
        self._connection = connection
        self.until = until
        self._pending = b""

    def send(self, line: str) -> None:
        self._connection.settimeout(self._left())
        self._connection.sendall(f"{line}\n".encode())

    def request(self, line: str) -> str:
        """The one line that answers."""
        self.send(line)
        while b"\n" not in self._pending:
            self._receive_more()
        first, _, self._pending = self._pending.partition(b"\n")
        return first.decode("utf-8", "replace").strip()

    def rest(self) -> str:
        """All up to the end that the other side makes."""
        try:
            while True:
                self._receive_more()
        except EOFError:
            return self._pending.decode("utf-8", "replace")

    def _receive_more(self) -> None:
        self._connection.settimeout(self._left())
        chunk = self._connection.recv(65536)
        if not chunk:
            raise EOFError("it ended in the middle")
        self._pending += chunk
        if len(self._pending) > MAX_BYTES:
            raise RasError(f"an answer of more than {MAX_BYTES} bytes")

    def _left(self) -> float:
        left = self.until - monotonic_time()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left


def parse_json(text: str) -> RasAnswer:
    """NCCL's JSON. Raises RasError where it is none; what is odd in it is left out."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise RasError("an answer that is no JSON") from None
    listed = _list_dicts(_as_dict(document), "communicators")
    found = tuple(
        Communicator(tuple(_parse_ranks(each, "ranks")), tuple(_parse_ranks(each, "missing_ranks"))) for each in listed
    )
    operations = {
        (str(each.get("hash")), rank.rank): rank.operations
        for each, one in zip(listed, found, strict=True)
        for rank in one.ranks
        if rank.operations is not None
    }
    return RasAnswer(found, _rank_pids(found), operations)


def _parse_ranks(communicator: Mapping[str, Any], key: str) -> Iterator[Rank]:
    for each in _list_dicts(communicator, key):
        rank = count(each.get("rank"))
        if rank is None or rank > _MAX_RANKS:
            continue
        counts = [
            number
            for name, value in _as_dict(each.get("collective_counts")).items()
            if name not in _POINT_TO_POINT and (number := count(value)) is not None
        ]
        host, gpu = each.get("host"), count(each.get("nvml_dev"))
        yield Rank(
            rank=rank,
            host=bounded(host) if isinstance(host, str) else "",
            pid=count(each.get("pid")),
            gpu="" if gpu is None else str(gpu),
            operations=sum(counts) if counts and key == "ranks" else None,
        )


def _as_dict(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list_dicts(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    listed = document.get(key)
    return [_as_dict(each) for each in cast("list[object]", listed)] if isinstance(listed, list) else []


_COMMUNICATOR = re.compile(r"#\d{1,9}-\d{1,9} \([0-9a-f]{1,32}\) (?P<status>[A-Z,]+)")
_GROUP = re.compile(
    r"\s*(?P<count>\d{1,9}) ranks have (?:launched up to operation (?P<operation>\d{1,18})|not launched)"
)
_RANK = re.compile(
    r"\s*Rank (?P<rank>\d{1,7})(?: has (?:launched up to operation (?P<operation>\d{1,18})|(?P<none>not launched any"
    r" operations)))?"
    r"(?: -- GPU (?P<gpu>\d{1,4})[^m]{0,40}managed by process (?P<pid>\d{1,9}) on node (?P<host>\S{1,256}))?"
)


def parse_text(text: str) -> RasAnswer:
    """The page of releases without JSON: it names the ranks that differ, and counts the others in groups."""
    page = _Page()
    for line in lines(text):
        page.read(line)
    page.close()
    found = tuple(Communicator(_without_groups(each.ranks), each.missing) for each in page.found)
    return RasAnswer(found, _rank_pids(found))


@dataclass(slots=True)
class _Page:
    found: list[Communicator] = field(default_factory=list[Communicator])
    ranks: dict[int, Rank] = field(default_factory=dict[int, Rank])
    """Groups have numbers below 0."""
    missing: dict[int, Rank] = field(default_factory=dict[int, Rank])
    incomplete: bool = False
    count: int | None = None
    """Size of the group whose ranks follow."""

    def read(self, line: str) -> None:
        head, group, one = _COMMUNICATOR.match(line), _GROUP.match(line), _RANK.match(line)
        if head:
            self.close()
            self.incomplete = "INCOMPLETE" in head["status"]
        elif group:
            self.count = int(group["operation"] or 0)
            name = -1 - len(self.ranks)
            self.ranks[name] = Rank(name, operations=self.count)
        elif one:
            self._add_rank(one)

    def _add_rank(self, one: re.Match[str]) -> None:
        counted = one["operation"] is not None or one["none"] is not None
        count = int(one["operation"] or 0) if counted else self.count
        pid = int(one["pid"]) if one["pid"] else None
        rank = Rank(int(one["rank"]), one["host"] or "", pid, one["gpu"] or "", count)
        into = self.missing if self.incomplete and count is None else self.ranks
        into[rank.rank] = rank

    def close(self) -> None:
        if self.ranks or self.missing:
            self.found.append(Communicator(tuple(self.ranks.values()), tuple(self.missing.values())))
        self.ranks, self.missing, self.count = {}, {}, None


def _without_groups(ranks: Sequence[Rank]) -> tuple[Rank, ...]:
    """A group that was named rank by rank stands for itself no more."""
    counted = {each.operations for each in ranks if each.rank >= 0}
    return tuple(each for each in ranks if each.rank >= 0 or each.operations not in counted)


def _rank_pids(communicators: Sequence[Communicator]) -> frozenset[int]:
    return frozenset(
        rank.pid for each in communicators for rank in (*each.ranks, *each.missing) if rank.pid is not None
    )
