"""What each call of the progress client costs the program that makes it: run by `make bench`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy/progress"))

from gpu_progress import Progress

CALLS, ROUNDS = 1000, 500
BUDGET = 1000.0


def nanoseconds(call: Callable[[], object]) -> float:
    """Of one call, the loop around it taken off; the best of a few rounds."""

    def once(body: Callable[[], object]) -> float:
        began = time.perf_counter()
        for _ in range(CALLS):
            body()
        return (time.perf_counter() - began) / CALLS * 1e9

    empty = min(once(lambda: None) for _ in range(ROUNDS))
    return min(once(call) for _ in range(ROUNDS)) - empty


def main() -> int:
    progress = Progress("/nowhere/progress.sock", total=1e9)
    phase = progress.phase("forward")

    def inside() -> None:
        with phase:
            pass

    @progress.phase("backward")
    def decorated() -> None:
        pass

    items = iter(progress.data(range(1 << 60)))
    calls: dict[str, Callable[[], object]] = {
        "phase, context manager": inside,
        "phase, decorator": decorated,
        "item of a loader": lambda: next(items),
        "step(samples=64)": lambda: progress.step(samples=64),
        "send() to nobody": progress.send,
    }
    for name, call in calls.items():
        budget = f"budget {BUDGET:.0f} ns" if name.startswith("phase") else ""
        sys.stdout.write(f"  {name:<26} {nanoseconds(call):8.0f} ns   {budget}".rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
