"""Every series of every recorded capture and of simulated nodes drawn by chance, cycle after cycle, as text.

`same_series.py` runs this with the code of two revisions and compares what they print: the same answers of the driver
must make the same default page, however a cycle is made. The order of series and the exporter's own times
are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.driver.interface import Driver
from exporter.exposition import HIDDEN_METRICS
from exporter.exposition.page import Renderer
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host
from exporter.sampling.sampler import Moment, Pacing, Sampler
from exporter.tools.capture.replay import load
from exporter.tools.simulator import simulate
from exporter.tools.simulator.driver import SimulatedHost
from exporter.tools.simulator.patterns import KINDS, PATTERNS

RENDERER = partial(Renderer, HIDDEN_METRICS)
START = 1_700_000_000.0
CYCLES = 20
_MODELS = ("T4", "V100", "A100", "A100-mig", "L40S", "RTX4090", "H100", "H100-mig", "H200", "B200")
_DRIVERS = ("470.82.01", "525.60.13", "535.104.05", "550.54.15", "570.86.15", "580.95.05", "590.44.01")
_OWN = (
    "process_", "python_", "gpu_exporter_sampling_cycle_", "gpu_scrape_collector_duration", "gpu_exporter_build_info",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--passes", dest="cycles", type=int, default=1000, help="of simulated nodes")
    parser.add_argument("--verbose", action="store_true", help="print the series themselves, not their digests")
    given = parser.parse_args()
    for capture in sorted(given.captures.glob("*.json")):
        clock = _Clock()
        _print(capture.stem, _pages(load(capture, clock), Host(), clock), verbose=given.verbose)
    for number in range(given.cycles // CYCLES):
        clock = _Clock()
        chance = random.Random(number)  # noqa: S311 - the same each time
        driver = simulate(_specification(chance), clock)
        pages = _pages(driver, SimulatedHost(driver.node), clock)
        _print(f"simulation {number}", pages, verbose=given.verbose)
    return 0


class _Clock:
    """Unix seconds that stand still within a cycle."""

    now = START

    def __call__(self) -> float:
        return self.now


def _specification(chance: random.Random) -> str:
    gpus = chance.choice((1, 2, 4))
    patterns = ",".join(chance.choices(sorted(PATTERNS), k=chance.randint(1, gpus)))
    kinds = [kind for kind in sorted(KINDS) if kind != "hang"]
    fault = f"{chance.choice(kinds)}:all@{chance.randint(2, 12)}+{chance.randint(1, 8)}"
    model, driver = chance.choice(_MODELS), chance.choice(_DRIVERS)
    seed, churn = chance.randint(0, 999), chance.choice((5, 60, 3600))
    return f"{gpus}x{model}:{patterns};seed={seed};driver={driver};churn={churn};fault={fault}"


def _pages(driver: Driver, host: Any, clock: _Clock) -> Iterator[str]:
    accounting = Accounting(AccountingOptions(), workload_families(()))
    sampler = Sampler(driver, host, COLLECTORS, Pacing(deadline=20.0), accounting)
    sampler.connection._attempt()
    sampler.connection.first.set()
    renderer = RENDERER()
    for second in range(CYCLES):
        clock.now = START + second
        if sampler.connection.state.error:
            sampler.connection._attempt()
        snapshot = sampler.run_cycle(Moment(clock.now, 1000.0 + second))
        body = renderer.render(snapshot.blocks, "")[1].decode()
        yield "\n".join(_kept(body.splitlines()))
    sampler.stop()


def _kept(lines: Iterable[str]) -> list[str]:
    return sorted(_rounded(line) for line in lines if not line.startswith(("#", *_OWN)))


def _rounded(line: str) -> str:
    """Return the series with twelve digits: sums that are made in another order differ in the last ones."""
    series, _, value = line.rpartition(" ")
    return f"{series} {float(value):.12g}"


def _print(name: str, pages: Iterable[str], *, verbose: bool) -> None:
    began = time.monotonic()
    for number, page in enumerate(pages):
        shown = page if verbose else f"{page.count(chr(10))} {hashlib.sha256(page.encode()).hexdigest()}"
        sys.stdout.write(f"{name} cycle {number}: {shown}\n")
    sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")


if __name__ == "__main__":
    sys.exit(main())
