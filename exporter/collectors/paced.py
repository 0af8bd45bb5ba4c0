"""A slower part of a faster reading: limits and names that change seldom are carried from pass to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from exporter.collectors.base import Pace, Tick
from exporter.core.clock import UnixTime
from exporter.core.record import record

T = TypeVar("T")

_EARLY = 0.5
"""Seconds before its time that a reading is due, so that a pass that starts a moment sooner does not skip it."""


@record
class Paced(Generic[T]):
    """What was read at `time`."""

    value: T
    time: UnixTime


def read_when_due(previous: Paced[T] | None, pace: Pace, tick: Tick, read: Callable[[], T]) -> Paced[T]:
    """`previous` while it is younger than `pace`, else a new one from `read`.

    A clock set back makes it due at once.
    """
    if previous is not None and 0.0 <= tick.time - previous.time < pace - _EARLY:
        return previous
    return Paced(read(), tick.time)
