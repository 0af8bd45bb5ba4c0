"""GPM: what the units of a GPU did between two samples (Hopper and newer, R525 and newer)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.driver.interface import GPM_SECONDS, DeviceLostError, DriverError, DriverGoneError, UnsupportedError
from exporter.driver.nvml.library import Library

_SUPPORT = Struct("=II")
_QUERY = Struct("=IIQQ")
"""nvmlGpmMetricsGet_t: version, number of metrics, the earlier sample, the later one; then the metrics."""
_METRIC = Struct("=IId24x")
"""nvmlGpmMetric_t: metric, return code, value; then three pointers to names and units."""
_VERSION = 1
_ROOM = 512
"""Metrics a query has room for: the driver's own struct holds as many as it knows, never as many as this."""
_TWO = 2
"""Samples: an earlier and a later one."""
_MIN_WINDOW_SECONDS = 0.09
"""Seconds. Samples must be 100 ms apart; a little less is allowed for, since the clocks differ."""
_SLOW_SECONDS = 0.2
"""Seconds of a reading, good or failed, for which all other GPUs of the node wait too long. A second one in a row makes
the device rest: once may be a thread that waited for a CPU, or a GPU that woke up."""
_REST, _LONGEST_REST = 20.0, 15.0
"""Times as long as the reading took, and seconds at most; the next one covers all of it."""


class TimedLock:
    """Lets one thread through at a time. A holder that has been inside for `timeout` seconds is classified as hung.

    The gate is then given to the next one; what the hung thread does when it comes back no longer matters to it.
    """

    def __init__(self, timeout: float, clock: MonotonicClock = monotonic_time) -> None:
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._holder: object | None = None
        self._since = NEVER

    def hold(self) -> _Hold:
        """A context manager: inside of it is this thread alone, unless it hangs there."""
        return _Hold(self)

    def enter(self, ticket: object) -> None:
        with self._lock:
            if self._holder is not None:
                self._wait_holder()
            self._holder, self._since = ticket, self._clock()

    def leave(self, ticket: object) -> None:
        with self._lock:
            if self._holder is ticket:
                self._holder = None
                if self._waiting:
                    self._changed.notify()

    def _wait_holder(self) -> None:
        """Wait until the holder has left, or is classified as hung."""
        self._waiting += 1
        while self._holder is not None:
            left = self._since + self._timeout - self._clock()
            if left <= 0:
                break
            self._changed.wait(left)
        self._waiting -= 1


class _Hold:
    """One thread's turn, and the ticket that distinguishes it from others."""

    __slots__ = ("_gate",)

    def __init__(self, gate: TimedLock) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.enter(self)

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self)


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
        """Pointers to buffers of the driver."""
        self._taken: MonotonicTime | None = None
        """Time at which the first sample was filled."""
        self._again = NEVER
        """Time before which nothing is read."""
        self._slow = False
        """True if the last reading took long."""
        self._failed: DriverError | None = None
        """Error of the last reading, where it took so long that the device rests: it stands until the next one."""

    def read(self, metrics: Sequence[int]) -> Mapping[int, float]:
        """Values since the call before, and the seconds they cover.

        Nothing on the first call or too soon after one, and nothing for a metric the device lacks.
        """
        if self._supported is False:
            self._require_support()
        if self._clock() < self._again:
            if self._failed:
                raise DriverError(str(self._failed), self._failed.code)
            return {}
        with self._gate.hold():
            began = self._clock()
            self._failed = None
            try:
                found = self._read(metrics)
            except (DeviceLostError, DriverGoneError, UnsupportedError):
                raise  # what comes back is read at once
            except DriverError as error:
                if rest := self._rest_seconds(began):
                    self._failed, self._again = error, self._clock() + rest
                raise
            self._again = (self._taken or began) + (self._rest_seconds(began) or _MIN_WINDOW_SECONDS)
        return found

    def _rest_seconds(self, began: MonotonicTime) -> float:
        """Return how many seconds to leave the device alone after a reading that began then; 0 for none."""
        seconds, before = self._clock() - began, self._slow
        self._slow = seconds > _SLOW_SECONDS
        return min(_REST * seconds, _LONGEST_REST) if self._slow and before else 0.0

    def _read(self, metrics: Sequence[int]) -> Mapping[int, float]:
        if self._supported is not True:
            self._require_support()
        while len(self._samples) < _TWO:
            pointer = ctypes.c_void_p()
            self._library.ask("nvmlGpmSampleAlloc", ctypes.byref(pointer))
            self._samples.append(pointer)
        earlier, later = self._samples
        before, self._taken = self._taken, None  # what fails from here on begins a new window
        self._fill(later)
        now = self._clock()
        self._samples, self._taken = [later, earlier], now
        if before is None:
            return {}
        if self._query is None or self._query.metrics != tuple(metrics):
            self._query = _Query(self._library, metrics)
        return {GPM_SECONDS: now - before, **self._query.answers(earlier, later)}

    def free(self) -> None:
        """Give the buffers back; only while no call of this device is under way."""
        samples, self._samples, self._taken, self._again = self._samples, [], None, NEVER
        for sample in samples:
            try:
                with self._gate.hold():
                    self._library.ask("nvmlGpmSampleFree", sample)
            except DriverError:  # the driver has gone, and its buffers with it
                return

    def _require_support(self) -> None:
        if self._supported is None:
            answer = ctypes.create_string_buffer(_SUPPORT.pack(_VERSION, 0), _SUPPORT.size)
            self._library.ask("nvmlGpmQueryDeviceSupport", self._gpu, answer)
            self._supported = bool(_SUPPORT.unpack(answer)[1])
        if not self._supported:
            raise UnsupportedError("nvmlGpmQueryDeviceSupport: no GPM on this device", "NOT_SUPPORTED")

    def _fill(self, sample: Any) -> None:
        if self._instance is None:
            self._library.ask("nvmlGpmSampleGet", self._gpu, sample)
        elif self._library.has("nvmlGpmMigSampleGet"):
            self._library.ask("nvmlGpmMigSampleGet", self._gpu, self._instance[1], sample)
        else:
            self._library.ask("nvmlGpmSampleGet", self._instance[0], sample)  # R525


class _Query:
    """An nvmlGpmMetricsGet_t for these metrics, made once: the driver writes its answers into it."""

    def __init__(self, library: Library, metrics: Sequence[int]) -> None:
        self.metrics = tuple(metrics)
        self._buffer = ctypes.create_string_buffer(_QUERY.size + _ROOM * _METRIC.size)
        self._entries = memoryview(self._buffer).cast("B")[_QUERY.size :][: len(self.metrics) * _METRIC.size]
        self._blank = b"".join(_METRIC.pack(metric, 0, 0.0) for metric in self.metrics)
        self._library = library

    def answers(self, earlier: Any, later: Any) -> Mapping[int, float]:
        """Return the values by metric, without those that the driver did not answer and those that are no number."""
        addresses = (earlier.value or 0, later.value or 0)
        _QUERY.pack_into(self._buffer, 0, _VERSION, len(self.metrics), *addresses)
        self._entries[:] = self._blank
        self._library.ask("nvmlGpmMetricsGet", self._buffer)
        return {
            metric: value
            for metric, code, value in _METRIC.iter_unpack(self._entries)
            if not code and value == value  # noqa: PLR0124 - that is how NaN is recognised
        }
