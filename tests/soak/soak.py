"""A hundred thousand passes with processes, jobs and users that come and go: memory, threads, descriptors and totals.

Run by `make soak`. Passes run one after the other on simulated time, over a driver and a node of this program's own,
through the sampler, the ledger and the renderer as they are in the exporter. The first tenth warms up.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.families import workload_families
from exporter.attribution.owner import Owner
from exporter.attribution.ownership import Ownership, Target, WorkloadInfo
from exporter.clock import Moment
from exporter.collectors import COLLECTORS
from exporter.driver.interface import Driver
from exporter.exposition.pages import PageStore
from exporter.exposition.scrape_schedule import Scraper
from exporter.host.model import HostProcess
from exporter.node.unknown_node import UnknownNode
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from exporter.simulator import simulate
from exporter.threads.runner import Threads

GPUS, LIFE, SCRAPE_EVERY = 4, 20, 10
"""GPUs, passes that a job holds one, passes between scrapes."""
MOST_SLOPE = 1.0
"""MiB that the memory may grow by after the warm-up."""
MOST_THREADS = GPUS + 3
"""The main one, the driver's, one for all GPUs, and one for each that is late on a busy machine."""
MOST_APART = 1e-3
"""Seconds by which the times of the GPUs, each the sum of its states, may differ."""


@dataclass(frozen=True, slots=True)
class Figures:
    resident: float
    """MiB."""
    threads: int
    descriptors: int


class ChurningNode(UnknownNode):
    """Every GPU is held by a job that gives way to the next one after some passes; each is somebody else's."""

    def __init__(self) -> None:
        self.passes = 0

    def processes(self, pids: Sequence[int], now: float) -> Mapping[int, HostProcess]:
        return {
            pid: HostProcess(pid, f"p{pid % 97}", f"user{self.passes // LIFE}", now, 1.0, 1, "0::/\n") for pid in pids
        }

    def ownership(
        self, targets: Sequence[Target], pids: Mapping[str, Sequence[int]], hosts: Mapping[int, HostProcess], now: float
    ) -> Ownership:
        del hosts, now
        self.passes += 1
        owners = {target.uuid: self._owner(target.index) for target in targets}
        return Ownership(
            processes={pid: owners[uuid] for uuid, each in pids.items() if uuid in owners for pid in each},
            holders={uuid: (owner,) for uuid, owner in owners.items()},
            info={owner: WorkloadInfo(job_name=owner.workload) for owner in owners.values()},
        )

    def _owner(self, index: int) -> Owner:
        job = str((self.passes + index) // LIFE * GPUS + index)
        return Owner(f"slurm:{job}", "slurm", slurm_job=job, user=f"user{job}", account="a", partition="p")


def figures() -> Figures:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Figures(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, threading.active_count(), descriptors)


def balance(page: str) -> float:
    """By how many seconds the states of all GPUs differ from the time that was booked, at most."""
    seconds: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith("gpu_time_seconds_total{"):
            uuid = line.partition('uuid="')[2].partition('"')[0]
            seconds[uuid] = seconds.get(uuid, 0.0) + float(line.rpartition(" ")[2])
    return max(seconds.values(), default=0.0) - min(seconds.values(), default=0.0)


def run(passes: int) -> Iterator[tuple[int, Figures, str]]:
    """Figures and the page now and then: at the end of the warm-up, and nine times after."""
    driver: Driver = simulate(f"{GPUS}xH200:training")
    accounting = Accounting(AccountingOptions(retention=10.0), workload_families(()))
    sampler = Sampler(driver, ChurningNode(), COLLECTORS, Pacing(1.0, 0.8, 10.0), accounting)
    pages = PageStore(1.0)
    sampler.start(Threads())
    began = Moment(time.time(), time.monotonic())
    for number in range(1, passes + 1):
        pages.publish(sampler.run_pass(Moment(began.unix + number, began.monotonic + number)))
        if number % SCRAPE_EVERY == 0:
            pages.page(Scraper("soak", "", gzip=bool(number % 3)))
        if number % (passes // 10) == 0:
            yield number, figures(), pages.page(Scraper("soak")).body.decode()
    sampler.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("passes", nargs="?", type=int, default=100_000)
    passes: int = parser.parse_args().passes
    rows: list[tuple[int, Figures]] = []
    apart = 0.0
    for number, found, page in run(passes):
        rows.append((number, found))
        apart = max(apart, balance(page))
        series = page.count("\n") - page.count("\n#")
        sys.stdout.write(
            f"{number:8} passes {found.resident:7.2f} MiB {found.threads:3} threads {found.descriptors:3} descriptors"
            f" {series:6} series\n"
        )
        sys.stdout.flush()
    first, last = rows[0][1], rows[-1][1]
    slope = last.resident - first.resident
    threads = max(found.threads for _, found in rows)
    good = (
        slope < MOST_SLOPE and threads <= MOST_THREADS and first.descriptors == last.descriptors and apart < MOST_APART
    )
    sys.stdout.write(
        f"memory {slope:+.2f} MiB after the warm-up, at most {threads} threads, GPUs apart by {apart:.6f} s: "
    )
    sys.stdout.write("ok\n" if good else "FAILED\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
