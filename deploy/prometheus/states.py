"""The ledger's states as rules see them, from the ledger's own table."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.palette import look
from exporter.ledger.states import BUSY, LOST, POSSIBLY_LOST, RULES

__all__ = ["ADVICE", "BUSY", "LOST", "POSSIBLY_LOST", "TITLES", "regex"]

ADVICE = {rule.state: rule.advice for rule in RULES if rule.state in {*LOST, *POSSIBLY_LOST}}

TITLES = {rule.state: look(rule.state).title for rule in RULES}
"""As dashboards, report and status page call them."""


def regex(states: Iterable[str]) -> str:
    return "|".join(states)
