"""What a collector is: one group of driver calls, how often to make them, and the families they feed."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from exporter.core.clock import UnixTime
from exporter.core.families import Family, Type
from exporter.core.record import record
from exporter.driver.interface import Device

R = TypeVar("R")


class Pace(float, enum.Enum):
    """How often a collector reads, in seconds; the driver's time is what sampling costs."""

    PASS = 0.0
    FAST = 5.0
    SLOW = 30.0
    ONCE = float("inf")


_EARLY = 0.95
"""A reading is due a little early, so that a pass that starts a moment sooner does not skip a whole interval."""


class Scope(enum.Enum):
    """What a collector reads: whole GPUs, or MIG instances."""

    GPU = "gpu"
    INSTANCE = "instance"


def in_time() -> float:
    """Answers come as soon as they are asked for."""
    return 0.0


@record
class Tick:
    """The moment of one read. `seconds` is since this collector's last good read, 0 at first.

    `late` tells by how many seconds the answer that has just come is later than this moment, where it is much: a call
    may hang before it answers.
    """

    time: UnixTime
    seconds: float
    late: Callable[[], float] = in_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector(Generic[R]):
    """One group of driver calls and the families made from what they return.

    `read(device, previous, tick)` gets its own last good reading of this device, or None: what needs two points
    in time (an integral, a cursor into a sample buffer) carries it in the reading, so a collector has no state.
    It raises UnsupportedError when the device has none of it, DriverError when the driver failed.
    """

    name: str
    help: str
    pace: Pace
    read: Callable[[Device, R | None, Tick], R]
    families: tuple[Family[R], ...]
    scope: Scope = Scope.GPU
    counters: tuple[Family[R], ...] = field(init=False)
    """Those of its families that are counters."""
    period: float = field(init=False)
    """Seconds until a reading is due again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counters", tuple(each for each in self.families if each.type is Type.COUNTER))
        object.__setattr__(self, "period", self.pace.value * _EARLY)


AnyCollector = Collector[Any]
