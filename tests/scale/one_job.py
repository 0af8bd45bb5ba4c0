"""A Slurm job of 64 nodes and a workload of 64 pods, busy a tenth of the time: one row, one page, one alert each.

    python -m tests.scale.one_job [--nodes 250] [--job-nodes 64] [--minutes 6]

Rules, dashboards and Prometheus are the real ones, exporters copies of simulated nodes; only the window of the alert is
three minutes. What a query takes is told in
CPU seconds of a Prometheus that does nothing else: a busy machine does not change them. Ends with status 1 where
a job is not one, or a query of its row or page takes a second of CPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.prometheus.render import Settings, render, to_yaml
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import ask_at
from tests.scale.cluster import SCRAPE_SECONDS as STEP
from tests.scale.cluster import exporters, scraped
from tests.scale.measure import SLOW_SECONDS, costs, cpu

GPUS = 8
_SLOWEST = 5
_ALERT = "GpuUnderutilized"
TABLES = {"slurm": ("workload-slurm", "Jobs"), "pod": ("workload-kubernetes", "Workloads")}
"""By kind of workload, the dashboard and panel that lists them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="one_job", description=__doc__)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--job-nodes", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=6, help="how long they are scraped first")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="gpu-scale-") as folder,
        exporters(options.job_nodes) as port,
        scraped(options.nodes, port, Path(folder), options.job_nodes, _alerts(Path(folder))) as scraping,
    ):
        time.sleep(options.minutes * 60)
        now = int(time.time())
        found = [_found(scraping.url, kind, now) for kind in TABLES]
        scraping.rest()
        failures = [
            failure
            for job in found
            for failure in _job(
                scraping.url, job, options.job_nodes * GPUS, Span(now - options.minutes * 60, now, STEP)
            )
        ]
    for failure in failures:
        _say(f"FAILED  {failure}")
    return 1 if failures else 0


def _alerts(folder: Path) -> Path:
    """The alerts as delivered, but for how long a job must be little used before it is named."""
    values = {_ALERT: {"window": "3m", "for": "30s"}}
    path = folder / "alerts.yaml"
    path.write_text(to_yaml(render(Settings(values=values, slow_interval="1m"))))
    return path


@dataclass(frozen=True, slots=True)
class _Found:
    """The largest workload of a kind."""

    kind: str
    workload: str
    gpus: float
    nodes: int
    alerts: Mapping[str, int]


def _found(url: str, kind: str, now: int) -> _Found:
    (largest,) = ask_at(url, f'topk(1, sum by (workload) (gpu_workload_allocated_gpus{{kind="{kind}"}}))', now)
    workload = largest["metric"]["workload"]
    (series,) = ask_at(url, f'count(gpu_workload_allocated_gpus{{workload="{workload}"}})', now)
    firing = ask_at(url, f'ALERTS{{workload="{workload}", alertstate="firing"}}', now)
    alerts = Counter(alert["metric"]["alertname"] for alert in firing)
    return _Found(kind, workload, float(largest["value"][1]), int(series["value"][1]), alerts)


def _job(url: str, job: _Found, gpus: int, span: Span) -> Iterator[str]:
    """What is wrong with it; says what it takes to show it."""
    before = cpu(url)
    chosen = {"workload": job.workload}  # else the table lists the 50 that waste most
    rows = sum(row["metric"]["workload"] == job.workload for row in Reader(url, span, chosen).rows(*TABLES[job.kind]))
    for_row = cpu(url) - before
    timings = [timing for _, timing in costs(url, Reader(url, span, {"workload": job.workload}), ("job",))]
    _say(
        f"{job.workload}: {job.gpus:.0f} GPUs on {job.nodes} nodes; {rows} row for {for_row:.2f} s of CPU; its page"
        f" {len(timings)} queries for {sum(timing.seconds for timing in timings):.1f} s; alerts {dict(job.alerts)}"
    )
    slowest = sorted(timings, key=lambda each: -each.seconds)[:_SLOWEST]
    for timing in slowest:
        _say(f"  {timing.seconds:5.2f} s  {timing.panel} / {timing.ref}")
    if job.gpus != gpus:
        yield f"{job.workload} holds {job.gpus:.0f} GPUs, not {gpus}"
    if rows != 1:
        yield f"{job.workload} is {rows} rows"
    if max(for_row, slowest[0].seconds) >= SLOW_SECONDS:
        yield f"{job.workload}: a query takes {max(for_row, slowest[0].seconds):.2f} s"
    if job.alerts != {_ALERT: 1}:
        yield f"{job.workload}: alerts {dict(job.alerts)}, not one {_ALERT}"
    yield from (f"{timing.panel} / {timing.ref}: {timing.refused}" for timing in timings if timing.refused)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
