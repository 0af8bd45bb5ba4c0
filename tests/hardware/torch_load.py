"""One load on the GPU, until standard input ends. What it did goes to standard output, a JSON object a line.

torch_load.py KIND [NUMBER]

The first line has `event` "ready", then "progress" twice a second or so, "mark" after each line of input, at last
"end". Each has the Unix `time`, and since "ready": `steps`, `kernel_seconds` (by CUDA events), `waited_seconds` (of
those, in a collective), `flops`, `bytes`; and of torch's allocator `reserved` bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from nccl_wait import waiting  # beside this program

_REPORT = 0.5
_PERIOD = 0.4
"""Seconds of one turn of a duty cycle: no multiple of a driver's sampling period (1/6 s to 1 s)."""
_GIB = 1 << 30
_SIDE, _SMALL_SIDE = 8192, 4096


@dataclass
class Done:
    steps: int = 0
    kernel_seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    waited_seconds: float = 0.0
    started: Any = field(default_factory=lambda: torch.cuda.Event(enable_timing=True))
    ended: Any = field(default_factory=lambda: torch.cuda.Event(enable_timing=True))

    def burst(self, work: Callable[[], object], times: int) -> float:
        """Queue `work` so often without a gap, wait for it, and count the seconds from its first kernel to its last."""
        self.started.record()
        for _ in range(times):
            work()
        self.ended.record()
        self.ended.synchronize()
        seconds = self.started.elapsed_time(self.ended) / 1000
        self.kernel_seconds += seconds
        self.steps += times
        return seconds


def say(event: str, done: Done, **more: Any) -> None:
    names = ("steps", "kernel_seconds", "waited_seconds", "flops", "bytes")
    found = {name: getattr(done, name) for name in names}
    line = {"event": event, "time": time.time(), "pid": os.getpid(), **found, **more}
    print(json.dumps(line | {"reserved": torch.cuda.memory_reserved()}), flush=True)  # noqa: T201 - the parent reads it


def matrices(side: int) -> tuple[Any, Any, Any]:
    made = [torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    return made[0], made[1], torch.empty_like(made[0])


def multiply(done: Done, side: int, times: int) -> Callable[[], None]:
    a, b, out = matrices(side)

    def step() -> None:
        done.burst(lambda: torch.matmul(a, b, out=out), times)
        done.flops += 2.0 * side**3 * times

    return step


def dense(done: Done) -> Callable[[], None]:
    return multiply(done, _SIDE, 30)


def copy(done: Done) -> Callable[[], None]:
    """An elementwise kernel over 4 GiB in and 4 GiB out: a plain copy might go by a copy engine."""
    source = torch.ones(_GIB, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)

    def step() -> None:
        done.burst(lambda: torch.mul(source, 1.5, out=target), 10)
        done.bytes += 2.0 * source.numel() * source.element_size() * 10

    return step


def tiny(done: Done) -> Callable[[], None]:
    numbers = torch.zeros(32, device="cuda")

    def step() -> None:
        done.burst(lambda: numbers.add_(1.0), 2000)

    return step


def input_bound(done: Done) -> Callable[[], None]:
    """One thread makes each batch in Python for far longer than the GPU needs to work on it."""
    work = multiply(done, _SMALL_SIDE, 50)

    def step() -> None:
        until = time.monotonic() + 0.08
        while time.monotonic() < until:
            sum(range(1000))
        work()

    return step


def held(done: Done) -> Callable[[], None]:
    """Memory that is not even filled: a process that ran one kernel is unused only ten minutes later."""
    kept = torch.empty(8 * _GIB, device="cuda", dtype=torch.uint8)

    def step() -> None:
        assert kept.is_cuda  # it is held as long as the step is
        done.steps += 1
        time.sleep(0.1)

    return step


def duty(done: Done, percent: float) -> Callable[[], None]:
    a, b, out = matrices(_SMALL_SIDE)

    def work() -> object:
        return torch.matmul(a, b, out=out)

    done.burst(work, 50)
    one = done.burst(work, 200) / 200
    times = max(1, round(_PERIOD * percent / 100 / one))

    def step() -> None:
        until = time.monotonic() + _PERIOD
        done.burst(work, times)
        time.sleep(max(0.0, until - time.monotonic()))

    return step


def pcie(done: Done) -> Callable[[], None]:
    """Host to device and back, with a small kernel on each batch."""
    host = torch.empty(_GIB // 4, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(_GIB // 4, device="cuda", dtype=torch.uint8)

    def work() -> None:
        device.copy_(host, non_blocking=True)
        device[:1024].add_(1)
        host.copy_(device, non_blocking=True)

    def step() -> None:
        done.burst(work, 10)
        done.bytes += 2.0 * host.numel() * 10

    return step


def memory(done: Done) -> Callable[[], None]:
    """Takes as many GiB as a line of input says; before that only the CUDA context."""
    torch.zeros(1, device="cuda")

    def step() -> None:
        done.steps += 1
        time.sleep(0.05)

    return step


def pageable(done: Done) -> Callable[[], None]:
    """Copies from memory that is not pinned: the CPU moves each through the driver's own buffers."""
    host = torch.empty(_GIB // 4, dtype=torch.uint8)
    work = multiply(done, _SMALL_SIDE, 20)

    def step() -> None:
        host.to("cuda")
        torch.cuda.synchronize()
        done.bytes += host.numel()
        work()

    return step


def checkpoint(done: Done) -> Callable[[], None]:
    """Work for some 0.2 s, then 1 GiB of it to the disk."""
    kept = torch.empty(_GIB // 4, device="cuda", dtype=torch.float32)
    work = multiply(done, _SMALL_SIDE, 1000)

    def step() -> None:
        work()
        with tempfile.TemporaryFile() as file:
            torch.save(kept, file)
            file.flush()
            os.fsync(file.fileno())

    return step


def compiling(done: Done) -> Callable[[], None]:
    """A function compiled anew in each step, as with shapes that change, and run once."""
    numbers = torch.ones(1 << 20, device="cuda")

    def step() -> None:
        torch.compiler.reset()
        factor = 1.0 + done.steps
        compiled = torch.compile(lambda x: torch.sin(x * factor) + torch.cos(x).sum())
        done.burst(lambda: compiled(numbers), 1)

    return step


def polling(done: Done) -> Callable[[], None]:
    """A server whose thread asks for requests without a pause: two a second, each some 5 ms of work."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)  # noqa: FBT003 - the name of the argument is not known to socket
    work = multiply(done, _SMALL_SIDE, 20)
    due = [time.monotonic()]

    def step() -> None:
        while time.monotonic() < due[0]:
            with contextlib.suppress(BlockingIOError):
                listening.accept()
        due[0] = time.monotonic() + 0.5
        work()

    return step


KINDS: dict[str, Callable[..., Callable[[], None]]] = {
    "dense": dense, "copy": copy, "tiny": tiny, "input": input_bound, "held": held, "duty": duty, "pcie": pcie,
    "memory": memory, "collective": waiting, "pageable": pageable, "checkpoint": checkpoint, "compiling": compiling,
    "polling": polling,
}  # fmt: skip


def main(kind: str, *numbers: str) -> None:
    done, taken = Done(), []
    step = KINDS[kind](done, *map(float, numbers))
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    done.steps, done.kernel_seconds, done.waited_seconds, done.flops, done.bytes = 0, 0.0, 0.0, 0.0, 0.0
    properties = torch.cuda.get_device_properties(0)
    capability = f"{properties.major}.{properties.minor}"
    say("ready", done, multiprocessors=properties.multi_processor_count, capability=capability, torch=torch.__version__)
    told = time.monotonic()
    while True:
        if select.select([0], [], [], 0)[0]:
            line = os.read(0, 100).strip()
            if not line:
                break
            taken.append(torch.zeros(int(float(line) * _GIB), device="cuda", dtype=torch.uint8))
            torch.cuda.synchronize()
            say("mark", done)
        step()
        if time.monotonic() - told >= _REPORT:
            told = time.monotonic()
            say("progress", done)
    say("end", done)


if __name__ == "__main__":
    main(*sys.argv[1:])
