"""Busy seconds from the driver's buffer of utilization samples.

The driver samples utilization by itself and keeps the last samples. A sample covers the time since the one before it,
so summing value x span counts every moment once, however seldom the buffer is read. How long a sample spans, how much
the buffer holds and whether it has samples of idle time is learned of each GPU (`SampleBuffer`). A sample after a hole
covers its own span; what no sample covers is idle, or lost. Samples that may lack idle time count once they agree with
readings made at random moments; until then the readings count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from exporter.core.record import record

_FULL_PERCENT = 100
"""Percent."""
OVERLAP_MICROSECONDS = 2000
"""The driver is asked from this much before the last sample, which it returns again while its buffer has it: then no
sample between was lost. It compares milliseconds (H200, driver 580.159)."""
_MAX_READING_SECONDS = 5.0
"""The longest time that one reading stands for."""
_MAX_PENDING_SECONDS = 30.0
"""Time without a sample after which readings count for good: longer than a driver takes from batch to batch."""
_MIN_UNKNOWN_SPAN, _MAX_UNKNOWN_SPAN = 1 / 6, 1.25
"""Span of a sample while it is not known: NVML documents 1/6 to 1 s. Alone between holes of idle time it is short."""
SILENT_AFTER_SECONDS = _MAX_UNKNOWN_SPAN
"""Time after a sample in which there should be another one."""
_MIN_HOLE_SECONDS = 0.03
"""A sample may be this late, or by half of its span, and still cover all the time since the one before."""
_DISTANCES, _MIN_DISTANCES = 16, 4
_REGULAR = 1.5
"""Three quarters of the distances are at most this many times those of the first quarter: they are the span."""
_FULL_BUFFER = 0.9
"""Part of the longest time an answer ever spanned from which the buffer is classified as full."""
_MAX_EXTRA_READS = 4
"""Further reads in a cycle."""
_PROBATION_SECONDS = 8.0
"""Time that samples have to cover before they are compared with readings."""
_AGREEMENT = 0.75
"""The lesser over the greater of their busy times, at least. Bursts shorter than a sample look twice as long or more."""
_SLACK_SECONDS = 2.0
"""Seconds by which the first samples may reach back before the first read."""

Samples = Sequence[tuple[int, float]]
"""Timestamps in µs and percentages."""


@record
class SampleBuffer:
    """The properties of one buffer, in seconds, as far as its answers have shown them."""

    span: float = 0.0
    """Span of one sample; 0: not known."""
    distances: tuple[float, ...] = ()
    """The last distances from sample to sample."""
    extent: float = 0.0
    """The longest time from the first to the last sample of one answer."""
    depth: float | None = None
    """Time that it holds; None: it never dropped a sample that was not yet read."""
    keeps_idle: bool | None = None
    """True if it keeps samples of idle time; None: not known."""
    compared: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Time that samples covered, and the busy time in it by samples and by readings."""
    agrees: bool = False
    """True once samples and readings agreed."""

    @property
    def is_in_doubt(self) -> bool:
        """Return whether distances between samples may be those of bursts."""
        return not self.keeps_idle and not self.agrees

    def is_hole(self, distance: float) -> bool:
        """Return whether a sample so long after another one does not cover all the time between them."""
        return distance > (self.span + max(self.span / 2, _MIN_HOLE_SECONDS) if self.span else _MAX_UNKNOWN_SPAN)


@record
class Integral:
    """`total` is busy seconds since the first read; it never goes down nor outruns elapsed time by _SLACK_SECONDS.

    It has readings for the time since the last sample, so that it does not lag; `exact` is without that time.
    """

    total: float = 0.0
    share: float | None = None
    """Mean utilization over the newest samples, or by readings where there are none, 0 to 1; None: not known."""
    sampled: bool = True
    """True if the driver has a sample buffer; if not, `total` adds up readings."""
    exact: float = 0.0
    cursor: int = 0
    """Timestamp of the last sample counted, µs; 0 when the next samples only set it."""
    level: float = 0.0
    """Value of the last sample."""
    pending: float = 0.0
    """Seconds elapsed since the cursor until the read began, by our own clock: the driver's may be set at any time.

    Less than 0 where the answer came late, with samples of the time meanwhile.
    """
    assumed: float = 0.0
    """Busy seconds since the cursor by readings, until there are samples."""
    lost: float = 0.0
    """Seconds that neither samples nor readings cover."""
    slack: float = _SLACK_SECONDS
    buffer: SampleBuffer = SampleBuffer()
    readings: tuple[float, ...] = ()
    """Read inside the cycle, as are the `samples`, and not yet counted."""
    samples: Samples = ()

    def extra_reads(self, interval: float) -> int:
        """Return how often to read again inside a cycle of `interval` seconds, so that no time is lost.

        A driver that has no samples, has them late, or may lack those of idle time is asked for its current reading.
        """
        idle = self.buffer.keeps_idle is False and not self.share
        late = self.pending > interval and self.buffer.is_hole(self.pending) and not idle
        doubt = self.buffer.is_in_doubt and self.pending < _MAX_PENDING_SECONDS
        if not self.sampled or (self.cursor and (late or doubt)):
            return _MAX_EXTRA_READS
        depth = self.buffer.depth
        if depth is None or depth >= 2 * interval:
            return 0
        return min(_MAX_EXTRA_READS, math.ceil(2 * interval / max(depth, 0.1)))

    @property
    def since(self) -> int:
        """The timestamp from which to ask for samples."""
        return max(0, self.cursor - OVERLAP_MICROSECONDS)


def add_samples(
    before: Integral, samples: Samples, seconds: float, late: float = 0.0, reading: float | None = None
) -> Integral:
    """Count the samples newer than the cursor, of a read that began `seconds` after the one before.

    They came `late` seconds after it had begun. `reading` is the driver's current utilization, 0 to 1. Samples out of
    order, seen before, or outside 0 to 100 % are dropped. While samples are in doubt, readings inside the cycle count.
    """
    after = _count_new(before, samples, seconds, late, reading)
    if reading is None or not before.readings or not before.cursor or not before.buffer.is_in_doubt:
        return after
    buffer = _compare_read(after.buffer, reading * seconds)
    if not buffer.is_in_doubt or after.cursor == before.cursor:
        return replace(after, buffer=buffer)
    exact = before.exact + before.assumed + reading * seconds
    total, lost = max(before.total, exact), before.lost
    return replace(after, total=total, exact=exact, share=reading, level=reading, assumed=0.0, lost=lost, buffer=buffer)


def _count_new(before: Integral, samples: Samples, seconds: float, late: float, reading: float | None) -> Integral:
    known = sorted({time: value for time, value in samples if 0 <= value <= _FULL_PERCENT}.items())
    buffer = _learn_buffer(before.buffer, known, reading)
    new = [each for each in known if each[0] > before.cursor]
    level = before.level if reading is None else reading
    if not before.cursor or not new:
        return _assume_reading(replace(before, buffer=buffer, readings=(), samples=()), new, level, seconds, late)
    continuous = known[0][0] <= before.cursor
    elapsed = before.pending + seconds + late
    busy, covered, lost, accounted = _sum_samples(before, buffer, new, elapsed, 0.0 if continuous else seconds + late)
    if before.readings:
        buffer = replace(buffer, compared=_add_sums(buffer.compared, (covered, busy, 0.0)))
    lag = max(0.0, elapsed - accounted)
    pending = min(lag, seconds + late)
    level = new[-1][1] / _FULL_PERCENT
    exact = before.exact + busy
    tail = level * min(pending, buffer.span if buffer.keeps_idle is False else _MAX_UNKNOWN_SPAN)
    if not continuous and _extent_seconds(known) >= _FULL_BUFFER * buffer.extent:
        buffer = replace(buffer, depth=_extent_seconds(known) + buffer.span)
    total, ratio = max(before.total, exact + tail), min(busy / covered, 1.0) if covered else level
    return Integral(
        total=total,
        share=ratio if buffer.keeps_idle is not False else _cycle_fraction(before.total, total, seconds + late),
        exact=exact,
        cursor=new[-1][0],
        level=level,
        pending=pending - late,
        assumed=tail,
        lost=before.lost + lost + (0.0 if buffer.keeps_idle is False else lag - pending),
        slack=before.slack - max(0.0, accounted - elapsed),
        buffer=buffer,
    )


def assume_level(before: Integral, level: float, seconds: float, readings: int = 1) -> Integral:
    """Count the mean of so many readings for the time since the read before: for devices without a sample buffer."""
    known = min(max(0.0, seconds), _MAX_READING_SECONDS * readings)
    exact = before.exact + before.assumed + level * known
    return replace(
        before,
        sampled=False,
        exact=exact,
        total=max(before.total, exact),
        level=level,
        share=level,
        cursor=0,
        pending=0.0,
        assumed=0.0,
        lost=before.lost + max(0.0, seconds - known),
    )


def with_clock_of(samples: Samples, before: Integral, seconds: float) -> Integral:
    """Move the cursor to the driver's clock as `samples`, all there are, have it: it may have been set back."""
    newest = max([time for time, _ in samples], default=before.cursor)
    if newest >= before.cursor:
        return before
    return replace(before, cursor=max(1, newest - round((before.pending + seconds) * 1e6)))


def _learn_buffer(buffer: SampleBuffer, samples: Samples, reading: float | None) -> SampleBuffer:
    """Return the buffer with what one answer shows.

    Irregular distances lower the span only, for some are of holes. Without any sample of 0 the holes are idle time, if
    the buffer dropped none; so is a `reading` of 0 after a sample of work. An answer of regular samples shows nothing
    new.
    """
    keeps_idle = buffer.keeps_idle or (True if 0 in [value for _, value in samples] else buffer.keeps_idle)
    found = [(later - earlier) / 1e6 for (earlier, _), (later, _) in pairwise(samples)]
    span = buffer.span
    holes = bool(span) and buffer.depth is None and any(map(buffer.is_hole, found))
    if keeps_idle is None and samples and (reading == 0 or holes):
        keeps_idle = False
    usual = all(_REGULAR * each >= span and not buffer.is_hole(each) for each in found)
    if span and usual and keeps_idle is buffer.keeps_idle:
        return buffer
    distances = (*buffer.distances, *found)[-_DISTANCES:]
    if len(distances) >= _MIN_DISTANCES:
        ordered = sorted(distances)
        number = len(ordered)
        low, middle, high = ordered[number // 4], ordered[number // 2], ordered[3 * number // 4]
        regular = high <= min(_REGULAR * low, _MAX_READING_SECONDS)
        if regular and (not span or keeps_idle is not False):
            span = middle
        elif ordered[1] <= _MAX_READING_SECONDS:
            span = min(span or ordered[1], ordered[1])
        keeps_idle = False if keeps_idle is None and not regular else keeps_idle
    compared = buffer.compared if _REGULAR * span > buffer.span else (0.0, 0.0, 0.0)
    extent = max(buffer.extent, _extent_seconds(samples))
    return SampleBuffer(span, distances, extent, buffer.depth, keeps_idle, compared, buffer.agrees)


def _compare_read(buffer: SampleBuffer, read: float) -> SampleBuffer:
    """Return the buffer with what was read in a cycle; sums that samples bear out or contradict for long are halved."""
    sums = _add_sums(buffer.compared, (0.0, 0.0, read))
    covered, *busy = sums
    agrees = covered >= _PROBATION_SECONDS and min(busy) >= _AGREEMENT * max(busy)
    if covered >= 2 * _PROBATION_SECONDS:
        sums = (sums[0] / 2, sums[1] / 2, sums[2] / 2)
    return replace(buffer, compared=sums, agrees=agrees)


def _add_sums(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float, float]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def _extent_seconds(samples: Samples) -> float:
    return (samples[-1][0] - samples[0][0]) / 1e6 if samples else 0.0


def _sum_samples(
    before: Integral, buffer: SampleBuffer, samples: Samples, elapsed: float, unread: float
) -> tuple[float, float, float, float]:
    """Return the busy, covered, lost and accounted seconds, which are no more than have elapsed: the oldest go first.

    Where the buffer has no samples of idle time a hole was idle, but for the `unread` seconds in which a full buffer
    may have dropped samples.
    """
    busy = covered = lost = accounted = 0.0
    full = _extent_seconds(samples) >= _FULL_BUFFER * buffer.extent
    unknown = _MIN_UNKNOWN_SPAN if buffer.keeps_idle is False else _MAX_UNKNOWN_SPAN
    for index in range(len(samples) - 1, -1, -1):
        end, value = samples[index]
        distance = (end - (samples[index - 1][0] if index else before.cursor)) / 1e6
        span = min(distance, buffer.span or unknown) if buffer.is_hole(distance) else distance
        counted = min(span, elapsed + before.slack - accounted)
        hole = max(0.0, min(distance - span, elapsed - accounted - counted))
        if buffer.keeps_idle is not False:
            lost += hole
        elif full and not index:
            lost += min(hole, max(0.0, unread - accounted - counted))
        busy += counted * value / _FULL_PERCENT
        covered += counted
        accounted += counted + hole
    return busy, covered, lost, accounted


def _assume_reading(before: Integral, new: Samples, level: float, seconds: float, late: float) -> Integral:
    """Let the reading stand in: there is no new sample, or none before the newest was read.

    After a while it does for good. Where it is 0 and the last sample is still the last, idle time has no samples.
    """
    known = min(max(0.0, seconds), _MAX_READING_SECONDS)
    assumed, pending = before.assumed + level * known, before.pending + seconds
    total = max(before.total, before.exact + assumed)
    overdue = assumed if before.buffer.keeps_idle is False else pending + late
    if not before.cursor or overdue > _MAX_PENDING_SECONDS:
        level = new[-1][1] / _FULL_PERCENT if new else level
        return replace(
            before,
            total=total,
            sampled=True,
            exact=total,
            cursor=new[-1][0] if new else 0,
            level=level,
            share=level,
            pending=-late,
            assumed=0.0,
            lost=before.lost + max(0.0, seconds - known),
            slack=before.slack if new else _SLACK_SECONDS,
        )
    idle = before.buffer.keeps_idle is None and not level and before.buffer.is_hole(pending + late)
    buffer = replace(before.buffer, keeps_idle=False) if idle and before.buffer.span else before.buffer
    ratio = level if buffer.keeps_idle is not False else _cycle_fraction(before.total, total, seconds + late)
    return replace(before, total=total, assumed=assumed, pending=pending, share=ratio, buffer=buffer)


def _cycle_fraction(before: float, total: float, seconds: float) -> float | None:
    """Return the share of a cycle by its total: the samples alone cover nothing of the idle time."""
    return min(1.0, (total - before) / seconds) if seconds > 0 else None
