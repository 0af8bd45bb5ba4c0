"""Busy seconds are the exact integral of what the driver sampled, whatever the pattern and the scrape interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.base import Tick
from exporter.collectors.sample_integral import Integral, add_samples, assume_level
from exporter.collectors.utilization import UTILIZATION, Utilization, read_utilization
from exporter.driver.interface import Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, first

EPOCH = 1_700_000_000.0
Load = Callable[[float], float]


def constant(percent: float) -> Load:
    return lambda _time: percent


def square(high: float, low: float, period: float) -> Load:
    return lambda time: high if time % period < period / 2 else low


def told(load: Load, start: float, end: float, steps: int) -> float:
    """Mean load of a window, in percent."""
    return sum(load(start + (step + 0.5) / steps * (end - start)) for step in range(steps)) / steps


class Buffer:
    """A driver's ring of samples: each the mean load since the sample before, told in whole percent."""

    def __init__(self, load: Load, period: float, depth: int = 120, offset: float = 0.0) -> None:
        self.load, self.period, self.depth, self.offset = load, period, depth, offset
        self.now = 0.0

    def samples(self, _type: int, last: int) -> tuple[tuple[int, int], ...]:
        newest = int(self.now / self.period)
        numbers = range(max(newest - self.depth + 1, 1), newest + 1)
        stamps = ((n, round((EPOCH + self.offset + n * self.period) * 1e6)) for n in numbers)
        return tuple((stamp, self._mean(n)) for n, stamp in stamps if stamp > last)

    def _mean(self, number: int) -> int:
        return round(told(self.load, (number - 1) * self.period, number * self.period, 20))

    def rates(self) -> Record:
        return Record(gpu=round(self.load(self.now)), memory=0)


def run(buffer: Buffer, seconds: int, jitter: Callable[[int], float] = lambda _: 0.0) -> Iterator[tuple[float, float]]:
    """(elapsed, total) after each cycle of a second."""
    device = FakeDevice({"nvmlDeviceGetUtilizationRates": buffer.rates, "nvmlDeviceGetSamples": buffer.samples})
    reading: Utilization | None = None
    before = 0.0
    for number in range(seconds + 1):
        buffer.now = 30.3 + number + jitter(number)
        elapsed = buffer.now - before if number else 0.0
        reading = read_utilization(device, reading, Tick(EPOCH + buffer.now, elapsed))
        before = buffer.now
        assert reading.busy is not None
        yield buffer.now, reading.busy.total


@pytest.mark.parametrize("period", [1 / 6, 0.5, 0.97, 1.0])
@pytest.mark.parametrize(
    "load",
    [constant(37), constant(100), square(100, 0, 4), square(80, 10, 7), square(100, 0, 0.4)],
    ids=["constant", "full", "square 4 s", "square 7 s", "square 0.4 s"],
)
def test_a_minute_is_within_two_percent_of_the_told_utilization(load: Load, period: float) -> None:
    """Every minute, scraped every 15 s or every 60 s; cycles come up to 0.2 s early or late."""
    points = list(run(Buffer(load, period), 240, jitter=lambda n: ((n * 7919) % 41 - 20) / 100))
    for first_ in range(2, 180, 15):
        (start, low), (end, high) = points[first_], points[first_ + 60]
        expected = told(load, start, end, 6000) / 100
        assert (high - low) / (end - start) == pytest.approx(expected, abs=0.02)


def test_a_minute_of_constant_load_is_exact_in_every_window() -> None:
    points = list(run(Buffer(constant(50), 1 / 6), 300))
    for start in range(5, 240):
        (t0, low), (t1, high) = points[start], points[start + 60]
        assert (high - low) / (t1 - t0) == pytest.approx(0.5, rel=0.02)


def test_slow_samples_do_not_make_the_rate_swing() -> None:
    """With a sample every 1.0 s and cycles of 0.99 s the sample's age wanders; the held tail makes up for it."""
    points = list(run(Buffer(constant(60), 1.0), 300, jitter=lambda n: -0.01 * n))
    rates = [(b - a) / (t1 - t0) for (t0, a), (t1, b) in zip(points[30:], points[45:], strict=False)]
    assert min(rates) > 0.6 * 0.98
    assert max(rates) < 0.6 * 1.02


def test_a_driver_clock_off_by_hours_changes_nothing() -> None:
    points = list(run(Buffer(constant(50), 1 / 6, offset=-7200.0), 60))
    assert points[-1][1] == pytest.approx(30, abs=0.5)


def test_a_minute_without_cycles_is_made_up_from_the_buffer() -> None:
    """A cycle that hung: the ring still holds the minute, so nothing is lost."""
    buffer = Buffer(constant(50), 1.0)
    reading = add_samples(Integral(), buffer_at(buffer, 30.0), 0.0)
    reading = add_samples(reading, buffer_at(buffer, 90.0, reading.cursor), 60.0)
    assert reading.total == pytest.approx(30.0, abs=0.01)
    assert reading.share == pytest.approx(0.5)


def test_a_gap_longer_than_the_ring_counts_only_what_is_known() -> None:
    buffer = Buffer(constant(100), 1.0, depth=10)
    reading = add_samples(Integral(), buffer_at(buffer, 30.0), 0.0)
    reading = add_samples(reading, buffer_at(buffer, 630.0, reading.cursor), 600.0)
    assert [reading.total, reading.lost] == pytest.approx([10.0, 590.0])
    assert reading.buffer.depth == pytest.approx(10.0)


def buffer_at(buffer: Buffer, now: float, last: int = 0) -> tuple[tuple[int, int], ...]:
    buffer.now = now
    return buffer.samples(1, last)


def test_first_read_starts_at_zero_with_the_newest_sample_as_cursor() -> None:
    reading = add_samples(Integral(), [(1_000_000, 100), (2_000_000, 80)], 0.0)
    assert (reading.total, reading.cursor, reading.share) == (0.0, 2_000_000, 0.8)


def test_an_empty_first_buffer_starts_at_zero_too() -> None:
    reading = add_samples(Integral(), (), 0.0)
    assert (reading.total, reading.cursor) == (0.0, 0)
    assert add_samples(reading, [(9_000_000, 100)], 1.0).total == 0.0


@pytest.mark.parametrize(
    "samples",
    [
        [(2_000_000, 50), (2_000_000, 50), (3_000_000, 50)],
        [(3_000_000, 50), (2_000_000, 50)],
        [(500_000, 100), (2_000_000, 50), (3_000_000, 50)],
        [(1_500_000, 4_294_967_295), (2_000_000, 50), (3_000_000, 50)],
        [(1_500_000, -1), (2_000_000, 50), (3_000_000, 50)],
    ],
    ids=["repeated", "out of order", "seen before", "garbage", "negative"],
)
def test_bad_samples_do_not_change_the_integral(samples: list[tuple[int, int]]) -> None:
    start = Integral(cursor=1_000_000, level=0.5)
    reading = add_samples(start, samples, 2.0)
    assert reading.total == pytest.approx(1.0)
    assert reading.cursor == 3_000_000


def test_time_that_readings_stood_for_is_not_counted_again_by_samples() -> None:
    """The first samples only set the cursor: the second until then is the reading's too."""
    before = replace(add_samples(Integral(), [(1_000_000, 100)], 0.0), pending=4.0)
    assumed = assume_level(before, 1.0, 2.0)

    assert (assumed.total, assumed.pending) == (2.0, 0.0)
    assert add_samples(assumed, [(4_000_000, 100)], 1.0).total == 3.0


def test_the_tail_after_the_last_sample_is_held_and_not_counted_twice() -> None:
    start = Integral(cursor=1_000_000, level=1.0)
    one = add_samples(start, [(1_400_000, 100)], 1.0)
    assert one.total == pytest.approx(1.0)
    assert one.exact == pytest.approx(0.4)
    two = add_samples(one, [(2_400_000, 100)], 1.0)
    assert two.total == pytest.approx(2.0)


def test_buffer_that_stays_empty_starts_over_within_a_minute() -> None:
    reading = Integral(total=100.0, exact=100.0, cursor=10**15, level=0.0)
    for _ in range(31):
        reading = add_samples(reading, (), 1.0)
    assert reading.cursor == 0
    reading = add_samples(reading, [(5_000_000, 100)], 1.0)
    reading = add_samples(reading, [(6_000_000, 100)], 1.0)
    assert reading.total == pytest.approx(101.0)


def test_a_driver_clock_set_forward_adds_no_more_than_has_passed() -> None:
    start = Integral(cursor=1_000_000, level=1.0)
    reading = add_samples(start, [(3_600_000_000, 100)], 1.0)
    assert reading.total <= 1.0 + 2.0


SAMPLES = st.lists(st.tuples(st.integers(0, 60_000_000), st.integers(-5, 200)), max_size=30)


@given(st.lists(st.tuples(SAMPLES, st.floats(0, 20)), max_size=20))
def test_the_integral_never_falls_and_never_outruns_time(steps: list[tuple[list[tuple[int, int]], float]]) -> None:
    reading = Integral()
    elapsed = 0.0
    for samples, seconds in steps:
        after = add_samples(reading, samples, seconds)
        elapsed += seconds
        assert after.total >= reading.total
        assert after.total <= elapsed + 2.0 + 1e-6
        assert after.share is None or 0.0 <= after.share <= 1.0
        reading = after


@given(st.lists(st.tuples(st.integers(150_000, 180_000), st.integers(0, 100)), min_size=2, max_size=200))
def test_how_the_buffer_is_cut_into_reads_does_not_matter(steps: list[tuple[int, int]]) -> None:
    time = 1_000_000
    samples: list[tuple[int, int]] = []
    for step, value in steps:
        time += step
        samples.append((time, value))
    start = Integral(cursor=1_000_000)
    whole = add_samples(start, samples, (time - 1_000_000) / 1e6)
    piecewise, last = start, 1_000_000
    for end in range(5, len(samples) + 5, 5):
        piece = samples[end - 5 : end]
        if piece:
            piecewise = add_samples(piecewise, piece, (piece[-1][0] - last) / 1e6)
            last = piece[-1][0]
    assert piecewise.exact == pytest.approx(whole.exact, abs=1e-6)


def test_without_a_buffer_the_reading_is_added_up() -> None:
    device = FakeDevice({"nvmlDeviceGetUtilizationRates": Record(gpu=40, memory=10)})
    reading = read_utilization(device, None, Tick(EPOCH, 0.0))
    for number in range(1, 11):
        reading = read_utilization(device, reading, Tick(EPOCH + number, 1.0))
    assert reading.busy is not None
    assert reading.busy.total == pytest.approx(4.0)
    assert reading.share == 0.4


def test_without_a_buffer_a_long_gap_is_not_made_up() -> None:
    reading = assume_level(Integral(), 1.0, 600.0)

    assert (reading.total, reading.lost) == (5.0, 595.0)


def test_utilization_publishes_ratios_and_totals_from_zero() -> None:
    device = FakeDevice(
        {"nvmlDeviceGetUtilizationRates": Record(gpu=40, memory=10), "nvmlDeviceGetSamples": ((10, 50),)}
    )
    assert first(UTILIZATION, device) == {
        "gpu_utilization_ratio": {(): 0.4},
        "gpu_memory_activity_ratio": {(): 0.1},
        "gpu_busy_seconds_total": {(): 0.0},
        "gpu_memory_busy_seconds_total": {(): 0.0},
        "gpu_exporter_samples_lost_seconds_total": {(): 0.0},
    }


def test_gpu_and_memory_have_buffers_of_their_own() -> None:
    def buffer(type_: int, last: int) -> tuple[tuple[int, int], ...]:
        values = {1: 100, 2: 30}
        return tuple((second * 1_000_000, values[type_]) for second in (1, 2) if second * 1_000_000 > last)

    rates = Record(gpu=100, memory=30)
    device = FakeDevice({"nvmlDeviceGetUtilizationRates": rates, "nvmlDeviceGetSamples": buffer})
    reading = read_utilization(
        device, Utilization(1.0, 0.3, Integral(cursor=1_000_000), Integral(cursor=1_000_000)), Tick(0.0, 1.0)
    )
    assert reading.busy is not None
    assert reading.memory_busy is not None
    assert (reading.busy.total, reading.memory_busy.total) == (1.0, 0.3)
    assert (reading.share, reading.memory_ratio) == (1.0, 0.3)


def test_mig_mode_has_no_utilization() -> None:
    with pytest.raises(UnsupportedError):
        read_utilization(FakeDevice(), None, Tick(EPOCH, 0.0))
