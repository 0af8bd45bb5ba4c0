"""A thousand jobs of 5 to 300 s against the truth: `make accounting`.

Waste, digest and Showback are read from the recorded totals, summaries and months from the service.

Twenty nodes run the real tracker and store in virtual time, with jobs that are requeued, exporters that are killed, a
rollout of the DaemonSet in the middle, ten nodes that cannot be scraped for two minutes and six minutes without any
scrape. The service collects the rows; it is killed now and then. The rules run in promtool on what was scraped.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from exporter.accounting.model import CounterRow
from exporter.accounting.store import read_after
from exporter.tools.report import promql
from exporter.tools.report.accounting.collector import collect
from exporter.tools.report.accounting.database import Database, SchedulerJob
from exporter.tools.report.accounting.prices import Prices, month_at
from exporter.tools.report.accounting.prices import rules as price_rules
from exporter.tools.report.definitions import grown_in
from exporter.tools.report.showback import showback
from tests.contract.rules.promtool import RULES, complaint
from tests.unit.accounting.node import Job, Node, by_account

T0 = 1_760_000_400.0
NODES, GPUS, ACCOUNTS = 20, 8, 12
SECONDS, DRAIN = 5400, 2700
"""Seconds in which jobs begin, and after it until all has been recorded."""
SCRAPE = 15
WINDOW = "3h"
EVERYTHING = 'cluster=~".*"'
TOLERANCE = 0.01
NO_PRICES = Prices("", ())


def jobs(count: int, draw: random.Random) -> Mapping[int, list[Job]]:
    """Return jobs by node; each has one GPU. One in 25 is requeued, half of these on the same node."""
    free = dict.fromkeys(((node, gpu) for node in range(NODES) for gpu in range(GPUS)), T0 + 20.0)
    found: dict[int, list[Job]] = defaultdict(list)

    def place(name: str, account: str, earliest: float, node: int | None = None) -> tuple[int, float]:
        places = [each for each in free if node in {None, each[0]} and free[each] <= earliest]
        at = draw.choice(places or sorted(free, key=lambda each: free[each])[:1])
        start = max(earliest, free[at])
        end = start + draw.uniform(5, 300)
        found[at[0]].append(Job(name, start, end, (f"GPU-{at[1]}",), account, reports_end=draw.random() < 0.8))
        free[at] = end + draw.uniform(0.5, 5)
        return at[0], end

    for number in range(count):
        account = f"team{draw.randrange(ACCOUNTS)}"
        node, end = place(f"{number}", account, T0 + 20 + draw.uniform(0, SECONDS - 700))
        if number % 25 == 0:
            place(f"{number}", account, end + draw.uniform(2, 20), node if number % 50 else None)
    return found


@dataclass
class Exporter:
    """One node with its store, and what Prometheus scraped of it."""

    name: str
    node: Node
    jobs: Sequence[Job]
    downs: list[tuple[float, float]]
    rollout: float
    unscraped: list[tuple[float, float]]
    samples: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def run(self, until: float) -> None:
        """Run cycles and scrapes until that moment."""
        while self.node.now < until:
            down = next((end for begin, end in self.downs if begin <= self.node.now < end), 0.0)
            if down:
                self.node.sleep(down - self.node.now)
                self.node.kill()
            before = int((self.node.now - T0) // SCRAPE)
            self.node.cycle()
            if int((self.node.now - T0) // SCRAPE) > before:
                self._scrape(before + 1)

    def _scrape(self, number: int) -> None:
        if any(begin <= self.node.now < end for begin, end in self.unscraped):
            return
        place = "a" if self.node.now < self.rollout else "b"
        for row in self.node.published:
            labels = self._labels(row, place)
            for state, seconds in row.amount.states.items():
                self.samples[f'gpu_owner_gpu_seconds_total{{{labels},state="{state}"}}'][number] = seconds
            self.samples[f"gpu_owner_since_timestamp_seconds{{{labels}}}"][number] = row.since - T0

    def _labels(self, row: CounterRow, place: str) -> str:
        own = {name: value for name, value in row.key._asdict().items() if value}
        target = {"cluster": "c1", "instance": f"{self.name}-{place}:9836", "pod": f"{self.name}-{place}"}
        every = {**target, **own, "store": self.node.store_id, "since": str(int(row.since - T0))}
        return ",".join(f'{name}="{value}"' for name, value in every.items())

    def seen(self, job: Job) -> bool:
        """Whether the exporter was up at some moment of the job."""
        return not any(begin <= job.start and job.end <= end + 1 for begin, end in self.downs)


def fleet(folder: Path, schedule: Mapping[int, list[Job]], draw: random.Random) -> list[Exporter]:
    outage = (T0 + 3000, T0 + 3360)
    rollout = T0 + SECONDS / 2
    found: list[Exporter] = []
    for number in range(NODES):
        name, own = f"n{number:02}", schedule.get(number, [])
        killed = T0 + draw.uniform(300, SECONDS - 300)
        gap = T0 + 1500
        found.append(
            Exporter(
                name,
                Node(folder / f"{name}.sqlite", own, T0, all_gpus=tuple(f"GPU-{gpu}" for gpu in range(GPUS))),
                own,
                [(killed, killed + 5), (rollout + number, rollout + number + 8)],
                rollout + number,
                [outage, *([(gap, gap + 120)] if number % 2 else [])],
            )
        )
    return found


Samples = Mapping[str, Mapping[int, float]]
"""Values by series and number of the scrape."""


def recorded(
    scraped: Sequence[Samples],
    queries: Sequence[str],
    folder: Path,
    last: int,
    interval: int,
    prices: Prices = NO_PRICES,
) -> Sequence[Mapping[str, float]]:
    """Return what each query gives after the rules of the accounting ran on what was scraped, by its first label."""
    groups = yaml.safe_load((RULES / "gpu-recording.yaml").read_text())["groups"]
    (priced,) = json.loads(price_rules(prices))["groups"]
    own = [{**priced, "interval": f"{interval}s"}] if prices.rows else []
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"groups": own + [each for each in groups if each["name"] == "gpu-accounting"]}))
    series = {
        name: " ".join(f"{values[at]!r}" if at in values else "_" for at in range(last + 1))
        for samples in scraped
        for name, values in samples.items()
    }
    test: Mapping[str, Any] = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1h",
        "tests": [
            {
                "interval": f"{interval}s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": f"{query} + 0", "eval_time": f"{last * interval}s", "exp_samples": []} for query in queries
                ],
            }
        ],
    }
    text = complaint(test, folder)
    return [dict(_got(part)) for part in text.split("expr:")[1:]]


def _got(text: str) -> Iterator[tuple[str, float]]:
    """Yield account and value of the samples that promtool prints."""
    for sample in text.partition("got:")[2].split("{")[1:]:
        labels, _, value = sample.partition("}")
        yield labels.partition('"')[2].rpartition('"')[0], float(value.strip().rstrip(",").split(",")[0].split()[0])


def collected(exporters: Sequence[Exporter], path: Path, draw: random.Random) -> Callable[[float], Database]:
    """Return a round of the service, which is killed in one of ten requests."""
    by_name = {each.name: each.node.path for each in exporters}

    def ask(target: str, after: int) -> Mapping[str, Any]:
        if draw.random() < 0.1:
            raise KeyboardInterrupt
        return {"node": target, **read_after(by_name[target], after, 100)}

    def round_at(now: float) -> Database:
        while True:
            database = Database(path)
            try:
                collect(database, list(by_name), ask, lambda: now)
            except KeyboardInterrupt:
                database.close()
            else:
                return database

    return round_at


def play(count: int, seed: int, folder: Path) -> Mapping[str, tuple[float, float]]:
    """Return by reader the error in all, and of the worst account."""
    draw = random.Random(seed)  # noqa: S311 - a schedule
    schedule = jobs(count, draw)
    exporters = fleet(folder, schedule, draw)
    collecting = collected(exporters, folder / "service.sqlite", draw)
    for minute in range(5, (SECONDS + DRAIN) // 60 + 1, 5):
        for each in exporters:
            each.run(T0 + minute * 60)
        collecting(T0 + minute * 60).close()
    every = [job for own in schedule.values() for job in own]
    truth = by_account(every)
    queries = [
        *(promql.allocated_gpu_hours(level, EVERYTHING, WINDOW) for level in ("account", "team")),
        f"sum by (team) ({grown_in(WINDOW)('team:gpu_owner_gpu_seconds:increase')})",
    ]
    scraped = [each.samples for each in exporters]
    waste, digest, teams = recorded(scraped, queries, folder, (SECONDS + DRAIN) // SCRAPE, SCRAPE)
    database = collecting(T0 + SECONDS + DRAIN)
    unseen = sum(not each.seen(job) for each in exporters for job in each.jobs)
    database.compare(
        [SchedulerJob(job.id, job.start, job.end, 1.0) for job in every if not _again(job, every)], TOLERANCE
    )
    service = {each.name: each.seconds for each in database.totals("account", T0, T0 + 4 * 3600) if each.name}
    months = {row.name: row.gpu_hours for row in showback(database, month_at(T0), "team", "", NO_PRICES, T0).rows}
    truths = {job.id: _of(job, every) for job in every}
    wrong = sum(abs(database.job(job, T0, T0 + 1e5).seconds - own) > own / 100 for job, own in truths.items())
    database.close()
    for each in exporters:
        each.node.close()
    sys.stdout.write(
        f"seed {seed}: {len(every)} allocations, {sum(truth.values()):.0f} GPU s, {unseen} while an exporter was down\n"
        f"jobs that differ by more than 1 % in summaries: {wrong}\n"
    )
    hours = {
        "Waste": waste,
        "digest": digest,
        "Showback": teams,
        "summaries": {name: each / 3600 for name, each in service.items()},
        "month": {name: each for name, each in months.items() if name},
    }
    return {name: _errors(found, truth) for name, found in hours.items()}


def _again(job: Job, every: Sequence[Job]) -> bool:
    return sum(other.id == job.id for other in every) > 1


def _of(job: Job, every: Sequence[Job]) -> float:
    """Return the GPU seconds of a job over all its starts."""
    return sum(other.gpu_seconds for other in every if other.id == job.id)


def _errors(found: Mapping[str, float], truth: Mapping[str, float]) -> tuple[float, float]:
    whole = sum(found.values()) * 3600 / sum(truth.values()) - 1
    worst = max((found.get(name, 0.0) * 3600 / seconds - 1 for name, seconds in truth.items()), key=abs)
    return whole, worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = play(options.jobs, options.seed, Path(folder))
    for name, (whole, worst) in found.items():
        sys.stdout.write(f"{name:10} {whole:+.3%} in all, {worst:+.3%} of the worst account\n")
    return 0 if all(abs(each) <= TOLERANCE for errors in found.values() for each in errors) else 1


if __name__ == "__main__":
    sys.exit(main())
