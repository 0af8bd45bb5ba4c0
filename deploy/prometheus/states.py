"""The ledger's states as rules see them, from the ledger's own table."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.states import RULES, Group

BUSY = tuple(rule.state for rule in RULES if rule.group is Group.BUSY)
"""A kernel ran."""

LOST = tuple(
    rule.state
    for rule in RULES
    if rule.group is Group.WAITING
    or rule.state == "held_idle"
    or (rule.group is Group.BUSY and rule.audience == "oncall")
)
"""Held, and nothing (or less than could be) came of it: idle, waiting, or slowed down by heat or power."""

ADVICE = {rule.state: rule.advice for rule in RULES if rule.state in LOST}


def regex(states: Iterable[str]) -> str:
    return "|".join(states)
