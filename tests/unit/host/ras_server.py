"""A RAS port as NCCL has one, on loopback: well, of an older release, or broken in some way."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any


def rank(number: int, operations: int, pid: int = 0) -> dict[str, Any]:
    counts = {"Broadcast": 1, "AllReduce": operations, "Send": number}
    return {"rank": number, "host": f"node{number // 8}", "pid": pid or 4000 + number, "cuda_dev": number % 8,
            "nvml_dev": number % 8, "collective_counts": counts, "status": {"abort_flag": False}}  # fmt: skip


def page(*ranks: Mapping[str, Any], missing: tuple[Mapping[str, Any], ...] = ()) -> str:
    """One communicator, as JSON."""
    one = {"hash": "0x1", "size": len(ranks), "ranks": list(ranks), "missing_ranks": list(missing)}
    return json.dumps({"nccl_version": "2.28.9", "communicators": [one], "ras": {"timeouts_count": 0}})


TEXT = """\
NCCL version 2.24.3 compiled with CUDA 12.8
Job summary
===========
  Nodes  Processes         GPUs  Processes     GPUs
      1          4            1          4        4
Communicators... (0.00s)
Errors
======
Warnings
========
#0-0 (8a8c9e0f1b2c3d4e) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 1200
  Rank 2 has launched up to operation 1199 -- GPU 2 managed by process 4002 on node 10.0.0.7
"""


@contextlib.contextmanager
def ras_server(
    *answers: str, json_known: bool = True, how: str = "well", silent_first: int = 0, host: str = "127.0.0.1"
) -> Iterator[tuple[str, int]]:
    """`how`: `well`, `silent`, `endless`, `other` (no RAS), `closes`. Each connection has the next answer of `answers`.

    The first `silent_first` connections are with a process that hangs.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    ways = itertools.chain(["silent"] * silent_first, itertools.repeat(how))
    thread = threading.Thread(target=_serve, args=(listener, answers, json_known, ways), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[:2]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _serve(listener: socket.socket, answers: tuple[str, ...], json_known: bool, ways: Iterator[str]) -> None:  # noqa: FBT001 - of the fixture
    held: list[socket.socket] = []
    told = itertools.cycle(answers)
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            how = next(ways)
            if how == "silent":
                held.append(connection)
            elif how == "closes":
                connection.close()
            else:
                with connection, contextlib.suppress(OSError):
                    _talk(connection, next(told), json_known, how)
    for each in held:
        each.close()


def _talk(connection: socket.socket, answer: str, json_known: bool, how: str) -> None:  # noqa: FBT001 - as above
    lines = connection.makefile("r")
    for line in lines:
        command = line.strip().lower()
        if how == "other":
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")
        elif command.startswith("client protocol"):
            connection.sendall(b"SERVER PROTOCOL 2\n")
        elif command.startswith("timeout") or (command.startswith("set format") and json_known):
            connection.sendall(b"OK\n")
        elif command == "verbose status":
            while how == "endless":
                connection.sendall(b" " * 65536)
            connection.sendall(answer.encode())
            lines.close()
            return
        else:
            connection.sendall(b"ERROR: Unknown command\n")
