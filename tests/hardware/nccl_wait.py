"""One rank that waits for another in NCCL's all-reduce, both on the same GPU.

NCCL refuses two ranks on one GPU of one host, so each is given a host of its own by `NCCL_HOSTID`; they exchange by
TCP. The other rank does nothing between two collectives.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from tests.hardware.torch_load import Done

_SIDE, _PERIOD = 4096, 1.0
"""Side of the matrices; seconds from one collective to the next."""
_MANY = 1 << 22
"""Numbers of 4 bytes that NCCL divides among all its channels."""
_PR_SET_PDEATHSIG = 1
_SOCKETS = {
    "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
}  # fmt: skip


def waiting(done: Done, percent: float, channels: float) -> Callable[[], None]:
    """Multiply matrices, then wait in the collective for `percent` of each second; 100: without any work."""
    port = _free_port()
    subprocess.Popen([sys.executable, __file__, str(port), str(percent / 100 * _PERIOD), str(channels)])
    store, numbers = _join(port, 0, round(channels))
    a, b = (torch.randn(_SIDE, _SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    done.burst(lambda: torch.matmul(a, b, out=out), 50)
    one = done.burst(lambda: torch.matmul(a, b, out=out), 200) / 200
    times = round(_PERIOD * (1 - percent / 100) / one)
    begun = itertools.count()

    def step() -> None:
        if times:
            done.burst(lambda: torch.matmul(a, b, out=out), times)
        store.set(f"step-{next(begun)}", "begun")
        done.waited_seconds += done.burst(lambda: dist.all_reduce(numbers), 1)

    return step


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _join(port: int, rank: int, channels: int) -> tuple[Any, Any]:
    """Return the store that both share, and numbers that are enough for so many channels."""
    os.environ.update(_SOCKETS, NCCL_HOSTID=f"rank-{rank}", NCCL_MIN_NCHANNELS=str(channels))
    torch.cuda.set_device(0)
    store = dist.TCPStore("127.0.0.1", port, 2, is_master=rank == 0)
    dist.init_process_group("nccl", store=store, world_size=2, rank=rank)
    return store, torch.ones(1 if channels == 1 else _MANY, device="cuda")


def _come_late(port: int, seconds: float, channels: int) -> None:
    """Join each collective so late after it began. The kernel ends this process with the first rank."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    store, numbers = _join(port, 1, channels)
    for step in itertools.count():
        store.wait([f"step-{step}"])
        time.sleep(seconds)
        dist.all_reduce(numbers)
        torch.cuda.synchronize()


if __name__ == "__main__":
    _come_late(int(sys.argv[1]), float(sys.argv[2]), round(float(sys.argv[3])))
