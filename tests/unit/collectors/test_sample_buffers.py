"""Properties of a driver's sample buffer are learned from its answers: span, depth, and samples of idle time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from exporter.collectors.base import Tick
from exporter.collectors.sample_integral import Integral, SampleBuffer, Samples, add_samples, assume_level
from exporter.collectors.utilization import UTILIZATION, Utilization, read_utilization
from exporter.core.clock import UnixTime
from exporter.driver.interface import Record
from tests.unit.collectors.answers import FakeDevice

SECOND = 1_000_000
SPAN = 200_000
"""Microseconds, as on an H200."""


def numbered(numbers: Sequence[int], value: float = 100) -> Samples:
    return [(number * SPAN, value) for number in numbers]


def counted(*reads: Samples, reading: float | None = None) -> Integral:
    """Reads a second apart; the first one is what the buffer had when the exporter began."""
    integral = add_samples(Integral(), reads[0], 0.0, reading=reading)
    for samples in reads[1:]:
        integral = add_samples(integral, samples, 1.0, reading=reading)
    return integral


def test_sample_after_a_hole_counts_its_own_span_and_the_hole_is_lost() -> None:
    """Samples 11 to 13 have gone: 0.6 s. There are samples of idle time."""
    integral = counted(numbered(range(1, 11), 0), numbered([10, 14, 15]))

    assert integral.total == pytest.approx(0.4)
    assert integral.lost == pytest.approx(0.6)


def test_of_late_samples_that_end_early_the_rest_is_held_for_one_read_or_lost() -> None:
    """Four seconds: one sample of 0.2 s, then the last second by its value, and 2.8 s that nothing covers."""
    before = Integral(cursor=10 * SPAN, pending=3.0, buffer=SampleBuffer(span=0.2, keeps_idle=True))
    after = add_samples(before, numbered([10, 11]), 1.0)

    assert [after.exact, after.total, after.lost] == pytest.approx([0.2, 1.2, 2.8])


def test_last_sample_of_a_burst_is_held_for_its_span_where_idle_time_has_none() -> None:
    before = Integral(cursor=10 * SPAN, buffer=SampleBuffer(span=0.2, keeps_idle=False))

    assert add_samples(before, numbered([10, 11]), 1.0).total == pytest.approx(0.4)


def test_samples_that_agreed_with_readings_still_do_after_a_hole() -> None:
    before = Integral(cursor=10 * SPAN, buffer=SampleBuffer(span=0.2, agrees=True))
    after = add_samples(before, numbered([10, 11, 15]), 1.0)

    assert (after.buffer.keeps_idle, after.extra_reads(1.0)) == (False, 0)


def test_hole_of_driver_that_keeps_no_idle_samples_is_idle_time() -> None:
    """Never a sample of 0, and three bursts: the driver makes none while nothing runs."""
    integral = counted(numbered([1, 2, 3, 9, 10, 11, 17, 18]), numbered([18, 22, 23]))

    assert [integral.total, integral.lost] == pytest.approx([0.4, 0.0])
    assert integral.buffer.keeps_idle is False


def test_hole_within_a_buffer_that_dropped_nothing_is_idle_time() -> None:
    """Bursts of 20 samples and holes of one second: most distances are regular."""
    bursts = [number for burst in range(8) for number in range(25 * burst, 25 * burst + 20)]
    integral = counted(*[numbered([each for each in bursts if each < 5 * second]) for second in range(2, 36)])

    assert (integral.buffer.keeps_idle, integral.lost) == (False, 0.0)
    assert integral.exact == pytest.approx((175 - 10 - 7 * 5) / 5)


def test_share_of_a_cycle_has_the_idle_time_without_samples() -> None:
    """Bursts of 0.4 s in each second."""
    bursts = [number for second in range(20) for number in (5 * second, 5 * second + 1)]
    reads = [numbered([each for each in bursts if each < 5 * second + 3]) for second in range(20)]
    shares = [counted(*reads[:number], reading=0.0).share for number in range(8, 20)]

    assert shares == [pytest.approx(0.4)] * 12


def test_samples_two_seconds_apart_cover_all_the_time() -> None:
    """Slower than NVML documents. Half of each two seconds is work, so there is no sample of 0 and no reading of 0."""
    reads = [numbered(range(max(0, 10 * (n // 2 - 6)), 5 * n + 1, 10), 50) for n in range(12, 52)]
    integral = counted(*reads, reading=0.5)

    assert integral.buffer.span == pytest.approx(2.0)
    assert integral.exact == pytest.approx(0.5 * 38)
    assert integral.lost == 0.0


def test_reading_of_zero_after_a_sample_of_work_shows_that_idle_time_has_no_samples() -> None:
    """One sample every six seconds, so no distance is the span: each counts the least that NVML documents."""
    integral = counted(numbered([0, 30, 60, 90, 120]), *[numbered([120 + 30 * n]) for n in range(1, 11)], reading=0.0)

    assert (integral.buffer.keeps_idle, integral.buffer.span, integral.lost) == (False, 0.0, 0.0)
    assert integral.exact == pytest.approx(10 / 6)


def read_inside(integral: Integral, samples: Samples, reading: float) -> Integral:
    """One more cycle of a second; the driver's utilization was read inside it."""
    return add_samples(replace(integral, readings=(reading,)), samples, 1.0, reading=reading)


def test_samples_that_may_be_lone_bursts_count_by_readings() -> None:
    """Bursts of 40 ms every 0.4 s in samples of 0.2 s: regular distances, as of samples of 0.4 s that are 20 % busy."""
    integral = counted(numbered(range(0, 11, 2), 20))
    for second in range(1, 31):
        integral = read_inside(integral, numbered(range(5 * second - 1 + second % 2, 5 * second + 11, 2), 20), 0.1)

    assert integral.exact == pytest.approx(3.0)
    assert (integral.lost, integral.extra_reads(1.0)) == (0.0, 4)


def test_samples_that_agree_with_readings_need_none_any_more() -> None:
    """Eight seconds of work, seen without a sample of 0; then two seconds by samples alone."""
    integral = counted(numbered(range(1, 11)))
    reads: list[int] = []
    for second in range(1, 11):
        reads.append(integral.extra_reads(1.0))
        integral = read_inside(integral, numbered(range(5 + 5 * second, 11 + 5 * second)), 1.0 if second < 9 else 0.5)

    assert reads == [4] * 8 + [0] * 2
    assert integral.exact == pytest.approx(10.0)


def test_idle_time_without_samples_needs_no_readings() -> None:
    """Bursts of three samples until the tenth second; a minute later the next burst."""
    bursts = [number for second in range(10) for number in range(5 * second, 5 * second + 3)]
    reads = [numbered([each for each in bursts if each < 5 * second + 5]) for second in range(10)]
    integral = counted(*reads, reading=0.0)
    for _ in range(60):
        integral = add_samples(integral, (), 1.0, reading=0.0)
    assert integral.extra_reads(1.0) == 0

    began = integral.exact
    integral = add_samples(integral, numbered(range(350, 353)), 1.0, reading=0.0)
    assert (integral.exact - began, integral.lost) == pytest.approx((0.6, 0.0))


def test_one_sample_of_zero_shows_that_idle_time_has_samples() -> None:
    integral = counted(numbered([1, 2, 3, 9, 10, 11]), [*numbered([11, 12]), (13 * SPAN, 0.0)])

    assert integral.buffer.keeps_idle is True


def test_buffer_that_dropped_samples_shows_its_depth() -> None:
    """It held one second when the read came 1.4 s after the one before: 0.4 s are lost."""
    integral = add_samples(counted(numbered(range(1, 6))), numbered(range(8, 13)), 1.4)

    assert integral.lost == pytest.approx(0.4)
    assert integral.buffer.depth == pytest.approx(1.0)
    integral = replace(integral, buffer=replace(integral.buffer, agrees=True))
    assert [integral.extra_reads(interval) for interval in (0.25, 1.0, 15.0)] == [0, 2, 4]


def test_buffer_that_still_has_the_last_sample_lost_none() -> None:
    integral = add_samples(counted(numbered(range(1, 6))), numbered(range(5, 12)), 1.2)

    assert (integral.lost, integral.buffer.depth) == (0.0, None)


def test_time_without_timely_samples_is_counted_by_readings_until_they_come() -> None:
    """A batch every few seconds: the readings said half, the samples say a fifth, and the total never goes down."""
    integral = counted(numbered(range(1, 11), 20))
    for _ in range(4):
        integral = add_samples(integral, numbered([10]), 1.0, reading=0.5)
    assert integral.total == pytest.approx(2.0)
    assert integral.extra_reads(1.0) == 4

    integral = add_samples(integral, numbered(range(10, 36), 20), 1.0, reading=0.5)
    assert integral.exact == pytest.approx(1.0)
    assert [integral.total, integral.lost] == pytest.approx([2.0, 0.0])


def test_span_is_not_raised_by_isolated_samples_of_driver_without_idle_samples() -> None:
    """Bursts of 0.4 s, then one sample a second: each still counts 0.2 s."""
    integral = counted(numbered([1, 2, 8, 9, 15, 16]), numbered([16, 22]))
    began = integral.total
    for second in range(20):
        integral = add_samples(integral, numbered([22 + 5 * second, 27 + 5 * second]), 1.0)

    assert integral.total - began == pytest.approx(20 * 0.2)


@pytest.mark.parametrize("spans", [[17, 10, 26, 17, 12, 24], [167, 160, 175], [1000, 990, 1012]])
def test_samples_that_come_a_little_early_or_late_have_no_holes(spans: list[int]) -> None:
    times = [0]
    for number in range(300):
        times.append(times[-1] + spans[number % len(spans)] * 1000)
    samples = [(time + SECOND, 50.0) for time in times]
    integral = add_samples(Integral(), samples[:40], 0.0)
    for number in range(40, 300, 10):
        chunk = samples[number - 1 : number + 10]
        integral = add_samples(integral, chunk, (chunk[-1][0] - chunk[0][0]) / 1e6)

    assert integral.lost == 0.0
    assert integral.exact == pytest.approx((samples[299][0] - samples[39][0]) / 2e6)


def test_reads_inside_the_cycle_replace_the_reading_of_its_begin() -> None:
    """A load in step with the cycles: the driver says 100 % whenever a cycle begins, and half of the time 0."""
    answers = iter([100, 100, 0, 100, 0, 100])
    device = FakeDevice({"nvmlDeviceGetUtilizationRates": lambda: Record(gpu=next(answers), memory=0)})
    reading: Utilization = read_utilization(device, None, Tick(UnixTime(0.0), 0.0))
    assert UTILIZATION.extra_reads(reading, 1.0) == 4
    for _ in range(4):
        reading = UTILIZATION.read_again(device, reading)

    reading = read_utilization(device, reading, Tick(UnixTime(1.0), 1.0))
    assert reading.busy is not None
    assert (reading.busy.total, reading.share, reading.busy.readings) == (0.5, 0.5, ())


def test_late_answer_has_samples_of_the_time_until_it_came() -> None:
    """Half of the time is work. The read that began at 2 s was answered at 5 s, and the next one began at 6 s."""
    now = [0.0]

    def samples(_kind: int, since: int) -> list[tuple[int, float]]:
        return [each for each in numbered(range(1, round(now[0] * 5) + 1), 50) if each[0] > since]

    device = FakeDevice({"nvmlDeviceGetSamples": samples, "nvmlDeviceGetUtilizationRates": Record(gpu=50, memory=0)})
    reading: Utilization | None = None
    for began, answered, seconds in ((1.0, 1.0, 0.0), (2.0, 5.0, 1.0), (6.0, 6.0, 4.0), (7.0, 7.0, 1.0)):
        now[0] = answered
        reading = read_utilization(device, reading, Tick(UnixTime(began), seconds, lambda late=answered - began: late))
        assert reading.busy
        assert reading.busy.total == pytest.approx(0.5 * (answered - 1.0))
        assert reading.busy.lost == 0.0


def test_reading_stands_for_five_seconds_and_the_rest_is_lost() -> None:
    assert [assume_level(Integral(), 1.0, 12.0, readings).lost for readings in (1, 4)] == [7.0, 0.0]
