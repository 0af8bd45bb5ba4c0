"""Price of GPU hours: one per family of models, which the reader sets at the top of the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.parts import variable
from dashboards.parts.query import RANGE
from exporter.tools.report import promql


class Price(NamedTuple):
    variable: str
    label: str
    models: str
    """Pattern of gpu_info's model; empty for all that no row above names."""
    default: str


# fmt: off
PRICES = (
    Price("price_b200",  "B200, GB200",       ".*B(100|200|300).*",            "5.00"),
    Price("price_h100",  "H100, H200, GH200", ".*(H100|H200|H800|H20).*", "3.00"),
    Price("price_a100",  "A100",              ".*(A100|A800).*",          "1.80"),
    Price("price_l40s",  "L40S, L40, L4",     ".*L4.*",                   "1.00"),
    Price("price_other", "Other models",      "",                         "0.60"),
)
# fmt: on
"""The defaults are round numbers, not a vendor's prices: set your own."""


def variables() -> list[build.TextBoxVariable]:
    return [variable.text(row.variable, f"$/h {row.label}", row.default, _description(row)) for row in PRICES]


def _description(row: Price) -> str:
    which = f"models that match {row.models}" if row.models else "all other models"
    return f"Price of one GPU hour, for {which}"


RATES = tuple(promql.Rate(row.models, f"${row.variable}") for row in PRICES)


def priced(gpu_hours: Callable[[str], str]) -> str:
    """The price of GPU hours that have a series per model; `gpu_hours` gets a matcher to add to its selector."""
    return promql.priced(gpu_hours, RATES)


def held(owner: str) -> str:
    """Price of what each workload was allocated in the range."""
    return promql.held_price(owner, RANGE, RATES)


def lost(owner: str) -> str:
    """Price of what each workload was allocated and lost in the range."""
    return promql.waste_price(owner, RANGE, RATES)


def in_states(level: str, scope: str, states: str, by: str) -> str:
    """Price of the hours that owners had in some states, by exact counters."""
    return promql.price_in_states(level, scope, RANGE, states, RATES, by)


def of_waste(level: str, scope: str) -> str:
    """The same per account, namespace, user or workload: what the digest of the report asks."""
    return promql.price_of_waste(level, scope, RANGE, RATES)
