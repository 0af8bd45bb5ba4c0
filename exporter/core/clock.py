"""Two clocks, two types: a moment of one is never compared with, or taken from, a moment of the other.

`UnixTime` is for dates that leave the process: pages, files, answers of schedulers. It jumps when somebody sets the
clock. `MonotonicTime` never jumps: whatever lasts is measured with it. Both are plain floats while the program runs,
and cost nothing; for the type checker they are no numbers. The difference of two moments is a float of seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from typing import overload

    from typing_extensions import Self

    class _Moment:
        def __new__(cls, seconds: float, /) -> Self: ...
        def __float__(self) -> float: ...
        def __add__(self, seconds: float, /) -> Self: ...
        @overload
        def __sub__(self, seconds: float, /) -> Self: ...
        @overload
        def __sub__(self, moment: Self, /) -> float: ...
        def __sub__(self, other: Self | float, /) -> Self | float: ...
        def __lt__(self, moment: Self, /) -> bool: ...
        def __le__(self, moment: Self, /) -> bool: ...
        def __gt__(self, moment: Self, /) -> bool: ...
        def __ge__(self, moment: Self, /) -> bool: ...

    class UnixTime(_Moment): ...

    class MonotonicTime(_Moment): ...
else:
    UnixTime = MonotonicTime = float

UnixClock = Callable[[], UnixTime]
MonotonicClock = Callable[[], MonotonicTime]


def boot_time() -> UnixTime:
    """Return the Unix time at which the monotonic clock, and the kernel log's, began to count."""
    return UnixTime(time.time() - time.monotonic())


unix_time = cast(UnixClock, time.time)
monotonic_time = cast(MonotonicClock, time.monotonic)


class Moment(NamedTuple):
    """One moment on both clocks."""

    unix: UnixTime
    monotonic: MonotonicTime


NEVER = MonotonicTime(float("-inf"))
"""A time before every other."""
EPOCH = UnixTime(0.0)
_STEP_SECONDS = 2.0


def clock_step(before: UnixTime, booted: UnixTime) -> float:
    """Return the seconds by which the wall clock was set, by the time of the boot before and now; EPOCH is unknown."""
    step = booted - before
    return step if abs(step) >= _STEP_SECONDS and before > EPOCH and booted > EPOCH else 0.0


class RunningClock:
    """Measures silence without the time in which the whole process was stopped (SIGSTOP, a live migration).

    It is read at regular times. A gap between two of them is no silence of a thread: none was running.
    """

    def __init__(self, longest_gap: float, clock: MonotonicClock = monotonic_time) -> None:
        """`longest_gap` is in seconds; a longer one between two calls means that the process was stopped."""
        self._longest_gap = longest_gap
        self._clock = clock
        self._read = self._resumed = clock()

    def seconds_since(self, moment: MonotonicTime) -> float:
        """Return how long the process has been running since `moment`, or since it was last stopped."""
        now = self._clock()
        if now - self._read > self._longest_gap:
            self._resumed = now
        self._read = now
        return max(0.0, now - max(moment, self._resumed))
