"""GPM: what the units of a GPU did between two samples (Hopper and newer, R525 and newer)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from exporter.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.driver.interface import DriverError, UnsupportedError
from exporter.driver.nvml.library import Library
from exporter.driver.timed_lock import TimedLock

_SUPPORT = Struct("=II")
_QUERY = Struct("=IIQQ")
"""nvmlGpmMetricsGet_t: version, number of metrics, the earlier sample, the later one; then the metrics."""
_METRIC = Struct("=IIdQQQ")
"""nvmlGpmMetric_t: metric, return code, value, three pointers to names and units."""
_VERSION = 1
_ROOM = 512
"""Metrics a query has room for: the driver's own struct holds as many as it knows, never as many as this."""
_SHORTEST = 0.09
"""Seconds. Samples must be 100 ms apart; a little less is allowed for, since the clocks differ."""


class Meter:
    """One device's two sample buffers, swapped at each reading: the time between readings is the window.

    `gate` keeps the GPM calls of all GPUs apart: in parallel they have crashed processes.
    """

    def __init__(
        self,
        library: Library,
        gate: TimedLock,
        gpu: Any,
        instance: tuple[Any, int] | None = None,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._library = library
        self._gate = gate
        self._gpu = gpu
        self._instance = instance
        """A MIG instance's own handle and its GPU instance id."""
        self._clock = clock
        self._supported: bool | None = None
        self._query: _Query | None = None
        self._samples: list[Any] = []
        self._taken: MonotonicTime | None = None
        """When the first of the samples was filled."""

    def read(self, metrics: Sequence[int]) -> Mapping[int, float]:
        """Values since the call before; nothing on the first call, and nothing for a metric the device lacks."""
        if self._supported is not True:
            self._require_support()
        now = self._clock()
        if self._taken is not None and now - self._taken < _SHORTEST:
            return {}
        with self._gate.hold():
            self._allocate()
            earlier, later = self._samples
            before, self._taken = self._taken, None  # what fails from here on begins a new window
            self._fill(later)
            self._samples, self._taken = [later, earlier], now
            return {} if before is None else self._between(earlier, later, metrics)

    def free(self) -> None:
        """Give the buffers back; only while no call of this device is under way."""
        samples, self._samples, self._taken = self._samples, [], None
        for sample in samples:
            try:
                with self._gate.hold():
                    self._library.ask("nvmlGpmSampleFree", sample)
            except DriverError:  # the driver has gone, and its buffers with it
                return

    def _require_support(self) -> None:
        if self._supported is None:
            answer = ctypes.create_string_buffer(_SUPPORT.pack(_VERSION, 0), _SUPPORT.size)
            with self._gate.hold():
                self._library.ask("nvmlGpmQueryDeviceSupport", self._gpu, answer)
            self._supported = bool(_SUPPORT.unpack(answer)[1])
        if not self._supported:
            raise UnsupportedError("nvmlGpmQueryDeviceSupport: no GPM on this device", "NOT_SUPPORTED")

    def _allocate(self) -> None:
        while len(self._samples) < 2:  # noqa: PLR2004  an earlier and a later one
            sample = ctypes.c_void_p()
            self._library.ask("nvmlGpmSampleAlloc", ctypes.byref(sample))
            self._samples.append(sample)

    def _fill(self, sample: Any) -> None:
        if self._instance is None:
            self._library.ask("nvmlGpmSampleGet", self._gpu, sample)
            return
        handle, gpu_instance = self._instance
        if self._library.has("nvmlGpmMigSampleGet"):
            self._library.ask("nvmlGpmMigSampleGet", self._gpu, gpu_instance, sample)
        else:  # R525
            self._library.ask("nvmlGpmSampleGet", handle, sample)

    def _between(self, earlier: Any, later: Any, metrics: Sequence[int]) -> Mapping[int, float]:
        query = self._query
        if query is None or query.metrics != tuple(metrics):
            query = self._query = _Query(metrics)
        query.ask(earlier, later)
        self._library.ask("nvmlGpmMetricsGet", query.buffer)
        return query.answers()


class _Query:
    """An nvmlGpmMetricsGet_t for these metrics, made once: the driver writes its answers into it."""

    def __init__(self, metrics: Sequence[int]) -> None:
        self.metrics = tuple(metrics)
        self.buffer = ctypes.create_string_buffer(_QUERY.size + _ROOM * _METRIC.size)
        self._entries = memoryview(self.buffer).cast("B")[_QUERY.size :][: len(self.metrics) * _METRIC.size]
        self._blank = b"".join(_METRIC.pack(metric, 0, 0.0, 0, 0, 0) for metric in self.metrics)

    def ask(self, earlier: Any, later: Any) -> None:
        _QUERY.pack_into(self.buffer, 0, _VERSION, len(self.metrics), earlier.value or 0, later.value or 0)
        self._entries[:] = self._blank

    def answers(self) -> Mapping[int, float]:
        """By metric, without those that the driver did not answer and those that are no number."""
        return {
            metric: value
            for metric, code, value, *_ in _METRIC.iter_unpack(self._entries)
            if not code and value == value  # noqa: PLR0124 - that is how NaN is recognised
        }
