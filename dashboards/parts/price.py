"""Queries of money: GPU hours by the recorded prices of the site."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.parts.query import RANGE
from exporter.tools.report import promql

priced = promql.priced
_NO_PRICE = -1
MAPPINGS: list[model.ValueMapping] = [
    model.ValueMap(options={f"{_NO_PRICE}": model.ValueMappingResult(text="No price is configured", index=0)})
]
SOURCE = (
    "Each hour at its price, in the currency of the site's price file. GPUs of a model without a price are not in it."
)


def total(expr: str) -> str:
    """Return the sum of prices, or the number that MAPPINGS shows as words where the site has no price."""
    return f"sum({expr}) or (vector({_NO_PRICE}) unless on () gpu:price_per_hour)"


def allocated(owner: str) -> str:
    """Return the price of what was allocated to each workload in the range."""
    return promql.allocated_price(owner, RANGE)


def lost(owner: str) -> str:
    """Return the price of what was allocated to each workload and lost in the range."""
    return promql.waste_price(owner, RANGE)


def of_teams(scope: str, recorded: str = "team:gpu_owner_cost") -> str:
    """Return the cost of what was allocated to each team, or of another recorded cost of teams."""
    return promql.cost(recorded, promql.owned(promql.TEAM, scope), RANGE, promql.TEAM)


def in_states(level: str, scope: str, states: str, by: str) -> str:
    """Return the price of the hours that owners had in some states, by exact counters."""
    return promql.cost_in_states(level, scope, RANGE, states, by)


def of_possible_waste(level: str, scope: str) -> str:
    """Return the price of hours that may be as they should: waiting for requests, for people, for a cause unknown."""
    return promql.price_of_possible_waste(level, scope, RANGE)


def of_waste(level: str, scope: str) -> str:
    """Return the price of the waste per account, namespace, user or workload: what the digest of the report asks."""
    return promql.price_of_waste(level, scope, RANGE)
