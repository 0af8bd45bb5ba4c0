"""One contained read of one GPU: each collector's failure stays where it happened."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.collectors.base import AnyCollector, Pace, Scope, Tick
from exporter.driver.checked_device import CheckedDevice, Memory
from exporter.driver.interface import Device, DeviceLostError, DriverError, DriverGoneError, UnsupportedError
from exporter.metrics.counters import Counts, count
from exporter.metrics.family import Sample, Type
from exporter.sampling.cached_reading import CachedReading

log = logging.getLogger(__name__)

_UNSUPPORTED_FIRST, _UNSUPPORTED_LONGEST = 5.0, 300.0
"""Seconds until a collector that a device has nothing of is asked again: soon at first, for what a GPU refuses while
it starts up or for a moment it has a little later; then seldom, for a driver update may have brought it."""


Memories = dict[str, Memory]
"""What each target answered before, by uuid; belongs to the thread that reads the GPU."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """What is kept of one GPU or MIG instance between passes."""

    readings: Mapping[str, CachedReading] = field(default_factory=dict[str, CachedReading])
    tried: Mapping[str, float] = field(default_factory=dict[str, float])
    """Monotonic seconds at which a collector may be asked again."""
    refusals: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often in a row the device had nothing of a collector."""
    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    """Published counters by family name."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one collector fared on one GPU (its instances included). `error` is empty on success."""

    collector: str
    seconds: float
    error: str
    rejected: int = 0
    """Answers that were implausible and left out."""


@dataclass(frozen=True, slots=True)
class GpuRead:
    """One read of one GPU: the new states by target uuid, the outcomes, and whether the GPU answered."""

    device: Device
    states: Mapping[str, TargetState]
    outcomes: tuple[Outcome, ...]
    answered: bool
    device_error: DriverError | None = None


def read_gpu(
    device: Device,
    states: Mapping[str, TargetState],
    collectors: Sequence[AnyCollector],
    now: float,
    monotonic: float,
    memories: Memories,
) -> GpuRead:
    """Read every due collector of a GPU and its MIG instances.

    `memories` are what these targets answered before, by uuid; those of new ones are added.

    A lost device or driver ends the read at once, since every further call would fail (or hang) the same way.
    """
    read: dict[str, TargetState] = {}
    outcomes: list[Outcome] = []
    answered = False
    device_error: DriverError | None = None
    for target in (device, *device.instances):
        state = states.get(target.uuid, TargetState())
        memory = memories.setdefault(target.uuid, Memory())
        for collector in _due(collectors, target, state, monotonic):
            state, outcome, failure = _attempt(
                collector, CheckedDevice(target, memory, collector.name, monotonic), state, now, monotonic
            )
            outcomes.append(outcome)
            answered = answered or failure is None
            if isinstance(failure, DeviceLostError | DriverGoneError):
                device_error = failure
                break
        read[target.uuid] = state
        if device_error:
            break
    return GpuRead(device, {**states, **read}, tuple(outcomes), answered, device_error)


def _due(
    collectors: Iterable[AnyCollector], target: Device, state: TargetState, monotonic: float
) -> Iterable[AnyCollector]:
    scope = Scope.GPU if target.mig is None else Scope.INSTANCE
    return (c for c in collectors if c.scope is scope and monotonic >= state.tried.get(c.name, 0.0))


def _attempt(
    collector: AnyCollector, target: CheckedDevice, state: TargetState, now: float, monotonic: float
) -> tuple[TargetState, Outcome, DriverError | None]:
    started = time.perf_counter()
    failure: DriverError | None = None
    error = ""
    refused = 0
    again = monotonic + _period(collector)
    try:
        state = _read(collector, target, state, now, monotonic)
    except UnsupportedError:
        refused = state.refusals.get(collector.name, 0) + 1
        pause = min(_UNSUPPORTED_FIRST * 2.0 ** min(refused - 1, 16), _UNSUPPORTED_LONGEST)
        again = monotonic + max(pause, collector.pace.value if collector.pace is not Pace.ONCE else 0.0)
    except DriverError as caught:
        failure, error = caught, f"{type(caught).__name__} {caught.code}: {caught}"
        again = monotonic
    except Exception as caught:  # one collector's bug must not take the others' data with it
        failure, error = DriverError(str(caught)), f"{type(caught).__name__}: {caught}"
        log.debug("collector %s is broken on %s", collector.name, target.uuid, exc_info=True)
    losses = target.losses()
    state = replace(
        state,
        tried={**state.tried, collector.name: again},
        refusals={**state.refusals, collector.name: refused} if refused or state.refusals else state.refusals,
    )
    outcome = Outcome(collector.name, time.perf_counter() - started, error or losses.words, losses.rejected)
    return state, outcome, failure


def _period(collector: AnyCollector) -> float:
    # A reading is due a little early, so that a pass that starts a moment sooner does not skip a whole interval.
    return collector.pace.value * 0.95 if collector.pace is not Pace.ONCE else float("inf")


def _read(collector: AnyCollector, target: Device, state: TargetState, now: float, monotonic: float) -> TargetState:
    before = state.readings.get(collector.name)
    tick = Tick(now, monotonic - before.monotonic if before else 0.0)
    reading = collector.read(target, before.reading if before else None, tick)
    counts = dict(state.counts)
    samples: list[tuple[Any, tuple[Sample, ...]]] = []
    for family in collector.families:
        made = family.collect(reading)
        if family.type is Type.COUNTER:
            counts[family.name], made = count(counts.get(family.name, {}), made)
        samples.append((family, made))
    cached = CachedReading(collector, reading, now, monotonic, tuple(samples))
    return replace(state, readings={**state.readings, collector.name: cached}, counts=counts)
