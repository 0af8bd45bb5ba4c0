"""One contained read of one GPU, and the last good reading of each collector."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from exporter.collectors.base import AnyCollector, Pace, Scope, Tick, in_time
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime
from exporter.core.counters import NO_COUNTS, Counts, count, published
from exporter.core.families import AnyFamily, Block, Columns, Type
from exporter.core.record import record
from exporter.driver.checked_device import NO_LOSSES, CheckedDevice
from exporter.driver.interface import Device, DeviceLostError, DriverError, DriverGoneError, UnsupportedError


@dataclass(slots=True)
class CachedReading:
    """The last good reading of one collector on one target. Nothing of it changes but `made`.

    Cycles are many and scrapes few: every reading advances the counters, so that no reset between two scrapes is
    missed; samples are made of those readings alone that a scrape meets.
    """

    collector: AnyCollector
    reading: Any
    monotonic: MonotonicTime
    carried: tuple[Counts, ...] = ()
    """The collector's counters, in their order."""
    made: tuple[Block, ...] | None = None
    """Its samples, once a page has asked for them."""

    def blocks(self, prefix: tuple[str, ...]) -> tuple[Block, ...]:
        """Its samples by family, labelled with `prefix`; raises what a family's function raises."""
        found = self.made
        if found is None or (found and found[0].prefix != prefix):
            found = self.made = tuple([Block(family, prefix, made) for family, made in self._made() if made.labels])
        return found

    def _made(self) -> Iterator[tuple[AnyFamily, Columns]]:
        counts = iter(self.carried)
        for family in self.collector.families:
            counter = family.type is Type.COUNTER
            yield family, family.checked(published(next(counts))) if counter else family.columns(self.reading)


def next_reading(
    collector: AnyCollector, before: CachedReading | None, reading: Any, monotonic: MonotonicTime
) -> CachedReading:
    """Return what is kept of one more good reading.

    It has the samples of the one before where it says the same, as most do that are read seldom.
    """
    counts = before.carried if before else (NO_COUNTS,) * len(collector.counters)
    advanced = zip(counts, collector.counters, strict=True)
    counters = tuple([count(each, family.by_labels(reading)) for each, family in advanced])
    made = None
    if before is not None and collector.pace is not Pace.CYCLE and before.reading == reading:
        made = before.made if before.carried == counters else None
    return CachedReading(collector, reading, monotonic, counters, made)


def outlives_device(family: AnyFamily) -> bool:
    """Return whether a family outlives its device, as counters and descriptions do."""
    return family.type is Type.COUNTER or family.is_info


def is_fresh(cached: CachedReading, monotonic: MonotonicTime, answered: MonotonicTime, stale: float) -> bool:
    """Return whether gauges of `cached` may still be shown.

    `answered` is when the device last answered anything; all times are monotonic seconds.
    """
    if monotonic - answered > stale:
        return False
    return cached.collector.pace is Pace.ONCE or monotonic - cached.monotonic <= stale + 2 * cached.collector.pace


log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 5.0, 300.0
"""Seconds until a collector that a device has nothing of is asked again: soon at first, for what a GPU refuses while
it starts up or for a moment it has a little later; then seldom, for a driver update may have brought it."""


_LATE_SECONDS = 0.5
"""Seconds after its beginning from which what a read is answered is late: all in time is of one moment."""
_MAX_FAILURE_SECONDS = 10.0
"""Seconds until a collector that keeps failing is asked again; after its first failures sooner."""
_GONE = (DeviceLostError, DriverGoneError)

LastAnswers = dict[str, CheckedDevice]
"""The targets with what each answered before, by uuid; belongs to the thread that reads the GPU."""


@record
class TargetState:
    """The readings of one GPU or MIG instance, and when to read again."""

    readings: Mapping[str, CachedReading] = field(default_factory=dict[str, CachedReading])
    again: Mapping[str, MonotonicTime] = field(default_factory=dict[str, MonotonicTime])
    """Monotonic seconds at which a collector may be asked again."""
    refusals: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of reads in a row in which the device had nothing for a collector, or failed."""


NO_STATE = TargetState()
"""State of a target that was never read."""


class CollectorResult(NamedTuple):
    """The result of one collector on one GPU or MIG instance. `error` is empty on success."""

    target: str
    """Its uuid."""
    collector: str
    seconds: float
    error: str
    rejected: int = 0
    """Answers that were implausible and left out."""
    answered: bool = True
    """True if it brought a reading."""


@record
class GpuRead:
    """One read of one GPU: the new states by target uuid, the outcomes, and whether the GPU answered."""

    device: Device
    at: MonotonicTime
    """Time at which it began."""
    states: Mapping[str, TargetState]
    outcomes: tuple[CollectorResult, ...]
    answered: bool
    device_error: DriverError | None = None
    silence: DriverError | None = None
    """Reason why no question was answered."""


def read_gpu(  # noqa: PLR0913 - what a read goes by
    device: Device,
    states: Mapping[str, TargetState],
    collectors: Sequence[AnyCollector],
    now: UnixTime,
    monotonic: MonotonicTime,
    memories: LastAnswers,
    *,
    clock: MonotonicClock | None = None,
) -> GpuRead:
    """Read every due collector of a GPU and its MIG instances.

    `memories` are what these targets answered before, by uuid; those of new ones are added, of gone ones dropped.
    `clock` states how late an answer is, where `monotonic` is of the machine's own time.

    A lost device or driver ends the read at once, since every further call would fail (or hang) the same way.
    """
    read: dict[str, TargetState] = {}
    outcomes: list[CollectorResult] = []
    answered = False
    device_error: DriverError | None = None
    silence: DriverError | None = None
    tick = Tick(now, 0.0, partial(_late_seconds, clock, monotonic) if clock else in_time)
    for target in (device, *device.instances):
        checked = memories.get(target.uuid)
        if checked is None:
            checked = memories[target.uuid] = CheckedDevice(target)
        checked.begin(target, monotonic)
        attempts = _TargetRead(checked, states.get(target.uuid, NO_STATE), tick, monotonic)
        with checked.reading():
            for collector in attempts.due(collectors):
                outcome, failure = attempts.attempt(collector)
                outcomes.append(outcome)
                answered, silence = answered or failure is None, silence or failure
                if failure is not None and isinstance(failure, _GONE):
                    device_error = failure
                    break
        read[target.uuid] = attempts.state()
        if device_error:
            break
    if len(memories) > len(read) and not device_error:
        for uuid in memories.keys() - read.keys():
            del memories[uuid]
    unanswered = None if answered else silence
    return GpuRead(device, monotonic, {**states, **read}, tuple(outcomes), answered, device_error, unanswered)


def extra_reads(device: Device, states: Mapping[str, TargetState], interval: float) -> int:
    """Return how often to read a GPU again inside a cycle of `interval` seconds: as often as any collector wants."""
    readings = states.get(device.uuid, NO_STATE).readings.values()
    return max([each.collector.extra_reads(each.reading, interval) for each in readings], default=0)


def read_again(
    device: Device, states: Mapping[str, TargetState], monotonic: MonotonicTime, memories: LastAnswers, interval: float
) -> GpuRead:
    """Read a GPU again inside a cycle, by the collectors that want it. What fails is left to the next cycle."""
    checked, state = memories[device.uuid], states[device.uuid]
    checked.begin(device, monotonic)
    readings = dict(state.readings)
    with checked.reading(), suppress(DriverError):
        for name, each in state.readings.items():
            if each.collector.extra_reads(each.reading, interval):
                checked.asked_by(name)
                readings[name] = replace(each, reading=each.collector.read_again(checked, each.reading))
    return GpuRead(device, monotonic, {**states, device.uuid: replace(state, readings=readings)}, (), answered=False)


class _TargetRead:
    """One read of one target under way. It works on copies: the state before it stays as it was.

    A read that hangs goes on beside the cycles, which still have that state.
    """

    def __init__(self, target: CheckedDevice, state: TargetState, tick: Tick, monotonic: MonotonicTime) -> None:
        self._target = target
        self._readings = dict(state.readings)
        self._again = dict(state.again)
        self._refusals = dict(state.refusals)
        self._now = tick.time
        self._monotonic = monotonic
        self._tick = tick
        self._ended = time.perf_counter()
        """End of the attempt before, and start of this one."""

    def due(self, collectors: Iterable[AnyCollector]) -> Sequence[AnyCollector]:
        scope = Scope.GPU if self._target.mig is None else Scope.INSTANCE
        now, again = self._monotonic, self._again
        return [each for each in collectors if each.scope is scope and again.get(each.name, NEVER) <= now]

    def attempt(self, collector: AnyCollector) -> tuple[CollectorResult, DriverError | None]:
        name, device, now = collector.name, self._target, self._monotonic
        device.asked_by(name)
        before = self._readings.get(name)
        seconds = now - before.monotonic if before else 0.0
        if seconds != self._tick.seconds:  # for most the same as for the collector before
            self._tick = Tick(self._now, seconds, self._tick.late)
        failure: DriverError | None = None
        error, refused, again = "", 0, now + collector.period
        try:
            reading = collector.read(device, before.reading if before else None, self._tick)
            self._readings[name] = next_reading(collector, before, reading, now)
        except UnsupportedError:
            failure, refused, again = self._without_answer(collector)
        except DriverError as caught:
            failure, error = caught, f"{type(caught).__name__} {caught.code}: {caught}"
            refused, again = (0, now) if isinstance(caught, _GONE) else self._after_failure(name)
        except Exception as caught:  # one collector's bug must not take the others' data with it
            failure, error = DriverError(str(caught)), f"{type(caught).__name__}: {caught}"
            log.debug("collector %s is broken on %s", name, device.uuid, exc_info=True)
        self._again[name], self._refusals[name] = again, refused
        losses = device.losses() if device.rejected or device.refused or device.failing else NO_LOSSES
        started, self._ended = self._ended, time.perf_counter()
        brought = failure is None and not refused
        seconds = self._ended - started
        return CollectorResult(device.uuid, name, seconds, error or losses.words, losses.rejected, brought), failure

    def _without_answer(self, collector: AnyCollector) -> tuple[DriverError | None, int, MonotonicTime]:
        """Return the failure, the refusals in a row and the next time to read of an unsupported collector."""
        if self._target.fails():  # it has nothing since all its calls fail: that may be over soon
            return DriverError(self._target.losses().words), *self._after_failure(collector.name)
        refused = self._refusals.get(collector.name, 0) + 1
        pause = min(_FIRST_RETRY_SECONDS * 2.0 ** min(refused - 1, 16), _MAX_RETRY_SECONDS)
        pace = collector.pace.value if collector.pace is not Pace.ONCE else 0.0
        return None, refused, self._monotonic + max(pause, pace)

    def _after_failure(self, name: str) -> tuple[int, MonotonicTime]:
        """Return the failures in a row and the next time to read."""
        failures = self._refusals.get(name, 0) + 1
        return failures, self._monotonic + min(2.0 ** min(failures, 16) - 2.0, _MAX_FAILURE_SECONDS)

    def state(self) -> TargetState:
        return TargetState(self._readings, self._again, self._refusals)


def _late_seconds(clock: MonotonicClock, began: MonotonicTime) -> float:
    late = clock() - began
    return late if late > _LATE_SECONDS else 0.0
