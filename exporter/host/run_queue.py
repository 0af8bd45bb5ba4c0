"""/proc/PID/schedstat: how a task got the CPU it wanted."""

from __future__ import annotations

from typing import NamedTuple

from exporter.host.text import natural


class RunQueue(NamedTuple):
    """Nanoseconds on a CPU, and ready without one, and how often it got one."""

    used: int
    delay: int
    turns: int


def parse_run_queue(text: str) -> RunQueue | None:
    numbers = [natural(word) for word in text.split()[:3]]
    known = [number for number in numbers if number is not None]
    return RunQueue(*known) if len(known) == len(RunQueue._fields) else None
