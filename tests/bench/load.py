"""A full node for the benches: a scenario of the fake driver, and real processes that do nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fake_nvml.build import build
from tests.fake_nvml.scenario import GIB, Value, mig_instance, node


@contextmanager
def sleepers(number: int, workloads: int = 8) -> Iterator[list[int]]:
    """Processes of so many names: bare processes of one name and user are one workload."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    with tempfile.TemporaryDirectory() as folder:
        programs = [Path(folder) / f"work-{place}" for place in range(workloads)]
        for program in programs:
            program.symlink_to(sleep)
        children = [subprocess.Popen([programs[place % workloads], "3600"]) for place in range(number)]
        try:
            yield [child.pid for child in children]
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()


def environment(file: Path) -> dict[str, str]:
    """Of a program that finds the fake driver library and this scenario, and not the state this machine keeps."""
    fake = {"LD_LIBRARY_PATH": str(build()), "FAKE_NVML_SCENARIO": str(file), "GPU_EXPORTER_STATE_DIR": ""}
    return {**os.environ, **fake}


def scenario(gpus: int, pids: Sequence[int], mig: int = 0, call_us: float = 0.0) -> dict[str, Value]:
    """A node whose GPUs the processes are dealt out to, with so many MIG instances in all.

    A driver call costs `call_us` microseconds of CPU time.
    """
    values: dict[str, Value] = {**node(gpus), "call_us": call_us}
    for number, pid in enumerate(pids):
        gpu, slot = number % gpus, number // gpus
        values[f"gpu{gpu}.process.{slot}"] = f"{pid} C {4 * GIB} 10 5 0 0"
    for number in range(mig):
        gpu, place = number % gpus, number // gpus
        values.update(mig_instance(gpu, place, place + 1, "1g.10gb"))
    return values
