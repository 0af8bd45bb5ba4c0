"""The last hour of each GPU, for the plots and bars of the status page."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.clock import EPOCH, UnixTime
from exporter.exposition.snapshot import GpuStatus, Snapshot

SPAN = 3600.0
_BUCKET = 20.0
"""Seconds of which a plot shows the mean."""
_LEDGER = 120.0
"""Seconds between two readings of the ledger that are kept."""


@dataclass(frozen=True, slots=True)
class Point:
    """Means over one bucket that ends at `time`; None where nothing was read."""

    time: UnixTime
    busy_ratio: float | None
    power_watts: float | None


_Ledger = tuple[UnixTime, Mapping[str, float]]
"""When it was read, and the seconds of the GPU in each state since start."""


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    def take(self) -> float | None:
        value = self.total / self.count if self.count else None
        self.total, self.count = 0.0, 0
        return value


@dataclass(slots=True)
class _Track:
    """What is kept of one GPU: bounded by the span."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=int(SPAN / _BUCKET)))
    ledger: deque[tuple[UnixTime, Mapping[str, float]]] = field(
        default_factory=lambda: deque(maxlen=int(SPAN / _LEDGER) + 1)
    )
    busy: _Mean = field(default_factory=_Mean)
    power: _Mean = field(default_factory=_Mean)

    def add(self, gpu: GpuStatus, now: UnixTime, *, ends: bool) -> None:
        self.busy.add(gpu.busy_ratio)
        self.power.add(gpu.power_watts)
        if ends:
            self.points.append(Point(now, self.busy.take(), self.power.take()))
        if gpu.states and (not self.ledger or now - self.ledger[-1][0] >= _LEDGER):
            self.ledger.append((now, gpu.states))


class History:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[str, _Track] = {}
        self._bucket = EPOCH

    def add(self, snapshot: Snapshot) -> None:
        now = snapshot.status.time
        with self._lock:
            ends = now - self._bucket >= _BUCKET
            self._bucket = now if ends else self._bucket
            for gpu in snapshot.status.gpus:
                self._tracks.setdefault(gpu.uuid, _Track()).add(gpu, now, ends=ends)

    def points(self, uuid: str) -> tuple[Point, ...]:
        with self._lock:
            track = self._tracks.get(uuid)
            return tuple(track.points) if track else ()

    def states(self, gpu: GpuStatus, now: UnixTime) -> tuple[float, Mapping[str, float]]:
        """Over how many seconds, an hour at most, and the seconds of the GPU in each state within them."""
        with self._lock:
            track = self._tracks.get(gpu.uuid)
            kept = [entry for entry in track.ledger if now - entry[0] <= SPAN] if track else []
        if not kept:
            return 0.0, {}
        began, before = kept[0]
        return now - began, {state: max(0.0, seconds - before.get(state, 0.0)) for state, seconds in gpu.states.items()}
