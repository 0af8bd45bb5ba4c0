"""A full node for the benches: a scenario of the fake driver, and real processes that do nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.fake_nvml.scenario import GIB, Value, node


@contextmanager
def sleepers(number: int) -> Iterator[list[int]]:
    children = [subprocess.Popen(["sleep", "3600"]) for _ in range(number)]
    try:
        yield [child.pid for child in children]
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


def scenario(gpus: int, pids: Sequence[int]) -> dict[str, Value]:
    """A node whose GPUs the processes are dealt out to."""
    values = node(gpus)
    for number, pid in enumerate(pids):
        gpu, slot = number % gpus, number // gpus
        values[f"gpu{gpu}.process.{slot}"] = f"{pid} C {4 * GIB} 10 5 0 0"
    return values
