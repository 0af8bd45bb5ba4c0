"""nvidia-smi as a second reader of the same GPU."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

QUERY: Mapping[str, str] = {
    # our name          nvidia-smi's             as nvidia-smi says it
    "power_average":  "power.draw.average",    # W
    "power_instant":  "power.draw.instant",    # W
    "utilization":    "utilization.gpu",       # %
    "memory_used":    "memory.used",           # MiB
    "temperature":    "temperature.gpu",       # °C
    "sm_clock":       "clocks.sm",             # MHz
    "power_limit":    "enforced.power.limit",  # W
}  # fmt: skip

_EVERY_MS = 200

Histories = dict[str, list[tuple[float, float]]]


def parse(line: str, names: Sequence[str] = tuple(QUERY)) -> dict[str, float]:
    """A line of `--format=csv,noheader,nounits`; what it calls [N/A] is left out, as is a line of another kind."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(names):
        return {}
    found: dict[str, float] = {}
    for name, cell in zip(names, cells, strict=True):
        with contextlib.suppress(ValueError):
            found[name] = float(cell)
    return found


def program() -> str | None:
    """Where nvidia-smi is; None where it is not."""
    return shutil.which("nvidia-smi")


@contextlib.contextmanager
def watching(index: int, command: str | None) -> Iterator[Histories | None]:
    """Histories of its own readings of GPU `index`, stamped as they arrive; None without a command."""
    if command is None:
        yield None
        return
    arguments = [command, f"--id={index}", f"--query-gpu={','.join(QUERY.values())}",
                 "--format=csv,noheader,nounits", f"--loop-ms={_EVERY_MS}"]  # fmt: skip
    # On a terminal a program's lines come one by one; into a pipe they might come by the page.
    master, terminal = pty.openpty()
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
    os.close(terminal)
    histories: Histories = {}
    thread = threading.Thread(target=_read, args=(master, histories), daemon=True)
    thread.start()
    try:
        yield histories
    finally:
        process.terminate()
        process.wait(10)
        thread.join(10)


def _read(master: int, histories: Histories) -> None:
    with open(master, encoding="utf-8", errors="replace") as lines, contextlib.suppress(OSError):  # EIO is its end
        for line in lines:
            now = time.time()
            for name, value in parse(line).items():
                histories.setdefault(name, []).append((now, value))
