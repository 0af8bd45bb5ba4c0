"""Declaration of a collector: one group of driver calls, how often to make them, and the families they feed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from exporter.core.clock import UnixTime
from exporter.core.families import Family, Type
from exporter.core.record import record
from exporter.driver.interface import Device

R = TypeVar("R")


class Pace(float, enum.Enum):
    """Interval at which a collector reads, in seconds; the driver's time is what sampling costs."""

    CYCLE = 0.0
    FAST = 5.0
    SLOW = 30.0
    ONCE = float("inf")


_EARLY_FRACTION = 0.95
"""A reading is due a little early, so that a cycle that starts a moment sooner does not skip a whole interval."""


class Scope(enum.Enum):
    """Targets that a collector reads: whole GPUs, or MIG instances."""

    GPU = "gpu"
    INSTANCE = "instance"


def in_time() -> float:
    """Answers come as soon as they are asked for."""
    return 0.0


@record
class Tick:
    """The moment of one read. `seconds` is since this collector's last good read, 0 at first.

    `late` states by how many seconds the answer that has just come is later than this moment, where it is much: a call
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
    extra_reads: Callable[[R, float], int] = lambda _reading, _interval: 0
    """Return how many reads inside a cycle of so many seconds a reading asks for."""
    read_again: Callable[[Device, R], R] = lambda _device, reading: reading
    """Add one of them to the reading: the next `read` gets that as `previous`."""
    counters: tuple[Family[R], ...] = field(init=False)
    """Those of its families that are counters."""
    period: float = field(init=False)
    """Seconds until a reading is due again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counters", tuple(each for each in self.families if each.type is Type.COUNTER))
        object.__setattr__(self, "period", self.pace.value * _EARLY_FRACTION)


AnyCollector = Collector[Any]


T = TypeVar("T")

_EARLY_SECONDS = 0.5
"""Seconds before its time that a reading is due, so that a cycle that starts a moment sooner does not skip it."""


@record
class Paced(Generic[T]):
    """A reading and the `time` of it."""

    value: T
    time: UnixTime


def read_when_due(previous: Paced[T] | None, pace: Pace, tick: Tick, read: Callable[[], T]) -> Paced[T]:
    """`previous` while it is younger than `pace`, else a new one from `read`.

    A clock set back makes it due at once.
    """
    if previous is not None and 0.0 <= tick.time - previous.time < pace - _EARLY_SECONDS:
        return previous
    return Paced(read(), tick.time)


Field = tuple[int, int]
"""Field id and scope: a link number, ALL_LINKS, or 0 where the id has no scope."""

ALL_LINKS = 0xFFFFFFFF

_PROBE_INTERVAL_SECONDS = 300.0
"""Seconds until everything is asked again: what a GPU still starting up refused, it may have by then."""


@record
class Fields:
    """Values of one batch, and which of its fields this device has at all."""

    supported: tuple[Field, ...]
    values: Mapping[Field, float]
    probed: UnixTime
    """Time at which all were asked."""
    answers: Sequence[float | None] = ()
    """Supported answers as they came: the same answers make the same values."""

    def get(self, field: int, scope: int = 0) -> float | None:
        return self.values.get((field, scope))


def read_fields(device: Device, wanted: Iterable[Field], previous: Fields | None, tick: Tick) -> Fields:
    """Ask `wanted` now and then, and in between only what answered.

    ECC and NVLink ids belong in batches of their own: mixed, they came back empty on GB200 (NVIDIA/DCGM#265).
    """
    known = previous if previous and 0.0 <= tick.time - previous.probed < _PROBE_INTERVAL_SECONDS else None
    listed = known.supported if known else tuple(wanted)
    answers = (device.get("nvmlDeviceGetFieldValues", listed) if listed else None) or (None,) * len(listed)
    if known and answers == known.answers:
        return known
    values = {field: value for field, value in zip(listed, answers, strict=True) if value is not None}
    if known:
        return Fields(listed, values, known.probed, answers)
    # What answered before is asked on although this probe did not bring it: a driver refuses for a moment at times.
    before = previous.supported if previous else ()
    supported = tuple(
        field for field in listed if field in values or (field in before and previous and previous.values)
    )
    return Fields(supported, values, tick.time)
