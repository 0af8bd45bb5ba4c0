"""The ledger's states as rules see them, from the ledger's own table."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.states import BUSY, LOST, POSSIBLY_LOST, TABLE

__all__ = ["ADVICE", "BUSY", "LOST", "OWNERS", "POSSIBLY_LOST", "TITLES", "regex"]

ADVICE = {state.name: state.advice for state in TABLE if state.name in {*LOST, *POSSIBLY_LOST}}

OWNERS = tuple(
    state.name
    for state in TABLE
    if state.audience == "owner" and state.name in {*LOST, *POSSIBLY_LOST} and state.name not in BUSY
)
"""Time that its owner may have wasted: lost for certain or likely, or possibly while no kernel ran."""

TITLES = {state.name: state.title for state in TABLE}
"""Titles as dashboards, report and status page call them."""


def regex(states: Iterable[str]) -> str:
    return "|".join(states)
