"""How the cost of a cycle grows with GPUs, processes, workloads and MIG instances: one line for each node.

Run by `make bench`. All in CPU milliseconds of a cycle, beside what its driver calls alone cost in C at that moment.
"""

from __future__ import annotations

import subprocess
import sys

NODES = (
    # GPUs, processes, workloads, MIG instances, microseconds of a driver call
    (1, 8, 1, 0, 0), (8, 8, 8, 0, 0), (8, 32, 8, 0, 0), (8, 32, 8, 0, 20), (16, 32, 8, 0, 0),
    (8, 256, 8, 0, 0), (8, 256, 72, 0, 0), (8, 1000, 8, 0, 0), (8, 0, 8, 56, 0),
)  # fmt: skip


def main() -> int:
    sys.stdout.write("GPUs processes workloads  MIG µs/call   median     10 %   C floor  10%/floor  RSS MiB\n")
    sys.stdout.flush()
    for gpus, processes, workloads, mig, call_us in NODES:
        options = (
            ("gpus", gpus),
            ("processes", processes),
            ("workloads", workloads),
            ("mig", mig),
            ("call-us", call_us),
        )
        given = [word for name, value in options for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "tests.bench.cycles", "--brief", "--cycles", "30", *given]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
