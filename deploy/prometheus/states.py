"""The ledger's states as rules see them, from the ledger's own table."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.states import BUSY, LOST, POSSIBLY_LOST, RULES

__all__ = ["ADVICE", "BUSY", "LOST", "POSSIBLY_LOST", "regex"]

ADVICE = {rule.state: rule.advice for rule in RULES if rule.state in {*LOST, *POSSIBLY_LOST}}


def regex(states: Iterable[str]) -> str:
    return "|".join(states)
