"""What the exporter costs on a full node: 8 GPUs, 32 processes, one cycle a second, over the fake driver library.

Run by `make bench`. Figures are of this machine and this moment; compare them only within one run, which is why each
cost is also shown as a multiple of a yardstick measured beside it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import requests

from tests.bench.load import environment, scenario, sleepers
from tests.exporter_process import Running, exporter, parse
from tests.fake_nvml.scenario import Scenario
from tests.stack import poll

GPUS, PROCESSES, SECONDS, SCRAPES = 8, 32, 48, 300
SETTLE_SECONDS = 5.0
"""After a scrape, until its cost is over."""
EVERY = 15.0
"""Seconds between scrapes, as Prometheus is mostly set up."""
LEARNT = 3
"""Scrapes after which the next one is expected."""


def yardstick() -> float:
    """CPU seconds of a fixed piece of Python, to hold the other figures against on a noisy machine."""
    started = time.process_time()
    sum(len(str(number)) for number in range(1_000_000))
    return time.process_time() - started


def value(running: Running, name: str) -> float:
    found = running.metrics(timeout=10).one(name)
    assert found is not None, name
    return found


@dataclass(frozen=True, slots=True)
class Sampling:
    """With nobody scraping."""

    core: float
    """Share of one core."""
    calls: float
    """Of the driver, per GPU and minute."""
    per_cycle: float
    """CPU milliseconds."""


def sampling(running: Running) -> Sampling:
    """CPU time is the kernel's, of a span in which nobody scrapes: a scrape costs as much as seconds of sampling."""
    names = ("gpu_exporter_driver_calls_total", "gpu_exporter_sampling_cycles_total")
    scraped_at, before = time.monotonic(), [value(running, name) for name in names]
    time.sleep(SETTLE_SECONDS)
    started, cpu = time.monotonic(), cpu_seconds(running.process.pid)
    time.sleep(SECONDS)  # the span that is measured
    core = (cpu_seconds(running.process.pid) - cpu) / (time.monotonic() - started)
    seconds = time.monotonic() - scraped_at
    calls, cycles = (value(running, name) - old for name, old in zip(names, before, strict=True))
    return Sampling(core, calls / GPUS / seconds * 60, core * seconds / cycles * 1000)


def cpu_seconds(pid: int) -> float:
    """Of all its threads, by the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def scraped(running: Running) -> float:
    """Share of one core while it is scraped as by Prometheus, for a minute, once it knows the pace."""
    _scrape(running, LEARNT)
    started, cpu = time.monotonic(), cpu_seconds(running.process.pid)
    _scrape(running, 4)
    return (cpu_seconds(running.process.pid) - cpu) / (time.monotonic() - started)


def _scrape(running: Running, times: int) -> None:
    due = time.monotonic()
    for _ in range(times):
        due += EVERY
        time.sleep(due - time.monotonic())
        requests.get(f"{running.url}/metrics", timeout=10)


def scraping(running: Running) -> list[float]:
    """Milliseconds of each of many scrapes over one connection, by a client that costs next to nothing itself."""
    times: list[float] = []
    connection = HTTPConnection(urlsplit(running.url).netloc, timeout=10)
    for _ in range(SCRAPES):
        started = time.perf_counter()
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        times.append((time.perf_counter() - started) * 1000)
    connection.close()
    return times


def series(running: Running) -> tuple[int, int, int]:
    """Series in all, per GPU without its processes and owners, and bytes of the page."""
    text = requests.get(f"{running.url}/metrics", timeout=10).text
    found = parse(text)
    device = [
        name
        for name, labels in found.values
        if "uuid" in dict(labels) and not name.startswith(("gpu_process_", "gpu_owner_", "gpu_workload_"))
    ]
    return len(found.values), round(len(device) / GPUS), len(text)


def main() -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids = stack.enter_context(sleepers(PROCESSES))
        file = folder / "scenario"
        Scenario(file, scenario(GPUS, pids))
        started = time.monotonic()
        # The fake driver's event wait polls; a real one sleeps in the kernel.
        options = ("--log.level", "error", "--collectors.disable=xid")
        running = stack.enter_context(exporter(folder, *options, environment=environment(file)))
        first = time.monotonic() - started
        poll("all GPUs", lambda: sum(running.metrics(10).all("gpu_up")) == GPUS or None)
        unit = yardstick()
        unscraped = sampling(running)
        often = scraped(running)
        times = sorted(scraping(running))
        total, per_gpu, size = series(running)
        resident = value(running, "process_resident_memory_bytes") / 2**20
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    rows = (
        ("start to first scrape with a cycle", f"{first:.2f} s", "1 s"),
        ("nobody scrapes, share of one core", f"{unscraped.core:.2%}", "1.5 %"),
        ("  and a scrape every 15 s", f"{often:.2%}", ""),
        ("  CPU of a cycle", f"{unscraped.per_cycle:.2f} ms = {unscraped.per_cycle / 1000 / unit:.4f} yardsticks", ""),
        ("driver calls per GPU and minute", f"{unscraped.calls:.0f}", ""),
        ("scrape, median", f"{p50:.2f} ms = {p50 / 1000 / unit:.4f} yardsticks", "1 ms"),
        ("scrape, 99th percentile", f"{p99:.2f} ms", "3 ms"),
        ("resident memory", f"{resident:.1f} MiB", "34 MiB"),
        ("series", f"{total} ({size} bytes), {per_gpu} per GPU", "120 per GPU"),
        ("yardstick (a million str and len)", f"{unit * 1000:.0f} ms", ""),
    )
    sys.stdout.write(f"{GPUS} GPUs, {PROCESSES} processes, fake driver library\n")
    for name, found, budget in rows:
        sys.stdout.write(f"  {name:<38} {found:<40} {f'budget {budget}' if budget else ''}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
