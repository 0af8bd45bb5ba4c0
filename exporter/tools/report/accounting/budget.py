"""Cost of the month so far beside the budgets of teams, as metrics for alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from exporter.accounting.model import HOUR_SECONDS
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.prices import Prices, month_at


class TeamMonth(NamedTuple):
    """Money of one team in the current month."""

    cost: float
    budget: float
    forecast: float
    """Cost at the end of the month, at its mean so far."""


def forecast(cost: float, hours: int, now: float, begin: float, end: float) -> float:
    """Continue a cost to the end of the month. `hours` are those that have data."""
    rest = max(0.0, end - max(now, begin)) / HOUR_SECONDS
    return cost * (hours + rest) / hours if hours else cost


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
