"""Real programs for the GPUs of a fake driver, each with what the driver says of it and the state it must have."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.causes import Cgroup, cgroup, children, data_on_disk, running, wait_until_blocked
from tests.fake_nvml.scenario import Value, node

SPINS: Mapping[str, Value] = {
    "utilization": 100, "memory_utilization": 0, "power_mw": 180_000, "gpm.1": 100, "gpm.2": 12, "gpm.3": 2, "gpm.5": 0,
    "gpm.10": 1, "gpm.11": 0, "gpm.12": 0, "gpm.13": 0,
}  # fmt: skip
DENSE: Mapping[str, Value] = {"utilization": 100, "gpm.1": 100, "gpm.2": 92, "gpm.5": 61, "gpm.10": 30}
OWNERS, USE = 10, 88
"""Of the shared GPU: how many hold it, and the percentage of the time that one of them runs."""
CROWD = 40

CAUSES: tuple[tuple[str, Mapping[str, Value], str], ...] = (
    # what runs on GPU 0, 1, …    what the driver says of it       the state that must win
    ("burn",                      {"utilization": 30},             "wait_cpu"),
    ("read slowly",               {"utilization": 20},             "wait_storage"),
    ("blocked",                   {"utilization": 0},              "wait_storage"),
    ("asleep, never ran",         {"utilization": 0},              "allocated_unused"),
    ("asleep between kernels",    {"utilization": 20},             "wait_other"),
    ("rank of a pair, computes",  {**DENSE, "gpm.20": 4000, "gpm.21": 4000}, "computing"),
    ("rank of a pair, waits",     {"utilization": 5, "gpm.1": 5, "gpm.20": 200, "gpm.21": 200}, "wait_peer"),
    ("rank of a pair, unused",    {"utilization": 0},              "allocated_unused"),
    ("idle server that polls",    {"utilization": 0},              "wait_requests"),
    ("write slowly",              {"utilization": 20},             "wait_checkpoint"),
    ("rank that spins",           SPINS,                           "wait_collective"),
    ("rank that receives",        {"utilization": 0},              "wait_network"),
    ("fp32",                      {**DENSE, "gpm.2": 95, "gpm.5": 0, "gpm.12": 60}, "tensor_cores_unused"),
    ("flagged as hot",            {**DENSE, "event_ns.sw_thermal": "rate 950000000", "clock.1": 1950}, "computing"),
    ("nothing",                   {"utilization": 0},              "free"),
    ("bare program, computes",    DENSE,                           "computing"),
    ("bare program, hardly ran",  {"utilization": 5},              "wait_other"),
    ("bare program, never ran",   {"utilization": 0},              "allocated_unused"),
    ("video, no kernel",          {"utilization": 0, "encoder_utilization": 95}, "wait_other"),
    ("ten owners, one runs",      {**DENSE, "utilization": USE},   "computing"),
    ("loader is full, in a crowd", {"utilization": 30},            "wait_cpu"),
    ("crowd",                     {"utilization": 30},             "wait_other"),
)  # fmt: skip
GPU = {name: gpu for gpu, (name, _, _) in enumerate(CAUSES)}


class Runs(NamedTuple):
    """One process on a GPU; `sm` is what the driver says of it alone, as a percentage."""

    pid: int
    sm: int = 0


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Mapping[str, Sequence[Runs]]]:
    """What runs on the GPU of each cause: each owner in a cgroup of its own, but for the bare ones."""
    with contextlib.ExitStack() as stack:

        def own(name: str) -> Cgroup:
            return stack.enter_context(cgroup(name))

        def start(*arguments: str, within: Cgroup | None = None) -> int:
            return stack.enter_context(running(*arguments, within=within))

        slow, slow_write, pair, stuck, ranks = (own(each) for each in ("slow", "write", "pair", "stuck", "ranks"))
        slow.slow_disk_of(folder, 2 << 20)
        slow_write.slow_disk_of(folder, 8 << 20, writes=True)
        blocked = start("blocked", within=stuck)
        wait_until_blocked(blocked)
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = str(_port_of_a_service())
        crowd = start("crowd", str(CROWD - 1), within=own("crowd"))
        alone = {
            "burn": start("burn", within=own("burn")),
            "read slowly": start("read", str(data_on_disk(folder)), within=slow),
            "blocked": blocked,
            "asleep, never ran": start("sleep", within=own("asleep")),
            "asleep between kernels": start("sleep", within=own("pauses")),
            "rank of a pair, computes": start("serve", port, within=pair),
            "rank of a pair, waits": start("follow", port, within=pair),
            "rank of a pair, unused": start("sleep", within=pair),
            "idle server that polls": start("serve", str(_port_of_a_service()), within=own("server")),
            "write slowly": start("write", str(folder / "checkpoint"), within=slow_write),
            "rank that spins": start("burn", within=ranks),
            "rank that receives": start("receive", str(silent.getsockname()[1]), within=ranks),
            "fp32": start("sleep", within=own("fp32")),
            "flagged as hot": start("sleep", within=own("hot")),
            "video, no kernel": start("sleep", within=own("video")),
            "bare program, computes": start("sleep"),
            "bare program, hardly ran": start("sleep"),
            "bare program, never ran": start("sleep"),
            "loader is full, in a crowd": start("loader", within=own("loader")),
        }
        shared = [start("sleep", within=own(f"share-{number}")) for number in range(OWNERS)]
        yield {
            **{name: [Runs(pid)] for name, pid in alone.items()},
            "ten owners, one runs": [Runs(pid, 0 if number else USE) for number, pid in enumerate(shared)],
            "crowd": [Runs(pid) for pid in (crowd, *children(crowd))],
        }


def driver(running_on: Mapping[str, Sequence[Runs]]) -> dict[str, Value]:
    """The scenario of a node with all of them."""
    told = {f"gpu{gpu}.{key}": value for gpu, (_, each, _) in enumerate(CAUSES) for key, value in each.items()}
    on_gpus: dict[str, Value] = {
        f"gpu{GPU[name]}.process.{number}": f"{each.pid} C 1073741824 {each.sm} 0 0 0"
        for name, runs in running_on.items()
        for number, each in enumerate(runs)
    }
    return {**node(len(CAUSES)), **on_gpus, **told}


def _port_of_a_service() -> int:
    """A free one below those that the kernel gives to anybody."""
    for port in range(20000 + os.getpid() % 1000, 30000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    pytest.fail("no free port")
