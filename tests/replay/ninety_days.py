"""Ninety days of invoices against a known truth: `make ninety-days`.

Eight nodes run the real tracker and store in virtual time: jobs of Slurm, pods, MIG instances, shared GPUs and one GPU
with jobs of 5 to 300 s. The real service collects their rows, adds them up and compares each day with the scheduler.
Planted: restarts, a rollout, requeues, five hours without any exporter, a node that is away for three days, one that
the service cannot reach for two, a service that is away for five and killed now and then, a lost disk, a price that
changes.
Nodes keep seven days, Prometheus 15: its recorded totals are those of the last fortnight.
"""

from __future__ import annotations

import argparse
import bisect
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from exporter.accounting.model import CounterRow
from exporter.accounting.store import read_after
from exporter.accounting.writer import RETENTION_SECONDS
from exporter.tools.report import promql
from exporter.tools.report.accounting.collector import collect
from exporter.tools.report.accounting.database import Database, SchedulerJob
from exporter.tools.report.accounting.prices import Month, PriceRow, Prices, month
from exporter.tools.report.showback import showback
from tests.replay.accounting import EVERYTHING, TOLERANCE, recorded
from tests.unit.accounting.node import Job, Node

HOUR, DAY = 3600.0, 86400.0
DAYS, SCRAPE, CYCLE, ROUND = 90, 300, 120.0, 4 * HOUR
"""Cycles are a second long at each start and end, where it matters, and else two minutes."""
T0 = datetime(2026, 8, 1, tzinfo=timezone.utc).timestamp()
END = T0 + DAYS * DAY
H100, A100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
CHANGES = tuple(datetime(2026, *day, tzinfo=timezone.utc).timestamp() for day in ((9, 11), (10, 23)))
PRICES = Prices(
    "USD",
    (
        PriceRow(H100, 3.0, end=CHANGES[0]),
        PriceRow(H100, 2.5, begin=CHANGES[0], end=CHANGES[1]),
        PriceRow(H100, 2.0, begin=CHANGES[1]),
        PriceRow(A100, 1.4, "1g.10gb"),
        PriceRow("", 0.8),
    ),
)
TEAMS = ("vision", "speech", "robots", "bio", "search")
GAP = (T0 + 40 * DAY + 9 * HOUR, T0 + 40 * DAY + 14 * HOUR)
"""No exporter runs."""
AWAY = ("n1", T0 + 20 * DAY, T0 + 23 * DAY)
"""A node without power or jobs."""
UNREACHABLE = ("n2", T0 + 50 * DAY, T0 + 52 * DAY)
SERVICE_AWAY = (T0 + 60 * DAY, T0 + 65 * DAY)
DISK_LOST = ("n3", T0 + 70 * DAY + 2 * HOUR)
ROLLOUT = END - 6 * DAY
FORTNIGHT = 14 * DAY

Kind = tuple[str, tuple[tuple[str, ...], ...], float, str, tuple[float, float]]
"""Model, slots of GPUs, fraction of each, MIG profile, and the shortest and longest job in seconds."""
_WHOLE = (("GPU-0", "GPU-1", "GPU-2", "GPU-3"), ("GPU-4", "GPU-5"), ("GPU-6",), ("GPU-7",))
_LONG, _SHORT = (600.0, 14 * HOUR), (5.0, 300.0)
_KINDS: Mapping[str, Kind] = {
    **{f"n{number}": (H100, _WHOLE, 1.0, "", _LONG) for number in range(4)},
    "churn": (H100, (("GPU-0",),), 1.0, "", _SHORT),
    "pods": (H100, tuple((f"GPU-{gpu}",) for gpu in range(8)), 1.0, "", _LONG),
    "mig": (A100, tuple((f"GPU-{gpu}",) for gpu in range(2) for _ in range(7)), 1 / 7, "1g.10gb", _LONG),
    "shared": (L40S, tuple((f"GPU-{gpu}",) for gpu in range(4) for _ in range(2)), 0.5, "", _LONG),
}
_PODS = ("pods", "mig", "shared")


def jobs(node: str, draw: random.Random, ids: Iterator[int]) -> list[Job]:
    """Return the jobs of a node; one in 25 of Slurm is requeued."""
    _, slots, fraction, profile, (shortest, longest) = _KINDS[node]
    found: list[Job] = []
    for slot in slots:
        now, again = T0 + draw.uniform(60, 3600), 0
        while now < END:
            identity = again or next(ids)
            team, start = TEAMS[identity % len(TEAMS)], now
            end = min(start + draw.uniform(shortest, longest), END)
            if node == AWAY[0] and start < AWAY[2] and end > AWAY[1]:
                now = AWAY[2] + 60
                continue
            pod = team if node in _PODS else ""
            reports = draw.random() < 0.9
            found.append(
                Job(
                    f"{identity}",
                    start,
                    end,
                    slot,
                    "" if pod else team,
                    reports,
                    fraction=fraction,
                    profile=profile,
                    namespace=pod,
                )
            )
            again = identity if not pod and not again and identity % 25 == 0 else 0
            now = end + (draw.uniform(2, 20) if again else draw.uniform(1, 600))
    return sorted(found, key=lambda job: job.start)


@dataclass
class Site:
    """One node, what is planted on it, and what Prometheus scraped of it in the last 15 days."""

    name: str
    node: Node
    jobs: Sequence[Job]
    downs: list[tuple[float, float]]
    samples: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def run(self, until: float, draw: random.Random) -> None:
        """Run cycles up to that moment, at most a day."""
        self.node.jobs = [job for job in self.jobs if job.end > self.node.now - DAY / 2 and job.start < until]
        borders = sorted(at for job in self.node.jobs for at in (job.start, job.end))
        while self.node.now < until:
            now = self.node.now
            down = next((end for begin, end in self.downs if begin <= now < end), 0.0)
            if down:
                self.node.sleep(down - now)
                self.node.kill()
                now = down
            following = bisect.bisect_right(borders, now)
            border = borders[following] + draw.uniform(0.05, 1) if following < len(borders) else until
            scraped = int((now - T0) // SCRAPE)
            self.node.cycle(max(0.05, min(CYCLE, border - now)))
            if int((self.node.now - T0) // SCRAPE) > scraped and self.node.now > END - 15 * DAY:
                self._scrape(scraped + 1)

    def lose_disk(self) -> None:
        self.node.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.node.path}{suffix}").unlink(missing_ok=True)
        self.node.kill()

    def _scrape(self, number: int) -> None:
        first = int((END - 15 * DAY - T0) // SCRAPE)
        for row in self.node.published:
            labels = self._labels(row)
            for state, seconds in row.amount.states.items():
                self.samples[f'gpu_owner_gpu_seconds_total{{{labels},state="{state}"}}'][number - first] = seconds
            # Prometheus's clock is at 0 in promtool.
            self.samples[f"gpu_owner_since_timestamp_seconds{{{labels}}}"][number - first] = row.since - (
                END - 15 * DAY
            )

    def _labels(self, row: CounterRow) -> str:
        own = {name: value for name, value in row.key._asdict().items() if value}
        place = "b" if self.node.now > ROLLOUT else "a"
        target = {"cluster": "c1", "instance": f"{self.name}-{place}:9836", "pod": f"{self.name}-{place}"}
        every = {**target, **own, "store": self.node.store_id, "since": str(row.since)}
        return ",".join(f'{name}="{value}"' for name, value in every.items())


def fleet(folder: Path, draw: random.Random) -> list[Site]:
    ids = count(1)
    found: list[Site] = []
    for name, (model, slots, *_) in _KINDS.items():
        own = jobs(name, draw, ids)
        gpus = tuple(sorted({gpu for slot in slots for gpu in slot}))
        restarts = [(at, at + draw.uniform(5, 60)) for at in (T0 + draw.uniform(0, DAYS * DAY) for _ in range(15))]
        downs = [*restarts, GAP, (ROLLOUT, ROLLOUT + 20), *([AWAY[1:]] if name == AWAY[0] else [])]
        node = Node(folder / f"{name}.sqlite", [], T0, all_gpus=gpus, model=model)
        found.append(Site(name, node, own, downs))
    return found


class Service:
    """The accounting service, every four hours."""

    def __init__(self, path: Path, sites: Sequence[Site], draw: random.Random) -> None:
        self._path = path
        self._sites = {site.name: site for site in sites}
        self._draw = draw
        self._now = T0
        self._checked = T0
        last = {job.id: job for site in sites for job in site.jobs if not job.namespace}
        """Slurm's accounting has the last start of each job."""
        self._accounted = sorted(last.values(), key=lambda job: job.end)

    def round(self, now: float) -> None:
        """Collect, and once a day compare with the scheduler. It is killed in one of twenty requests."""
        self._now = now
        if SERVICE_AWAY[0] <= now < SERVICE_AWAY[1]:
            return
        while True:
            database = Database(self._path)
            try:
                collect(database, list(self._sites), self._ask, lambda: now)
                database.sum_hours()
                if now - self._checked >= DAY:
                    ended = [job for job in self._accounted if self._checked - HOUR <= job.end < now - HOUR]
                    database.compare([_accounted(job) for job in ended], TOLERANCE)
                    self._checked = now
            except KeyboardInterrupt:
                continue
            finally:
                database.close()
            return

    def _ask(self, target: str, after: int) -> Mapping[str, Any]:
        if self._draw.random() < 0.05:
            raise KeyboardInterrupt
        if target == UNREACHABLE[0] and UNREACHABLE[1] <= self._now < UNREACHABLE[2]:
            raise OSError("no route to host")
        return {"node": target, **read_after(self._sites[target].node.path, after, 1000)}


def _accounted(job: Job) -> SchedulerJob:
    return SchedulerJob(job.id, job.start, job.end, float(len(job.gpus)), "ada", job.account)


def true_costs(sites: Sequence[Site], of: Month) -> Mapping[str, float]:
    """Return the cost of each team in a month, by its jobs alone."""
    found: dict[str, float] = defaultdict(float)
    for site in sites:
        model = _KINDS[site.name][0]
        prices = {
            H100: ((of.begin, CHANGES[0], 3.0), (*CHANGES, 2.5), (CHANGES[1], of.end, 2.0)),
            A100: ((of.begin, of.end, 1.4),),
        }
        for begin, end, price in prices.get(model, ((of.begin, of.end, 0.8),)):
            for job in site.jobs:
                seconds = max(0.0, min(job.end, end, of.end) - max(job.start, begin, of.begin))
                found[job.account or job.namespace] += seconds / HOUR * len(job.gpus) * job.fraction * price
    return found


def play(seed: int, folder: Path) -> list[str]:
    """Print the figures. Return what is wrong."""
    draw = random.Random(seed)  # noqa: S311 - a schedule
    sites = fleet(folder, draw)
    service = Service(folder / "service.sqlite", sites, draw)
    now = T0
    while now < END + DAY:
        now += ROUND
        for site in sites:
            if (site.name, now - ROUND) == (DISK_LOST[0], DISK_LOST[1] - 2 * HOUR):
                site.run(now - ROUND / 2, draw)
                site.lose_disk()
            site.run(now, draw)
            site.node.forget(now - RETENTION_SECONDS)
        service.round(now)
    every = sum(len(site.jobs) for site in sites)
    sys.stdout.write(f"seed {seed}: {DAYS} days, {len(sites)} nodes, {every} allocations\n")
    database = Database(folder / "service.sqlite")
    wrong = [error for name in ("2026-08", "2026-09", "2026-10") for error in _invoices(database, sites, month(name))]
    database.close()
    wrong += _recorded(sites, folder)
    for site in sites:
        site.node.close()
    return wrong


def _invoices(database: Database, sites: Sequence[Site], of: Month) -> Iterator[str]:
    found = showback(database, of, "team", "", PRICES, END)
    costs = {row.name: row.cost for row in found.rows}
    truth = true_costs(sites, of)
    errors = {team: costs.get(team, 0.0) / cost - 1 for team, cost in truth.items()}
    whole = sum(costs[team] for team in truth) / sum(truth.values()) - 1
    worst = max(errors, key=lambda team: abs(errors[team]))
    sys.stdout.write(f"{of.name}  {whole:+.3%} in all, {errors[worst]:+.3%} {worst}; {found.coverage}\n")
    yield from (f"{of.name} {team}: {error:+.2%}" for team, error in errors.items() if abs(error) > TOLERANCE)
    hours = {site.name: {int(at // HOUR) for at in _hours(site, of)} for site in sites}
    missing = {name: len(lost) / 24 for name, lost in hours.items() if lost}
    if any(abs(found.days_missing.get(name, 0.0) - days) > 0.05 for name, days in missing.items()):
        yield f"{of.name}: {found.days_missing} is declared, {missing} is missing"


def _hours(site: Site, of: Month) -> Iterator[float]:
    """Yield the whole hours of a month in which the node observed nothing."""
    for begin, end in (GAP, *([AWAY[1:]] if site.name == AWAY[0] else [])):
        at = begin
        while at < end:
            if of.begin <= at < of.end:
                yield at
            at += HOUR


def _recorded(sites: Sequence[Site], folder: Path) -> Iterator[str]:
    """Compare the recorded totals of the last fortnight, of a Prometheus that keeps 15 days, with the truth."""
    window = f"{FORTNIGHT:.0f}s"
    queries = (
        promql.allocated_gpu_hours(promql.TEAM, EVERYTHING, window),
        promql.cost("team:gpu_owner_cost", EVERYTHING, window, promql.TEAM),
    )
    last, shift = int(15 * DAY // SCRAPE), END - 15 * DAY
    moved = [replace(row, begin=max(0.0, row.begin - shift), end=row.end - shift) for row in PRICES.rows]
    rows = tuple(row for row in moved if row.end > 0)
    answers = recorded([site.samples for site in sites], queries, folder, last, SCRAPE, replace(PRICES, rows=rows))
    truth: dict[str, float] = defaultdict(float)
    for job in (job for site in sites for job in site.jobs):
        seconds = max(0.0, job.end - max(job.start, END - FORTNIGHT))
        truth[job.account or job.namespace] += seconds / HOUR * len(job.gpus) * job.fraction
    costs = true_costs(sites, Month("", END - FORTNIGHT, END))
    for what, found, true in zip(("hours", "cost"), answers, (truth, costs), strict=True):
        errors = {team: found.get(team, 0.0) / amount - 1 for team, amount in true.items()}
        worst = max(errors, key=lambda team: abs(errors[team]))
        whole = sum(found.values()) / sum(true.values()) - 1
        sys.stdout.write(f"recorded {what}  {whole:+.3%} in all, {errors[worst]:+.3%} {worst}; the last fortnight\n")
        yield from (f"recorded {what} {team}: {error:+.2%}" for team, error in errors.items() if abs(error) > TOLERANCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        wrong = play(options.seed, Path(folder))
    sys.stdout.write("".join(f"WRONG {each}\n" for each in wrong))
    sys.stdout.write(f"{sum(os.times()[:4]) / 60:.1f} CPU minutes\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
