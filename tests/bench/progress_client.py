"""What each call of the progress client costs the program that makes it, in CPU time: run by `make bench`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy/progress"))

from gpu_progress import Progress

CALLS, ROUNDS = 1000, 1000
BUDGET = 1000.0
"""Nanoseconds of what a program calls in each of its steps."""
_UNBUDGETED = "send() to nobody"


def nanoseconds(call: Callable[[], object]) -> float:
    """CPU time of one call, the loop around it taken off: the least of many rounds, which nothing interrupted."""

    def once(body: Callable[[], object]) -> float:
        began = time.thread_time_ns()
        for _ in range(CALLS):
            body()
        return (time.thread_time_ns() - began) / CALLS

    empty = min(once(lambda: None) for _ in range(ROUNDS))
    return min(once(call) for _ in range(ROUNDS)) - empty


def calls() -> dict[str, Callable[[], object]]:
    progress = Progress("/nowhere/progress.sock", total=1e9, interval=0.0)
    phase = progress.phase("forward")

    def inside() -> None:
        with phase:
            pass

    @progress.phase("backward")
    def decorated() -> None:
        pass

    def by_name() -> None:
        with progress.phase("optimizer"):
            pass

    items = iter(progress.data(range(1 << 60)))
    return {
        "phase, context manager": inside,
        "phase, found by its name": by_name,
        "phase, decorator": decorated,
        "item of a loader": lambda: next(items),
        "step()": progress.step,
        "step(samples=64)": lambda: progress.step(samples=64),
        "step(tokens=.., model_flops=..)": lambda: progress.step(tokens=4096, model_flops=1e12),
        _UNBUDGETED: progress.send,
    }


def main() -> int:
    over = 0
    for name, call in calls().items():
        cost = nanoseconds(call)
        budget = "" if name == _UNBUDGETED else f"budget {BUDGET:.0f} ns"
        over += bool(budget) and cost > BUDGET
        sys.stdout.write(f"  {name:<32} {cost:8.0f} ns   {budget}".rstrip() + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
