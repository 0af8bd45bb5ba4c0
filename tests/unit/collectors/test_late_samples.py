"""Busy seconds of a call that hung before it answered: the driver went on sampling, and has the samples."""

from __future__ import annotations

import pytest

from exporter.collectors.sample_integral import Integral, add_samples

PERIOD, BEGIN = 0.25, 30.0


def sample(number: int) -> tuple[int, int]:
    """Busy and idle by turns, for two seconds each."""
    return round(number * PERIOD * 1e6), 100 if number % 16 > 8 or number % 16 == 0 else 0


def until(now: float, last: int = 0) -> tuple[tuple[int, int], ...]:
    found = (sample(number) for number in range(1, int(now / PERIOD) + 1))
    return tuple((stamp, value) for stamp, value in found if stamp > last)


def truth(now: float) -> float:
    """Busy seconds since the beginning."""
    return sum(value / 100 * PERIOD for _, value in until(now, round(BEGIN * 1e6)))


@pytest.mark.parametrize("hangs", [0.75, 4.0, 12.0, 55.0])
def test_seconds_of_a_call_that_hangs_are_in_the_buffer_when_it_answers(hangs: float) -> None:
    """The read begins a second after the one before, and has its answer later."""
    reading = add_samples(Integral(), until(BEGIN), 0.0)

    reading = add_samples(reading, until(BEGIN + 1 + hangs, reading.cursor), 1.0, hangs)
    assert reading.total == pytest.approx(truth(BEGIN + 1 + hangs))

    reading = add_samples(reading, until(BEGIN + 2 + hangs, reading.cursor), 1.0 + hangs)
    assert reading.total == pytest.approx(truth(BEGIN + 2 + hangs))

    reading = add_samples(reading, until(BEGIN + 10 + hangs, reading.cursor), 8.0)
    assert reading.total == pytest.approx(truth(BEGIN + 10 + hangs))


def test_call_that_hangs_and_brings_nothing_begins_anew_after_half_a_minute() -> None:
    reading = add_samples(Integral(), [(30_000_000, 50)], 0.0)

    reading = add_samples(reading, [], 1.0, 32.0)
    assert (reading.cursor, reading.total) == (0, 0.5)

    reading = add_samples(reading, [(64_000_000, 50)], 1.0)
    reading = add_samples(reading, [(65_000_000, 50)], 1.0)
    assert reading.total == pytest.approx(1.5)


def test_samples_that_claim_more_than_the_call_took_count_as_little_as_before() -> None:
    reading = add_samples(Integral(), [(30_000_000, 100)], 0.0)

    reading = add_samples(reading, [(second * 1_000_000, 100) for second in range(31, 91)], 1.0, 10.0)

    assert reading.total == pytest.approx(13.0)
