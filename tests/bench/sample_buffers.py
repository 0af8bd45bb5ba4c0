"""How far `gpu_busy_seconds_total` is from the truth, by kind of the driver's sample buffer and by load.

`python -m tests.bench.sample_buffers` prints the table of docs/dev/sample-buffers.md. The real NVML driver reads the
fake library, which plays one GPU for each cell; the clock is the scenario's, so four minutes take a few seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.collectors.base import Tick
from exporter.collectors.utilization import UTILIZATION, Utilization
from exporter.core.clock import UnixTime
from exporter.driver.interface import Device
from exporter.driver.nvml import NvmlDriver
from tests.fake_nvml.build import build
from tests.fake_nvml.scenario import Scenario, Value, node

PERIOD = 1 / 6
WARM_SECONDS, MEASURED_SECONDS = 40, 240
BEGIN = 100.3
"""Seconds after the epoch of the fake driver."""
MAX_JITTER_SECONDS = 0.1
"""By which sampling cycles start late or early."""
STRIDE = 0.618034
"""From cycle to cycle, of the phase at which a cycle is read again: as in `Loop`, without its random start."""


def depth(seconds: float, **more: Value) -> Mapping[str, Value]:
    return {"sample_depth": round(seconds / PERIOD), **more}


BUFFERS: Mapping[str, Mapping[str, Value]] = {
    "1 s": depth(1),
    "1 s, samples of 1 s": {"sample_period_ms": 1000, "sample_depth": 1},
    "2 s": depth(2),
    "5 s": depth(5),
    "14 s": depth(14),
    "20 s": depth(20),
    "14 s, samples of 17 ms": {"sample_period_ms": 17, "sample_depth": 820},
    "14 s, none while idle": depth(14, samples_idle=0),
    "1 s, none while idle": depth(1, samples_idle=0),
    "14 s, samples of 0.1 s, none while idle": {"sample_period_ms": 100, "sample_depth": 140, "samples_idle": 0},
    "14 s, samples of 2 s": {"sample_period_ms": 2000, "sample_depth": 7},
    "14 s, samples of 2 s, none while idle": {"sample_period_ms": 2000, "sample_depth": 7, "samples_idle": 0},
    "20 s, batches of 10 s": depth(20, sample_batch_s=10),
    "10 s, batches of 10 s": depth(10, sample_batch_s=10),
    "20 s, batches of 10 s, none while idle": depth(20, sample_batch_s=10, samples_idle=0),
    "none": {"samples": 0},
    "none, readings of 1 s": {"samples": 0, "sample_period_ms": 1000},
}
LOADS: Mapping[str, str] = {
    "60 %": "60",
    "0.5 s of 0.8 s": "square 0 100 0.8 0.625",
    "0.3 s of 1 s": "square 0 100 1 0.3",
    "0.04 s of 0.4 s": "square 0 100 0.4 0.1",
    "1 s of 10 s": "square 0 100 10 0.1",
    "3.1 s of 41 s": "square 0 100 41 0.0756097561",
    "76 to 90 %": "square 76 90 20 0.5",
}


@dataclass(slots=True)
class Measured:
    """One GPU: the busy seconds when measuring began, and the last reading."""

    device: Device
    began: float = 0.0
    lost: float = 0.0
    reading: Utilization | None = None

    def seconds(self, name: str) -> float:
        busy = self.reading.busy if self.reading else None
        return float(getattr(busy, name, 0.0))


def cells() -> Sequence[tuple[str, str]]:
    return [(buffer, load) for buffer in BUFFERS for load in LOADS]


def scenario_of() -> dict[str, Value]:
    values = {**node(len(cells())), "epoch": 1_700_000_000, "clock": BEGIN}
    for gpu, (buffer, load) in enumerate(cells()):
        values[f"gpu{gpu}.utilization"] = LOADS[load]
        values |= {f"gpu{gpu}.{key}": value for key, value in BUFFERS[buffer].items()}
    return values


def moments(rows: int) -> Iterator[float]:
    """Yield when each cycle starts."""
    for number in range(rows):
        yield BEGIN + number + ((number * 7919) % 41 - 20) / 20 * MAX_JITTER_SECONDS


def measure(scenario: Scenario) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Return the error in points, and the seconds published as lost, of each cell."""
    driver = NvmlDriver()
    driver.open()
    gpus = [Measured(device) for device in driver.devices()]
    times = list(moments(WARM_SECONDS + MEASURED_SECONDS + 1))
    for number, now in enumerate(times):
        scenario.set({"clock": f"{now:.6f}"})
        seconds = now - times[number - 1] if number else 0.0
        for gpu in gpus:
            gpu.reading = UTILIZATION.read(gpu.device, gpu.reading, Tick(UnixTime(1_700_000_000 + now), seconds))
            if number == WARM_SECONDS:
                gpu.began, gpu.lost = gpu.seconds("total"), gpu.seconds("lost")
        if number + 1 < len(times):
            _read_again(scenario, gpus, now, number * STRIDE % 1.0)
    driver.close()
    span = (times[WARM_SECONDS], times[-1])
    return {
        (buffer, load): (
            ((gpu.seconds("total") - gpu.began) / (span[1] - span[0]) - truth(LOADS[load], *span)) * 100,
            gpu.seconds("lost") - gpu.lost,
        )
        for gpu, (buffer, load) in zip(gpus, cells(), strict=True)
    }


def _read_again(scenario: Scenario, gpus: Sequence[Measured], now: float, phase: float) -> None:
    if not hasattr(UTILIZATION, "extra_reads"):  # an earlier revision
        return
    numbers = {id(gpu): UTILIZATION.extra_reads(gpu.reading, 1.0) for gpu in gpus if gpu.reading}
    times = sorted({(place + phase) / number for number in numbers.values() for place in range(number)})
    for time in times:
        scenario.set({"clock": f"{now + time:.6f}"})
        for gpu in gpus:
            number = numbers[id(gpu)]
            if gpu.reading and any(time == (place + phase) / number for place in range(number)):
                gpu.reading = UTILIZATION.read_again(gpu.device, gpu.reading)


def truth(load: str, start: float, end: float) -> float:
    """Mean of a load between two times, 0 to 1."""
    words = load.split()
    if len(words) == 1:
        return float(words[0]) / 100
    low, high, period, duty = map(float, words[1:])
    steps = 200_000
    times = (start + (end - start) * (step + 0.5) / steps for step in range(steps))
    return sum(high if time % period < duty * period else low for time in times) / steps / 100


def main() -> int:
    if "--inside" not in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "scenario"
            environment = {**os.environ, "LD_LIBRARY_PATH": str(build()), "FAKE_NVML_SCENARIO": str(file)}
            command = [sys.executable, "-m", "tests.bench.sample_buffers", "--inside"]
            return subprocess.run(command, env=environment, check=False).returncode
    errors = measure(Scenario(Path(os.environ["FAKE_NVML_SCENARIO"]), scenario_of()))
    lines = ["| buffer | " + " | ".join(LOADS) + " | lost, s |", "|---" * (len(LOADS) + 2) + "|"]
    for buffer in BUFFERS:
        row = [errors[buffer, load] for load in LOADS]
        points = " | ".join(f"{error:+.1f}" for error, _ in row)
        lines.append(f"| {buffer} | {points} | {max(lost for _, lost in row):.1f} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
