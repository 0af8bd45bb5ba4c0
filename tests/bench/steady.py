"""What longer intervals between passes cost in truth: the ledger with a pass each second beside the one with looks.

Every pattern of the simulator alone on one GPU, with jobs that come and go, for an hour: of the time a workload held
the GPU, the part that is booked to another state. Run by hand: `python -m tests.bench.steady`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping

from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.ledger.states import STATES
from exporter.node.simulated_node import SimulatedNode
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from exporter.tools.simulator import simulate
from exporter.tools.simulator.patterns import PATTERNS

START = 1_700_000_000.0
EVERY = 12.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--churn", type=int, default=600, help="seconds a job lasts, more or less")
    given = parser.parse_args()
    sys.stdout.write(f"{'pattern':24} {'passes':>7} {'booked elsewhere':>17}\n")
    for name in PATTERNS:
        spec = f"1xH200:{name};seed=7;churn={given.churn}"
        every, _ = _booked(spec, given.seconds, 1.0)
        few, passes = _booked(spec, given.seconds, EVERY)
        moved = sum(abs(few[state] - every[state]) for state in STATES) / 2
        held = sum(every.values()) - every["free"]
        share = moved / held if held else 0.0
        worst = max(STATES, key=lambda state: abs(few[state] - every[state]))
        says = f"{worst} {every[worst]:.0f} -> {few[worst]:.0f} s" if share > 0.001 else ""
        sys.stdout.write(f"{name:24} {passes / given.seconds:7.0%} {share:17.2%}   {says}\n")
        sys.stdout.flush()
    return 0


def _booked(spec: str, seconds: int, steady_interval: float) -> tuple[Mapping[str, float], int]:
    """Seconds of the GPU by state, and how many passes were taken."""
    now = [START]
    driver = simulate(spec, lambda: now[0])
    accounting = Accounting(AccountingOptions(), workload_families(()))
    pacing = Pacing(deadline=20.0, steady_interval=steady_interval)
    sampler = Sampler(driver, SimulatedNode(driver.node), COLLECTORS, pacing, accounting)
    sampler.connection._attempt()
    sampler.connection.first.set()
    passes = 0
    for second in range(seconds):
        now[0] = START + second
        at = Moment(UnixTime(now[0]), MonotonicTime(1000.0 + second))
        passes += sampler.tick(at, awaited=0.0 if second == seconds - 1 else math.inf) is not None
    sampler.stop()
    (entry,) = accounting._ledger.targets.values()
    return dict(zip(STATES, entry.seconds, strict=True)), passes


if __name__ == "__main__":
    sys.exit(main())
