"""`make scale-raw`: what every board asks over 30 days of a Prometheus that keeps raw series as long.

One node has all its series, the others those that boards read over the range of a whole fleet; 25 and 50 nodes. In CPU
seconds, with a sample every five minutes: figures for one every 30 s are ten times that, upper bounds.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from tests.contract.dashboards.reading import NAMES
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.exporter_process import parse
from tests.scale.measure import costs
from tests.scale.moulds import SPECS, Mould
from tests.stack import program, prometheus

DAY, STEP, SCRAPE = 86400, 300, 30
FLEET_WIDE = ("gpu_exporter_sampling_cycle_duration_seconds", "gpu_exporter_series_dropped_total", "gpu_xid_")
"""Raw series that boards read over the range, of all nodes."""
_SLOWEST = 5


def write(out: TextIO, page: Mapping[str, list[tuple[str, float]]], nodes: int, times: range) -> int:
    """Write the page as it would have been scraped. Return the samples."""
    draw = random.Random(1)  # noqa: S311 - values
    samples = 0
    for name, series in page.items():
        out.write(f"# TYPE {name} unknown\n")
        for node in range(nodes if name.startswith(FLEET_WIDE) else 1):
            place = f'cluster="c1",job="gpu-exporter",instance="n{node}:9836"'
            for labels, value in series:
                samples += len(times)
                out.writelines(
                    f"{name}{{{place}{labels}}} {each:.6g} {at}\n"
                    for at, each in zip(times, _values(name, value, draw), strict=False)
                )
    out.write("# EOF\n")
    return samples


def _values(name: str, value: float, draw: random.Random) -> Iterator[float]:
    """Counters grow, and gauges vary."""
    grows = name.endswith(("_total", "_count", "_bucket", "_sum"))
    while True:
        value += draw.random() * STEP if grows else 0.0
        yield value if grows or value == 0 or name.endswith("_info") else value * draw.uniform(0.9, 1.1)


def page() -> Mapping[str, list[tuple[str, float]]]:
    """Return the series of one node by metric."""
    mould = Mould(SPECS[0], 0)
    mould.start()
    try:
        text = ""
        while "gpu_workload_gpu_seconds_total{" not in text:  # the first cycles
            time.sleep(1)
            text = mould.exposition(0).decode()
    finally:
        mould.stop()
    found: dict[str, list[tuple[str, float]]] = {}
    for (name, labels), value in parse(text).values.items():
        own = "".join(f',{key}="{each}"' for key, each in sorted(labels))
        found.setdefault(name, []).append((own, value))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[25, 50])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--only", default="", help="write the metrics whose names begin so, a sample every 30 s")
    options = parser.parse_args()
    now = int(time.time()) // STEP * STEP
    step = SCRAPE if options.only else STEP
    times = range(now - options.days * DAY, now + 1, step)
    series = {name: each for name, each in page().items() if name.startswith((options.only, "gpu_exporter_build_info"))}
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="gpu-raw-") as scratch:
            folder = Path(scratch)
            with (folder / "raw.om").open("w") as out:
                samples = write(out, series, nodes, times)
            made = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
            subprocess.run([*made, "--max-block-duration=480h", folder / "raw.om", folder / "prometheus"], check=True)
            say(f"{nodes} nodes: {samples / 1e6:.1f} M samples")
            (folder / "prometheus.yml").write_text("global: {}\n")
            with prometheus(folder / "prometheus.yml", folder, "--storage.tsdb.retention.time=500d") as url:
                _measure(Reader(url, Span(times[0], now, options.days * DAY // 1000), {}, step), options.days)
    return 0


def _measure(reader: Reader, days: int) -> None:
    """Print the dearest queries, scaled to a scrape every 30 s."""
    found: list[tuple[float, str]] = []
    for name in NAMES:
        try:
            chosen = {"workload": ".+", "shown": ".+"} if name == "workload-slurm" else {}
            answers = costs(reader.url, replace(reader, chosen=chosen), [name])
            asked = [(each.seconds * reader.scrape / SCRAPE, each) for _, each in answers]
        except AssertionError as error:  # the node runs no pods, or a variable asks for recorded series
            say(f"  {name}: not asked: {error}")
            continue
        say(f"  {sum(seconds for seconds, _ in asked):6.2f} s  {name}, {len(asked)} queries, {days} d")
        found += [(seconds, f"{name} / {each.panel} / {each.ref} {each.refused}") for seconds, each in asked]
    for seconds, query in sorted(found, reverse=True)[:_SLOWEST]:
        say(f"  {seconds:6.2f} s  {query}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
