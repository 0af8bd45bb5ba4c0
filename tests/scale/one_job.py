"""A Slurm job of 64 nodes and a workload of 64 pods among 250 nodes: one row each, one page, at most one alert a rule.

    python -m tests.scale.one_job [--nodes 250] [--job-nodes 64] [--minutes 6]

Rules, dashboards and Prometheus are the real ones, exporters copies of simulated nodes. Figures are of this machine;
ends with status 1 where a job is not one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import ask_at
from tests.scale.cluster import SCRAPE_SECONDS, exporters, scraped

GPUS = 8
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
        scraped(options.nodes, port, Path(folder), options.job_nodes) as scraping,
    ):
        time.sleep(options.minutes * 60)
        failures = [
            failure
            for kind in TABLES
            for failure in _job(scraping.url, kind, options.job_nodes * GPUS, options.minutes)
        ]
    for failure in failures:
        _say(f"FAILED  {failure}")
    return 1 if failures else 0


def _job(url: str, kind: str, gpus: int, minutes: int) -> Iterator[str]:
    """What is wrong with the largest workload of a kind; says what it takes to show it."""
    now = int(time.time())
    span = Span(now - minutes * 60, now, SCRAPE_SECONDS)
    (largest,) = ask_at(url, f'topk(1, sum by (workload) (gpu_workload_gpus{{kind="{kind}"}}))', now)
    workload, held = largest["metric"]["workload"], float(largest["value"][1])
    (series,) = ask_at(url, f'count(gpu_workload_gpus{{workload="{workload}"}})', now)
    alerts = Counter(alert["metric"]["alertname"] for alert in ask_at(url, f'ALERTS{{workload="{workload}"}}', now))
    rows, asked = _rows(Reader(url, span, {}), kind, workload)
    timings = list(Reader(url, span, {"workload": workload}).timings("job"))
    slowest = max(timings, key=lambda timing: timing.seconds)
    _say(
        f"{workload}: {held:.0f} GPUs on {series['value'][1]} nodes; {rows} row, asked for in {asked:.2f} s; its page"
        f" {len(timings)} queries, the slowest {slowest.seconds:.2f} s ({slowest.panel}), together"
        f" {sum(timing.seconds for timing in timings):.1f} s; alerts {dict(alerts)}"
    )
    if held != gpus:
        yield f"{workload} holds {held:.0f} GPUs, not {gpus}"
    if rows != 1:
        yield f"{workload} is {rows} rows"
    yield from (f"{workload}: {count} alerts {name}" for name, count in alerts.items() if count > 1)
    yield from (f"{timing.panel} / {timing.ref}: {timing.refused}" for timing in timings if timing.refused)


def _rows(reader: Reader, kind: str, workload: str) -> tuple[int, float]:
    """Rows of the workload in the table of its kind, and how long that took."""
    began = time.monotonic()
    rows = reader.rows(*TABLES[kind])
    return sum(row["metric"]["workload"] == workload for row in rows), time.monotonic() - began


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
