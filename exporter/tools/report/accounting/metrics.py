"""Metrics of the accounting service: jobs of Slurm that wait for GPUs, and the month of each team with a budget.

`squeue` reports the jobs: demand beside the supply.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from exporter.host import program
from exporter.host.text import lines
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.prices import Prices, forecast, month_at

_FORMAT = "tres-alloc:|,tres-per-job:|,tres-per-node:|,NumNodes:|,SubmitTime:|,Reason:|"
_COLUMNS = _FORMAT.count("|")
_GPUS = re.compile(r"\bgpu(?:[:=][a-z_][^=:,]*)?[:=](\d+)", re.IGNORECASE)
_TIMEOUT_SECONDS = 30.0
_FOR_ROOM = {"None", "Resources", "Priority", "ReqNodeNotAvail"}
_LIMIT = re.compile("QOS|Assoc|Partition|MaxGRES|JobArrayTaskLimit|BeginTime|Licenses|Reservation")
_REASONS = ("capacity", "limit", "other")
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class WaitingJob(NamedTuple):
    """One job, or element of an array, with GPUs."""

    gpus: float
    nodes: int
    since: float
    reason: str
    """`capacity`: there is no room; `limit`: of the user, account or partition; `other`: on hold, dependent."""


def waiting(command: str) -> list[WaitingJob]:
    """Ask squeue. Raises ProgramError."""
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    asked = [command, "-h", "-a", "-r", "-t", "PD", "-O", _FORMAT]
    return list(parse(lines(program.output(asked, _TIMEOUT_SECONDS, environment=environment))))


def parse(printed: Iterable[str]) -> Iterator[WaitingJob]:
    """Yield the jobs with GPUs of what squeue prints."""
    for line in printed:
        values = [value.strip() for value in line.split("|")]
        if len(values) <= _COLUMNS or not values[4].isdecimal():
            continue
        nodes = max(1, int(values[3])) if values[3].isdecimal() else 1
        # Without gres/gpu among AccountingStorageTRES, only the request itself names GPUs.
        counts = [_GPUS.search(value) for value in values[:3]]
        gpus = [float(found[1]) * times for found, times in zip(counts, (1, 1, nodes), strict=True) if found]
        if gpus:
            yield WaitingJob(gpus[0], nodes, float(values[4]), _reason(values[5].strip("()")))


def _reason(text: str) -> str:
    name = text.partition(",")[0]
    if name in _FOR_ROOM:
        return "capacity"
    return "limit" if _LIMIT.search(name) else "other"


class Queue(Collector):
    """The metrics of the waiting jobs. Absent while squeue fails."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.jobs: Sequence[WaitingJob] | None = None

    def collect(self) -> Iterator[Metric]:
        if self.jobs is None:
            return
        stuck = [job for job in self.jobs if job.reason == "capacity"]
        gpus = {reason: sum(job.gpus for job in self.jobs if job.reason == reason) for reason in _REASONS}
        sizes = Counter(str(next((size for size in _SIZES if job.gpus <= size), "more")) for job in stuck)
        waited = sorted(self._now() - job.since for job in stuck) or [0.0]
        high = quantiles(waited, n=20, method="inclusive")[-1] if len(waited) > 1 else waited[0]
        seconds = {"0.5": median(waited), "0.95": high, "1": waited[-1]}
        yield _family("gpus", "GPUs that pending jobs of Slurm request, by what they wait for.", "reason", gpus)
        yield _family("jobs", "Jobs that wait for capacity, by requested GPUs, up to a power of two.", "size", sizes)
        yield _family("seconds", "Time that jobs have waited for capacity.", "quantile", seconds)
        if stuck:
            least = min(job.gpus / job.nodes for job in stuck)
            yield _family(
                "smallest_gpus", "GPUs per node of the smallest job that waits for capacity.", "", {"": least}
            )


def _family(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"gpu_accounting_waiting_{name}", help, labels=[label] if label else [])
    for value, number in values.items():
        family.add_metric([value] if label else [], number)
    return family


class TeamMonth(NamedTuple):
    """Money of one team in the current month."""

    cost: float
    budget: float
    forecast: float
    """Cost at the end of the month, at its mean so far."""


def months(database: Database, prices: Prices, now: float) -> Mapping[str, TeamMonth]:
    """Return the teams that have a budget. Raises sqlite3.Error."""
    of = month_at(now)
    span = of.begin, of.end
    costs = dict.fromkeys(prices.budgets, 0.0)
    for charge in database.charges("team", *span, prices):
        if charge.name in costs:
            costs[charge.name] += charge.hours * (charge.price or 0.0)
    hours = database.hours_covered(*span)
    return {
        team: TeamMonth(cost, prices.budgets[team], forecast(cost, hours, now, *span)) for team, cost in costs.items()
    }


class Budgets(Collector):
    """The metrics of the teams that have a budget."""

    def __init__(self) -> None:
        self.teams: Mapping[str, TeamMonth] = {}

    def collect(self) -> Iterator[Metric]:
        for name, meaning in (
            ("cost", "Cost of the team in this month, in the currency of the site's prices."),
            ("budget", "Budget of the team for this month."),
            ("forecast", "Cost of the team at the end of this month, at its mean so far."),
        ):
            family = GaugeMetricFamily(f"gpu_accounting_month_{name}", meaning, labels=["team"])
            for team, month in self.teams.items():
                family.add_metric([team], getattr(month, name))
            yield family
