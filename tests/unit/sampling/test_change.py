"""Two steps of the ledger where something changed: what was until the last look, and what is left of the pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import Owner
from exporter.core.units import Joules
from exporter.ledger.account import Counted, Holding, LedgerInput, Reading
from exporter.ledger.evidence import Signals
from exporter.sampling.change import Calm, holders, possible, since, until
from tests.attribution_kit.nodes import gpu

ALICE, BOB = Owner("alice", "process"), Owner("bob", "process")
CALM = Calm(3.0, 4.0)


def reading(
    number: int = 0, *, joules: float = 0.0, counted: Counted | None = None, **signals: float | None
) -> Reading:
    return Reading(gpu(number), Signals(**signals), (Holding(ALICE),), Joules(joules), counted=counted)


def passed(*readings: Reading, seconds: float = 4.0, time: float = 100.0) -> LedgerInput:
    return LedgerInput(time=time, seconds=seconds, unseen=1.0, readings=readings)  # type: ignore[arg-type]


def test_time_until_the_last_look_is_that_of_the_last_pass_again() -> None:
    last = passed(reading(busy=0.5, joules=2000.0, counted=Counted(2.0, 4.0)), seconds=2.0)

    first = until(last, CALM, 103.0)  # type: ignore[arg-type]

    assert (first.time, first.seconds, first.unseen) == (103.0, 3.0, 0.0)
    assert first.readings == (reading(busy=0.5, joules=3000.0),)


def test_pass_of_a_second_goes_on_at_its_power() -> None:
    first = until(passed(reading(joules=100.0), seconds=1.0), CALM, 103.0)  # type: ignore[arg-type]

    assert first.readings[0].joules == 300.0


def test_rest_of_several_seconds_is_the_mean_of_these() -> None:
    early = Calm(2.0, 4.0)
    first = until(passed(reading(busy=0.5)), early, 102.0)  # type: ignore[arg-type]

    (left,) = since(passed(reading(busy=0.6)), first, early).readings

    assert left.signals == Signals(busy=pytest.approx(0.7))


def test_first_pass_of_no_length_has_no_power() -> None:
    first = until(passed(reading(joules=5.0), seconds=0.0), CALM, 103.0)  # type: ignore[arg-type]

    assert first.readings[0].joules == 0.0


def test_rest_of_the_pass_is_what_its_means_leave() -> None:
    first = until(passed(reading(busy=0.5, tensor_active=0.2, joules=1600.0)), CALM, 103.0)  # type: ignore[arg-type]
    now = reading(busy=0.6, tensor_active=0.25, joules=1500.0, counted=Counted(2.4, 4.0))

    rest = since(passed(now), first, CALM)

    (left,) = rest.readings
    assert (rest.seconds, left.joules) == (1.0, pytest.approx(300.0))
    assert left.signals == Signals(busy=pytest.approx(0.9), tensor_active=pytest.approx(0.4))
    assert left.counted == (pytest.approx(0.9), 1.0)


def test_rest_is_never_less_than_nothing_nor_more_than_all_the_time() -> None:
    first = until(passed(reading(busy=1.0, sm_active=0.0, joules=4000.0)), CALM, 103.0)  # type: ignore[arg-type]
    now = reading(busy=0.2, sm_active=0.9, joules=100.0, counted=Counted(0.8, 2.0))

    (left,) = since(passed(now), first, CALM).readings

    assert left.signals == Signals(busy=0.0, sm_active=1.0)
    assert (left.joules, left.counted) == (0.0, (0.0, 0.0))


_PART = st.floats(0.0, 1.0)
_JOULES = st.floats(0.0, 1e5)


@given(_PART, _PART, _JOULES, _JOULES, st.floats(0.1, 11.9))
def test_both_parts_sum_to_what_was_counted(
    before: float, mean: float, joules_before: float, joules: float, seconds: float
) -> None:
    calm = Calm(seconds, 12.0)
    now = passed(reading(busy=mean, joules=joules), seconds=12.0)
    last = passed(reading(busy=before, joules=joules_before), seconds=1.0)

    first = possible(until(last, calm, 103.0), now, calm)  # type: ignore[arg-type]
    rest = since(now, first, calm)

    parts = [(each.readings[0], each.seconds) for each in (first, rest)]
    busy = [found.signals.busy or 0.0 for found, _ in parts if found.signals]
    assert all(-1e-9 <= each <= 1 + 1e-9 for each in busy)
    assert sum(each * length for each, (_, length) in zip(busy, parts, strict=True)) == pytest.approx(12 * mean)
    assert sum(found.joules for found, _ in parts) == pytest.approx(joules)


def test_part_of_a_gpu_that_is_not_read_any_more_is_as_it_was() -> None:
    first = until(passed(reading(busy=0.5, joules=4.0)), CALM, 103.0)  # type: ignore[arg-type]

    assert possible(first, passed(Reading(gpu(0), None)), CALM) == first
    assert possible(first, passed(), CALM) == first


def test_what_is_no_mean_or_was_not_known_before_is_as_it_is_now() -> None:
    first = until(passed(reading(sm_clock=1e9, power_of_limit=0.2)), CALM, 103.0)  # type: ignore[arg-type]
    now = reading(busy=0.5, sm_clock=2e9, power_of_limit=0.8, counted=Counted(2.0, 4.0))

    (left,) = since(passed(now), first, CALM).readings

    assert left.signals == now.signals
    assert left.counted == now.counted


def test_gpu_that_was_not_there_or_not_read_is_as_it_is_now() -> None:
    lost = Reading(gpu(1), None, (Holding(ALICE),), Joules(7.0))
    first = until(passed(lost), CALM, 103.0)  # type: ignore[arg-type]
    new, back = reading(0, busy=0.5, joules=9.0), reading(1, busy=0.5, joules=9.0)

    assert since(passed(new, back), first, CALM).readings == (new, reading(1, busy=0.5, joules=9.0 - 7.0 * 3 / 4))


def test_holders_are_the_owners_and_not_what_they_do() -> None:
    other = Reading(gpu(0), None, (Holding(BOB),))

    assert holders(passed(reading(busy=0.5))) == holders(passed(reading(busy=0.1)))
    assert holders(passed(reading())) != holders(passed(other))
    assert holders(passed(reading(0))) != holders(passed(reading(1)))
