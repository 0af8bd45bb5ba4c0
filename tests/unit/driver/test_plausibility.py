"""What a driver's answer can be: a lie is left out, a truth is not, and a reset must be proven."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.driver.plausibility import CONFIRMATIONS, FIELDS, FUNCTIONS, Followed, Growth, Range, Rule

ENERGY = Growth(per_second=1000.0, at_once=100.0)


def within(number: float, rule: Rule) -> bool:
    return rule.lowest <= number <= rule.highest


def run(values: list[float], rule: Growth = ENERGY) -> list[float | None]:
    """What is believed of each value, read one second apart."""
    counter = Followed(rule)
    return [counter.believed(value, float(second)) for second, value in enumerate(values)]


def test_one_zero_and_one_burst_of_ones_are_no_readings() -> None:
    assert run([5000.0, 0.0, 5400.0, 2.0**64 - 1, 5800.0]) == [5000.0, None, 5400.0, None, 5800.0]


@pytest.mark.parametrize("ones", [2.0**32 - 1, 2.0**64 - 1])
def test_all_bits_set_are_no_reading_at_the_start_either(ones: float) -> None:
    assert run([ones, 3.0, ones, 4.0], Growth(per_second=1e6, at_once=1e7)) == [None, 3.0, None, 4.0]


def test_reset_is_believed_once_proven() -> None:
    found = run([5000.0, 10.0, 20.0, 30.0, 40.0])

    assert found == [5000.0, None, None, 30.0, 40.0]
    assert CONFIRMATIONS == 3


def test_reset_counter_counts_as_much_as_it_can_have_gained_since_and_no_more() -> None:
    """Three seconds after its last reading: 100 and 3 times 1000."""
    assert run([9000.0, *[3100.0] * 3, 3105.0]) == [9000.0, None, None, 3100.0, 3105.0]
    assert run([9000.0, *[3101.0] * 3, 3105.0]) == [9000.0, None, None, 9000.0, 9004.0]


def test_counter_that_fell_to_a_level_and_stays_there_was_reset() -> None:
    assert run([7.0, 0.0, 0.0, 0.0, 0.0]) == [7.0, None, None, 0.0, 0.0]


def test_leap_that_stays_is_believed_without_what_it_claims_to_have_counted() -> None:
    assert run([100.0, 1e9, 1e9 + 5, 1e9 + 10, 1e9 + 20]) == [100.0, None, None, 100.0, 110.0]


def test_zero_at_the_start_does_not_bill_the_gpus_history() -> None:
    believed = [value for value in run([0.0, 5e9, 5e9 + 100, 5e9 + 200, 5e9 + 300]) if value is not None]

    assert max(believed) < 1000


def test_values_that_disagree_with_each_other_prove_nothing() -> None:
    assert run([5000.0, 10.0, 3.0, 1.0, 4000.0, 2.0, 5100.0])[-1] == 5100.0


def test_what_a_reset_counter_cannot_have_counted_since_is_taken_off() -> None:
    believed = [value for value in run([5e9, 2.0**31, 2.0**31, 2.0**31, 2.0**31 + 10]) if value is not None]

    assert believed == [5e9, 5e9, 5e9 + 10]


def test_leap_and_reset_after_another_bill_nothing() -> None:
    """As a driver does whose energy is 0 for a while, then what it was, then 2^31 for a while."""
    values = [5e9, *[0.0] * 4, *[5e9 + 5] * 4, *[2.0**31] * 4, *[5e9 + 20] * 4]
    believed = [value for value in run(values) if value is not None]
    gained = sum(later - earlier if later >= earlier else later for earlier, later in itertools.pairwise(believed))

    assert gained < 1000


def test_long_gap_allows_for_what_was_counted_in_it() -> None:
    def believed(later: float) -> float | None:
        counter = Followed(ENERGY)
        counter.believed(0.0, 0.0)
        return counter.believed(later, 1000.0)

    assert believed(900_000.0) == 900_000.0
    assert believed(1_200_000.0) is None


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_honest_counter_is_always_believed(steps: list[float]) -> None:
    totals = [sum(steps[: index + 1]) for index in range(len(steps))]

    assert run(totals) == totals


@given(
    st.lists(st.floats(0, 1000), min_size=4, max_size=20),
    st.integers(1, 19),
    st.sampled_from([0.0, 1.0, 2.0**31, 2.0**32 - 1, 2.0**63, 2.0**64 - 1]),
)
def test_one_odd_reading_anywhere_never_adds_to_the_total(steps: list[float], at: int, odd: float) -> None:
    totals = [1e6 + sum(steps[: index + 1]) for index in range(len(steps))]
    place = min(at, len(totals) - 1)
    found = run([*totals[:place], odd, *totals[place:]])

    assert [value for index, value in enumerate(found) if index != place and value is not None][-1] <= totals[-1]
    assert found[-1] == totals[-1]


def test_rules_admit_what_products_have_and_refuse_what_none_has() -> None:
    watts, generation = FUNCTIONS["nvmlDeviceGetPowerUsage"], FUNCTIONS["nvmlDeviceGetMaxPcieLinkGeneration"]
    assert isinstance(watts, Range)
    assert isinstance(generation, Range)

    assert within(2_700_000, watts)  # a GB300 superchip
    assert not within(2**32 - 1, watts)
    assert within(7, generation)
    assert not within(2155905152, generation)
    assert not within(float("nan"), watts)


def limits(function: str, part: str = "") -> Range:
    shape = FUNCTIONS[function]
    rule = shape[part] if isinstance(shape, Mapping) else shape[0] if isinstance(shape, tuple) else shape
    assert isinstance(rule, Range)
    return rule


@pytest.mark.parametrize(
    ("function", "part", "lowest", "highest"),
    [
        ("nvmlDeviceGetUtilizationRates", "gpu", 0, 100),
        ("nvmlDeviceGetUtilizationRates", "memory", 0, 100),
        ("nvmlDeviceGetEncoderUtilization", "", 0, 100),
        ("nvmlDeviceGetPersistenceMode", "", 0, 1),
        ("nvmlDeviceGetMigMode", "", 0, 1),
        ("nvmlDeviceGetTemperature", "", 0, 150),
    ],
)
def test_ratio_flag_and_level_end_where_their_unit_ends(
    function: str, part: str, lowest: float, highest: float
) -> None:
    rule = limits(function, part)

    assert [within(each, rule) for each in (lowest - 1, lowest, highest, highest + 1)] == [False, True, True, False]


def test_every_field_that_is_read_has_a_rule() -> None:
    from exporter.collectors.throttle import _POLICIES  # noqa: PLC0415 - what the collector reads is its own affair

    assert {field for _, field, _ in _POLICIES} <= FIELDS.keys()
