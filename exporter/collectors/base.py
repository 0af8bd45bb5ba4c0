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


@record
class Seen:
    """How busy looks have found a GPU since the last pass: of these `seconds`, so many were busy."""

    seconds: float = 0.0
    busy: float = 0.0
    memory_busy: float = 0.0


_NOTHING_SEEN = Seen()


def in_time() -> float:
    """Answers come as soon as they are asked for."""
    return 0.0


def nothing_seen() -> Seen:
    """No look was had."""
    return _NOTHING_SEEN


@record
class Tick:
    """The moment of one read. `seconds` is since this collector's last good read, 0 at first.

    `seen` adds up what looks have found since the last pass, which few devices need. `late` tells by how many seconds
    the answer that has just come is later than this moment, where it is much: a call may hang before it answers.
    """

    time: UnixTime
    seconds: float
    seen: Callable[[], Seen] = nothing_seen
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
    numbers: tuple[Callable[[R], float | None], ...] = field(init=False)
    """What gives the values of those families that are counters of one number each; not of those it sums up itself."""
    counters: tuple[Family[R], ...] = field(init=False)
    """Those that are counters by labels."""
    period: float = field(init=False)
    """Seconds until a reading is due again."""
    counts: bool = field(init=False)
    """Whether it has counters of the driver."""

    def __post_init__(self) -> None:
        counters = [each for each in self.families if each.type is Type.COUNTER and not each.summed]
        object.__setattr__(self, "numbers", tuple(each.value for each in counters if each.value))
        object.__setattr__(self, "counters", tuple(each for each in counters if not each.value))
        object.__setattr__(self, "counts", bool(counters))
        object.__setattr__(self, "period", self.pace.value * _EARLY)


AnyCollector = Collector[Any]
