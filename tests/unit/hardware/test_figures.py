from __future__ import annotations

import pytest

from tests.hardware import figures


def test_error_is_in_percent_of_the_reference() -> None:
    assert figures.error_percent(103.0, 100.0) == pytest.approx(3.0)
    assert figures.error_percent(-97.0, -100.0) == pytest.approx(3.0)


@pytest.mark.parametrize(("measured", "reference"), [(None, 1.0), (1.0, None), (1.0, 0.0)])
def test_error_without_a_reference_is_not_known(measured: float | None, reference: float | None) -> None:
    assert figures.error_percent(measured, reference) is None


RAMP = [(10.0, 0.0), (12.0, 4.0), (14.0, 4.0)]


def test_history_is_read_between_its_points_and_never_beyond_them() -> None:
    assert figures.at(RAMP, 11.0) == 2.0
    assert figures.at(RAMP, 14.0) == 4.0
    assert figures.at(RAMP, 9.9) is None
    assert figures.at(RAMP, 14.1) is None
    assert figures.at([], 1.0) is None


def test_growth_and_rate() -> None:
    assert figures.grown(RAMP, 11.0, 13.0) == 2.0
    assert figures.rate(RAMP, 11.0, 13.0) == 1.0
    assert figures.grown(RAMP, 9.0, 13.0) is None
    assert figures.rate(RAMP, 11.0, 11.0) is None


def test_integral_is_by_trapezoids() -> None:
    assert figures.integral(RAMP, 10.0, 14.0) == 12.0
    assert figures.integral(RAMP, 11.0, 13.0) == pytest.approx(7.0)
    assert figures.mean(RAMP, 10.0, 14.0) == 3.0
    assert figures.mean(RAMP, 10.0, 20.0) is None


def test_time_that_all_histories_cover() -> None:
    assert figures.common(RAMP, [(11.0, 0.0), (20.0, 0.0)]) == (11.0, 14.0)
    assert figures.common(RAMP, [(15.0, 0.0), (20.0, 0.0)]) is None
    assert figures.common(RAMP, []) is None


def test_falls_of_a_counter() -> None:
    assert figures.falls([1, 2, 2, 1, 5, 0]) == 2


def test_timing_is_in_microseconds() -> None:
    found = figures.timing([number / 1e6 for number in range(200, 0, -1)])

    assert (found.calls, found.minimum, found.median) == (200, pytest.approx(1.0), pytest.approx(100.5))
    assert found.p99 == pytest.approx(199.0)
    with pytest.raises(ValueError, match="no call"):
        figures.timing([])


def test_cadence_of_samples() -> None:
    found = figures.cadence([1_200_000, 1_000_000, 1_500_000], 2.0)

    assert (found.samples, found.span) == (3, 0.5)
    assert (found.period_median, found.period_min, found.period_max) == pytest.approx((0.25, 0.2, 0.3))
    assert found.newest_age == pytest.approx(0.5)


def test_cadence_of_nothing_is_not_known() -> None:
    found = figures.cadence([], 2.0)

    assert (found.samples, found.period_median, found.newest_age) == (0, None, None)


@pytest.mark.parametrize(
    ("growth", "seconds", "unit"),
    [
        (6.1e10, 60.0, "ns"),
        (5.0e10, 60.0, "ns"),
        (6.0e7, 60.0, "µs"),
        (0.0, 60.0, "does not advance"),
        (None, 60.0, "does not advance"),
        (5.0, 0.0, "advances, though its reason was never seen in force"),
        (1e13, 10.0, "unclear: 1e+12 per second in force"),
    ],
)
def test_unit_of_a_counter_of_time(growth: float | None, seconds: float, unit: str) -> None:
    assert figures.time_unit(growth, seconds) == unit


def test_effect_within_its_scatter_is_not_measurable() -> None:
    found = figures.paired([(100.0, 101.0), (100.0, 99.0), (100.0, 100.5)])

    assert found is not None
    assert (found.pairs, found.lowest, found.highest) == (3, pytest.approx(-1.0), pytest.approx(1.0))
    assert not found.measurable


def test_effect_beyond_its_scatter_is_measurable() -> None:
    found = figures.paired([(100.0, 95.0), (100.0, 95.1), (100.0, 94.9)])

    assert found is not None
    assert found.mean == pytest.approx(-5.0)
    assert found.measurable
    assert figures.paired([]) is None
    assert figures.paired([(0.0, 1.0)]) is None
