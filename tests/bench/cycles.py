"""What one cycle and one page cost in CPU time, in one process: 8 GPUs with 4 processes each, fake driver library.

Run by `make bench`; `python -m tests.bench.cycles --profile` prints where a cycle spends its time. Times are CPU times
of the whole process, so they hold on a busy machine too; still, compare them only within one run.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.config.load import load
from exporter.core.clock import Moment
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.daemon.serve import tune_runtime
from exporter.exposition.page import Renderer
from exporter.sampling.sampler import Sampler
from tests.bench.floor import built
from tests.bench.load import environment, scenario, sleepers
from tests.bench.thread_profiles import ThreadProfiles
from tests.fake_nvml.scenario import Scenario

WARM = 8
PAGE_EVERY = 15
GAP = 0.11
"""Seconds between cycles: GPM wants its samples 100 ms apart. They are booked a second apart, as in service."""


def main() -> int:
    given = _arguments()
    if not given.inside:
        return _outside(given)
    profiles = ThreadProfiles() if given.profile else None
    sampler = _sampler(given.options.split())
    tune_runtime()
    found = _measure(sampler, given.cycles)
    if profiles:
        profiles.write(45)
    sampler.stop()
    _write(found, given)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--processes", type=int, default=32, help="of the node")
    parser.add_argument("--workloads", type=int, default=8, help="that the processes are of")
    parser.add_argument("--mig", type=int, default=0, help="MIG instances of the node")
    parser.add_argument("--call-us", type=float, default=0.0, help="CPU time of a driver call, in microseconds")
    parser.add_argument("--brief", action="store_true", help="print one line")
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--options", default="", help="of the exporter")
    parser.add_argument("--profile", action="store_true", help="print where the cycles spend their time")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--floor", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def _outside(given: argparse.Namespace) -> int:
    """The same program again, where the dynamic linker finds the fake library."""
    with tempfile.TemporaryDirectory() as folder, sleepers(given.processes, given.workloads) as pids:
        file = Path(folder) / "scenario"
        Scenario(file, scenario(given.gpus, pids, given.mig, given.call_us))
        found = environment(file)
        floor = subprocess.run(
            [built(Path(folder)), str(given.gpus), "40"], env=found, check=True, capture_output=True, text=True
        ).stdout.strip()
        command = (sys.executable, "-m", "tests.bench.cycles", "--inside", "--floor", floor, *sys.argv[1:])
        return subprocess.run(command, env=found, check=False).returncode


def _sampler(options: Sequence[str]) -> Sampler:
    settings = load(DaemonConfig, ["--state.dir=", *options], {})
    exporter = assembly.assemble(settings, lambda _: None)
    exporter._sampler.start()
    return exporter._sampler


@dataclass(slots=True)
class Measured:
    """CPU seconds; `yardsticks` are a fixed piece of Python beside each cycle, to hold the others against."""

    yardsticks: list[float] = field(default_factory=list[float])
    cycles: list[float] = field(default_factory=list[float])
    pages: list[float] = field(default_factory=list[float])
    zipping: float = 0.0
    body: bytes = b""
    zipped: bytes = b""


def _measure(sampler: Sampler, number: int) -> Measured:
    renderer, found = Renderer(), Measured()
    for second in range(-WARM, number):
        at = Moment(time.time(), float(second))
        started = time.process_time()
        blocks = sampler.run_cycle(at).blocks
        spent = time.process_time() - started
        if second >= 0:
            found.cycles.append(spent)
            found.yardsticks.append(_yardstick())
        if second % PAGE_EVERY == 0:
            started = time.process_time()
            found.body = renderer.render(blocks, "")[1]
            found.pages.append(time.process_time() - started)
        time.sleep(GAP)
    started = time.process_time()
    found.zipped = gzip.compress(found.body, 1, mtime=0)
    found.zipping = time.process_time() - started
    return found


def _write(found: Measured, given: argparse.Namespace) -> None:
    if given.brief:
        median, tenth = statistics.median(found.cycles) * 1e3, sorted(found.cycles)[len(found.cycles) // 10] * 1e3
        sys.stdout.write(
            f"{given.gpus:4} {given.processes:9} {given.workloads:9} {given.mig:4} {given.call_us:7.0f} "
            f"{median:8.2f} {tenth:8.2f} {given.floor:8.2f} {tenth / given.floor:8.1f} {_resident_mib():7.1f}\n"
        )
        return
    series = sum(line[:1] not in {b"#", b""} for line in found.body.split(b"\n"))
    first, *pages = found.pages
    rows = (
        ("cycle over a yardstick, median", f"{_ratio(found.cycles, found.yardsticks):.2f}"),
        ("cycle, 10 % / median / 90 %", _three(found.cycles)),
        ("the same driver calls in C", f"{given.floor:.2f} ms"),
        ("page, first / median", f"{first * 1e3:.2f} / {statistics.median(pages) * 1e3:.2f} ms"),
        ("gzip", f"{found.zipping * 1e3:.2f} ms, {len(found.body)} to {len(found.zipped)} bytes"),
        ("series", f"{series}"),
        ("resident memory", f"{_resident_mib():.1f} MiB"),
    )
    sys.stdout.write(f"{given.gpus} GPUs, {given.processes} processes, CPU time of {given.cycles} cycles\n")
    for name, text in rows:
        sys.stdout.write(f"  {name:<32} {text}\n")


def _yardstick() -> float:
    started = time.process_time()
    sum(len(str(number)) for number in range(20_000))
    return time.process_time() - started


def _ratio(seconds: Sequence[float], yardsticks: Sequence[float]) -> float:
    return statistics.median(spent / unit for spent, unit in zip(seconds, yardsticks, strict=True))


def _three(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    tenth, ninety = ordered[len(ordered) // 10], ordered[int(len(ordered) * 0.9)]
    return f"{tenth * 1e3:.2f} / {statistics.median(seconds) * 1e3:.2f} / {ninety * 1e3:.2f} ms"


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
