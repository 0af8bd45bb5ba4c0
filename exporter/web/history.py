"""The last hour of each GPU, for the plots and bars of the status page."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.core.clock import EPOCH, NEVER, MonotonicTime, UnixTime
from exporter.sampling.snapshot import GpuStatus, Snapshot

SPAN_SECONDS = 3600.0
_BUCKET_SECONDS = 20.0
"""Seconds of which a plot shows the mean."""
_LEDGER_SECONDS = 120.0
"""Seconds between two readings of the ledger that are kept."""


@dataclass(frozen=True, slots=True)
class Point:
    """Means over one bucket that ends at `time`; None where nothing was read."""

    time: UnixTime
    busy_ratio: float | None
    power_watts: float | None


_Ledger = tuple[UnixTime, Mapping[str, float]]
"""Time of the reading, and the seconds of the GPU in each state since start."""


class _Totals(NamedTuple):
    """Totals of a GPU at the end of a bucket; times are monotonic."""

    at: MonotonicTime
    busy_seconds: float | None
    joules: float | None


_NOTHING_COUNTED = _Totals(NEVER, None, None)


@dataclass(slots=True)
class _GpuSeries:
    """History of one GPU, bounded by the span."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=int(SPAN_SECONDS / _BUCKET_SECONDS)))
    ledger: deque[_Ledger] = field(default_factory=lambda: deque(maxlen=int(SPAN_SECONDS / _LEDGER_SECONDS) + 1))
    totals: _Totals = _NOTHING_COUNTED

    def add(self, gpu: GpuStatus, now: UnixTime, at: MonotonicTime) -> None:
        """A bucket ends."""
        before, self.totals = self.totals, _Totals(at, gpu.busy_seconds, gpu.joules)
        seconds = at - before.at
        busy = _mean_increase(before.busy_seconds, gpu.busy_seconds, seconds, gpu.busy_ratio)
        watts = _mean_increase(before.joules, gpu.joules, seconds, gpu.power_watts)
        self.points.append(Point(now, None if busy is None else min(busy, 1.0), watts))
        if gpu.states and (not self.ledger or now - self.ledger[-1][0] >= _LEDGER_SECONDS):
            self.ledger.append((now, gpu.states))


def _mean_increase(before: float | None, now: float | None, seconds: float, at_once: float | None) -> float | None:
    """Return the mean increase since the bucket before, or `at_once` where it is unknown."""
    if before is None or now is None or now < before or seconds <= 0:
        return at_once
    return (now - before) / seconds


class GpuHistory:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[str, _GpuSeries] = {}
        self._bucket = EPOCH

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot. Call it with every one; it reads the GPUs of a few alone."""
        now = snapshot.status.time
        if now - self._bucket < _BUCKET_SECONDS:
            return
        self._bucket = now
        with self._lock:
            for gpu in snapshot.status.gpus:
                self._tracks.setdefault(gpu.uuid, _GpuSeries()).add(gpu, now, snapshot.monotonic)

    def points(self, uuid: str) -> tuple[Point, ...]:
        with self._lock:
            track = self._tracks.get(uuid)
            return tuple(track.points) if track else ()

    def states(self, gpu: GpuStatus, now: UnixTime) -> tuple[float, Mapping[str, float]]:
        """Return the length of the window, an hour at most, and the seconds of the GPU in each state within it."""
        with self._lock:
            track = self._tracks.get(gpu.uuid)
            kept = [entry for entry in track.ledger if now - entry[0] <= SPAN_SECONDS] if track else []
        if not kept:
            return 0.0, {}
        began, before = kept[0]
        return now - began, {state: max(0.0, seconds - before.get(state, 0.0)) for state, seconds in gpu.states.items()}
