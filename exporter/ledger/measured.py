"""Comparisons with what may not be measured: that explains nothing."""

from __future__ import annotations


def at_least(number: float | None, limit: float) -> bool:
    return number is not None and number >= limit


def below(number: float | None, limit: float) -> bool:
    return number is not None and number < limit


def at_most(number: float | None, limit: float) -> bool:
    """Also where it is not known."""
    return number is None or number <= limit
