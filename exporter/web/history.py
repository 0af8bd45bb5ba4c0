"""The last minutes of each GPU, for the small plots of the status page."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from exporter.exposition.snapshot import Snapshot

_POINTS = 150
_SECONDS = 300.0
"""What the plots span; points are as far apart as that needs, however short the sampling interval."""


@dataclass(frozen=True, slots=True)
class Point:
    time: float
    busy_ratio: float | None
    power_watts: float | None


class History:
    """Bounded: 150 points for each GPU seen, over five minutes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, deque[Point]] = {}
        self._last = float("-inf")

    def add(self, snapshot: Snapshot) -> None:
        now = snapshot.status.time
        if now - self._last < _SECONDS / _POINTS:
            return
        with self._lock:
            self._last = now
            for gpu in snapshot.status.gpus:
                points = self._points.setdefault(gpu.uuid, deque(maxlen=_POINTS))
                points.append(Point(now, gpu.busy_ratio, gpu.power_watts))

    def points(self, uuid: str) -> tuple[Point, ...]:
        with self._lock:
            return tuple(self._points.get(uuid, ()))
