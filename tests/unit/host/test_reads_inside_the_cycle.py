"""Looks inside a cycle find the part of it that a process was in D state, whatever the cycle's own look sees."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.host.process import parse_stat
from exporter.host.text import read_text
from exporter.host.threads import ThreadReader

SLEEPS_IN_D = """
#include <unistd.h>
/* Reads a byte: then its child reads one, and until the child ends the parent is in D state, as vfork has it. */
int main(void)
{
    char byte;
    while (read(0, &byte, 1) == 1) {
        if (vfork() == 0)
            _exit(read(0, &byte, 1) != 1);
        if (write(1, ".", 1) != 1)
            return 1;
    }
    return 0;
}
"""


class Program:
    """A process that is in D state on request."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.pid, self._child = child.pid, child

    def block(self) -> None:
        self._send()
        self._until("D")

    def unblock(self) -> None:
        self._send()
        assert self._child.stdout is not None
        assert self._child.stdout.read(1) == b"."
        self._until("S")

    def _send(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(b".")
        self._child.stdin.flush()

    def _until(self, state: str) -> None:
        deadline = time.monotonic() + 20
        while (stat := parse_stat(read_text(f"/proc/{self.pid}/stat"))) and stat.state != state:
            assert time.monotonic() < deadline, f"{stat.state} instead of {state}"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    source, built = tmp_path / "program.c", tmp_path / "program"
    source.write_text(SLEEPS_IN_D)
    subprocess.run(["gcc", "-w", source, "-o", built], check=True)
    with subprocess.Popen([built], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        yield Program(child)
        child.kill()


def test_process_that_is_blocked_half_of_the_time_between_two_cycles_is_found_half_blocked(program: Program) -> None:
    """Steps in phase with the cycles: the look of a cycle never finds it in D state."""
    reader = ThreadReader(Path("/proc"))

    def blocked(now: float) -> float:
        (tasks,) = reader.read({"job": [program.pid]}, now).values()  # type: ignore[arg-type]
        return max(task.blocked for task in tasks.values())

    assert blocked(0.0) == 0.0

    program.block()
    reader.reread([program.pid, 1])
    reader.reread([program.pid, 1])
    program.unblock()
    reader.reread([program.pid, 1])
    reader.reread([program.pid, 1])

    assert blocked(1.0) == 0.5
    assert blocked(2.0) == 0.0
