"""Busy seconds from the driver's buffer of utilization samples.

The driver samples utilization by itself, every 1/6 s to 1 s by product, and keeps the last samples. Each sample
covers the time since the one before it, so summing value x span counts every moment once, however seldom the
buffer is read, and a load that alternates faster than any scrape is counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exporter.core.clock import EPOCH, UnixTime
from exporter.core.record import record

_FULL = 100
"""Percent."""
_LONGEST = 5.0
"""Seconds one sample may stand for; over a longer hole nothing is known and nothing is counted."""
_TAIL = 1.25
"""Seconds the last sample is held for until the next is there: the longest sampling period and some lateness."""
_AGAIN, _AGAIN_AFTER_ANSWERS = 300.0, 5.0
"""Seconds until a GPU without a sample buffer is asked for it again: one that never had it, and one that had it."""
_SLACK = 2.0
"""Seconds by which the first samples may reach back before the first read."""


@record
class Integral:
    """`total` is busy seconds since the first read; it never goes down and never outruns elapsed time by _SLACK.

    It holds the last sample's level from the last sample until now, so that it does not lag by a varying part of
    a sample; `exact` is what the samples alone say.
    """

    total: float = 0.0
    share: float | None = None
    """Mean utilization over the newest samples, 0 to 1; None before there was one."""
    sampled: bool = True
    """Whether the driver has a sample buffer; if not, `total` adds up readings."""
    answered: bool = False
    """Whether it ever had one."""
    refused: UnixTime = EPOCH
    """When it last reported that it has none."""
    exact: float = 0.0
    cursor: int = 0
    """Timestamp of the last sample counted, µs; 0 when the next samples only set it."""
    level: float = 0.0
    pending: float = 0.0
    """Seconds elapsed since the cursor until the read began, by our own clock: the driver's may be set at any time.

    Less than 0 where the answer came late, with samples of the time meanwhile.
    """
    slack: float = _SLACK


def advance(before: Integral, samples: Sequence[tuple[int, float]], seconds: float, late: float = 0.0) -> Integral:
    """Count the samples newer than the cursor, of a read that began `seconds` after the one before.

    They came `late` seconds after it had begun. Samples out of order, seen before, or outside 0 to 100 % are dropped;
    the next good one covers their time.
    """
    good = sorted({time: value for time, value in samples if time > before.cursor and 0 <= value <= _FULL}.items())
    if not good:
        return _quiet(before, before.pending + seconds, late)
    newest, level = good[-1][0], good[-1][1] / _FULL
    if not before.cursor:
        return replace(
            before,
            sampled=True,
            answered=True,
            exact=before.total,
            cursor=newest,
            level=level,
            share=level,
            pending=-late,
        )
    elapsed = before.pending + seconds + late
    busy, covered, whole = _sum(before.cursor, good, elapsed, before.slack)
    lag = elapsed - covered if whole else 0.0
    pending = min(max(lag, 0.0), _LONGEST)
    exact = before.exact + busy
    return Integral(
        total=max(before.total, exact + level * min(pending, _TAIL)),
        share=min(busy / covered, 1.0) if covered else level,
        answered=True,
        exact=exact,
        cursor=newest,
        level=level,
        pending=pending - late,
        slack=max(0.0, before.slack + min(lag, 0.0)),
    )


def assume(before: Integral, level: float, seconds: float) -> Integral:
    """Count a reading for the time since the one before: for devices without a sample buffer."""
    exact = before.exact + level * min(max(0.0, seconds), _LONGEST)
    return replace(
        before,
        sampled=False,
        exact=exact,
        total=max(before.total, exact),
        level=level,
        share=level,
        cursor=0,
        pending=0.0,
    )


def is_due(before: Integral | None, now: UnixTime) -> bool:
    """Whether to ask for the buffer: one that was there and is refused may be back soon, another hardly ever is."""
    if before is None or before.sampled:
        return True
    pause = _AGAIN_AFTER_ANSWERS if before.answered else _AGAIN
    return not 0.0 <= now - before.refused < pause


def is_silent(before: Integral, seconds: float, late: float) -> bool:
    """Whether a read that brought no sample should have brought one."""
    return before.cursor > 0 and before.pending + seconds + late > _TAIL


def with_clock_of(
    samples: Sequence[tuple[int, float]], before: Integral, seconds: float, late: float = 0.0
) -> Integral:
    """`before` by the driver's clock as `samples`, all there are, have it: it may have been set back.

    The cursor lies in the future then, and what is sampled until that comes would be lost.
    """
    newest = max([time for time, _ in samples], default=before.cursor)
    if newest >= before.cursor:
        return before
    return replace(before, cursor=max(1, newest - round((before.pending + seconds + late) * 1e6)))


def _sum(cursor: int, samples: Sequence[tuple[int, float]], elapsed: float, slack: float) -> tuple[float, float, bool]:
    """Busy and covered seconds, newest first so that what is too much cuts off the oldest; whether all of it counted.

    A hole, as where the driver's clock was set forward, is no longer than the time that has `elapsed`.
    """
    busy = covered = 0.0
    whole = True
    for index in range(len(samples) - 1, -1, -1):
        end, value = samples[index]
        span = (end - (samples[index - 1][0] if index else cursor)) / 1e6
        counted = span
        if span > _LONGEST or covered + span > elapsed + slack:
            counted = max(0.0, min(span, _LONGEST, elapsed + (slack if span <= _LONGEST else 0.0) - covered))
            whole = False
        busy += counted * value / _FULL
        covered += counted
    return busy, covered, whole


def _quiet(before: Integral, pending: float, late: float) -> Integral:
    """No new sample. After a while start over: the driver's clock may have been set back behind the cursor."""
    if pending + late > _LONGEST:
        return replace(before, exact=before.total, cursor=0, pending=-late, slack=_SLACK, share=None)
    tail = before.level * min(max(pending + late, 0.0), _TAIL)
    return replace(before, pending=pending, total=max(before.total, before.exact + tail))
