"""A hundred thousand cycles with processes and users that come and go: memory, threads, descriptors and totals.

Run by `make soak`. Cycles run one after the other on simulated time, through the sampler, the ledger and the renderer
as they are in the exporter; the GPU is simulated, the processes on it are real ones of this machine's /proc, each
of a user that nobody had before. The first tenth warms up: caches fill.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.assembly.config import OFF, AttributionConfig, SlurmConfig
from exporter.attribution.assembly.factory import attribution
from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment
from exporter.core.threads import Threads
from exporter.daemon.serve import tune_runtime
from exporter.exposition.page import PageStore
from exporter.host.process import UserNames
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.this_host import Paths, ThisHost
from exporter.tools.simulator import simulate
from tests.soak.churn import RealProcesses, churn

SLOTS, LIFE, SCRAPE_EVERY = 2, 20, 15
"""Processes on the one GPU, cycles that each is there, cycles between scrapes."""
DEADLINE = 60.0
"""Seconds a cycle waits for the GPUs: a busy machine makes no thread of its own for one that is late."""
WARM_UP = 1
"""Tenths."""
MAX_SLOPE = 1.0
"""MiB that the memory may grow by after the warm-up."""
MAX_APART = 1e-3
"""Seconds by which the time of a GPU, the sum of its states, may differ from what was booked."""


@dataclass(frozen=True, slots=True)
class Figures:
    resident: float
    """MiB."""
    threads: int
    descriptors: int


def figures() -> Figures:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Figures(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, threading.active_count(), descriptors)


def apart(page: str, booked: float) -> float:
    """By how many seconds the states of a GPU differ from the time that was booked, at most."""
    seconds: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith("gpu_state_seconds_total{"):
            uuid = line.partition('uuid="')[2].partition('"')[0]
            seconds[uuid] = seconds.get(uuid, 0.0) + float(line.rpartition(" ")[2])
    return max((abs(each - booked) for each in seconds.values()), default=booked)


def run(cycles: int) -> Iterator[tuple[int, Figures, str]]:
    """Figures and the page after each tenth."""
    tune_runtime()
    began, now = Moment(time.time(), time.monotonic()), [0]
    users = UserNames()
    owners = attribution(AttributionConfig(slurm=SlurmConfig(mode=OFF)), user_name=users.name)
    node = ThisHost(Paths(), owners, users=users)
    with churn(SLOTS, LIFE) as jobs:
        simulated = simulate("1xH200:training", lambda: began.unix + now[0])
        driver = RealProcesses(simulated, lambda _: jobs.pids)
        accounting = Accounting(AccountingOptions(retention=10.0), workload_families(()))
        sampler = Sampler(driver, node, COLLECTORS, Pacing(1.0, DEADLINE, 10.0), accounting)
        pages = PageStore()
        sampler.start(Threads())
        for number in range(1, cycles + 1):
            now[0] = number
            jobs.turn(number)
            pages.publish(sampler.run_cycle(Moment(began.unix + number, began.monotonic + number)))
            if number % SCRAPE_EVERY == 0:
                pages.page("")
            if number % (cycles // 10) == 0:
                yield number, figures(), pages.page("")[1].decode()
        sampler.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("cycles", nargs="?", type=int, default=100_000)
    cycles: int = parser.parse_args().cycles
    rows: list[Figures] = []
    worst = 0.0
    for number, found, page in run(cycles):
        rows.append(found)
        worst = max(worst, apart(page, number - 1))  # the first cycle books nothing
        series = page.count("\n") - page.count("\n#")
        sys.stdout.write(
            f"{number:8} cycles {found.resident:7.2f} MiB {found.threads:3} threads {found.descriptors:3} descriptors"
            f" {series:6} series {time.process_time():7.0f} s of a core\n"
        )
        sys.stdout.flush()
    slope = rows[-1].resident - rows[WARM_UP - 1].resident
    threads, descriptors = ({getattr(row, name) for row in rows} for name in ("threads", "descriptors"))
    good = slope < MAX_SLOPE and len(threads) == len(descriptors) == 1 and worst < MAX_APART
    sys.stdout.write(
        f"memory {slope:+.2f} MiB after the warm-up, threads {threads}, descriptors {descriptors},"
        f" totals off by at most {worst:.6f} s: {'ok' if good else 'FAILED'}\n"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
