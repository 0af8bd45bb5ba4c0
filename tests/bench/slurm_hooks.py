"""What prolog and epilog add to a job: run by `make bench` for a job that holds all 8 GPUs, beside an empty script."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

KIT = Path(__file__).resolve().parents[2] / "deploy/slurm"
COMMANDS = {
    "sh -c :": ("/bin/sh", "-c", ":"),
    "prolog": (str(KIT / "prolog.d/gpu-exporter"),),
    "epilog": (str(KIT / "epilog.d/gpu-exporter"),),
}
JOBS, BUDGET = 200, "20 ms"


def milliseconds(command: Sequence[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True)
    return (time.perf_counter() - started) * 1000


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for job in range(1, JOBS + 1):
            environment = {**os.environ, "GPU_EXPORTER_JOBS": f"{folder}/jobs", "SLURM_JOB_GPUS": "0-7"}
            environment["SLURM_JOB_ID"] = str(job)
            for name, command in COMMANDS.items():
                times[name].append(milliseconds(command, environment))
    empty = statistics.median(times["sh -c :"])
    sys.stdout.write(f"{JOBS} jobs on 8 GPUs, one after the other, start of the shell included\n")
    for name, took in times.items():
        median, ninety_ninth = statistics.median(took), sorted(took)[int(JOBS * 0.99) - 1]
        figures = f"{median:.1f} ms median = {median / empty:.1f} empty scripts, {ninety_ninth:.1f} ms p99"
        budget = "" if name == "sh -c :" else f"budget {BUDGET}"
        sys.stdout.write(f"  {name:<10} {figures:<56} {budget}".rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
