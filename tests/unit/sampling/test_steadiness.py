"""When passes have found the same for long enough."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.ledger.account import ZERO, Ledger, TargetEntry
from exporter.ledger.states import INDEX, STATES
from exporter.sampling.steadiness import RESTLESS, STEADY_AFTER, Holders, Steadiness, after, states_of
from tests.attribution_kit.nodes import gpu

HELD: Holders = {"a": "alice"}


def row(**shares: float) -> Sequence[float]:
    return [shares.get(state, 0.0) for state in STATES]


def passes(*rows: Sequence[float], holders: Holders = HELD) -> Steadiness:
    found = RESTLESS
    for each in rows:
        found = after(found, {"a": each}, holders)
    return found


CALM = row(busy=0.7, wait_other=0.3)


def test_so_many_passes_that_found_the_same_are_steady_and_one_less_is_not() -> None:
    assert not passes(*[CALM] * (STEADY_AFTER - 1)).steady
    assert passes(*[CALM] * STEADY_AFTER).steady


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (row(busy=0.84, wait_other=0.16), True),
        (row(busy=0.86, wait_other=0.14), False),
        (row(busy=0.7, wait_other=0.26, wait_cpu=0.04), True),
        (row(busy=0.7, wait_other=0.24, wait_cpu=0.06), False),
        (row(busy=0.7, unobserved=0.01, wait_other=0.29), False),
    ],
)
def test_load_may_move_a_little_and_name_no_other_cause(other: Sequence[float], same: bool) -> None:  # noqa: FBT001
    assert passes(*[CALM] * STEADY_AFTER, other).steady is same


def test_load_that_drifts_is_held_against_where_it_began() -> None:
    drifting = [row(busy=0.5 + 0.02 * step, wait_other=0.5 - 0.02 * step) for step in range(STEADY_AFTER)]

    assert not passes(*drifting).steady


def test_another_holder_or_another_gpu_begins_anew() -> None:
    steady = passes(*[CALM] * STEADY_AFTER)

    assert after(steady, {"a": CALM}, {"a": "bob"}).passes == 1
    assert after(steady, {"a": CALM, "b": CALM}, HELD).passes == 1
    assert after(steady, {}, HELD) == RESTLESS


def test_states_of_a_pass_are_shares_of_it() -> None:
    def ledger(clock: float, **seconds: float) -> Ledger:
        entry = TargetEntry(gpu(0), seconds=tuple(row(**seconds)))
        return Ledger(clock=clock, targets={"a": entry})

    found = states_of(ledger(10.0, busy=5.0, free=5.0), ledger(14.0, busy=6.0, free=8.0))

    assert (found["a"][INDEX["busy"]], found["a"][INDEX["free"]], sum(found["a"])) == (0.25, 0.75, 1.0)
    assert states_of(ledger(10.0), ledger(10.0)) == {}
    assert states_of(Ledger(), ledger(2.0, free=2.0)) == {"a": tuple(row(free=1.0))}
    assert len(ZERO) == len(STATES)
