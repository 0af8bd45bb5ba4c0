"""Who is counted to have used a GPU, also for the time of cycles in which nobody looked."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import NOBODY, Owner, Target
from exporter.ledger.account import Allocation, Counted, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import INDEX
from exporter.ledger.states.state import Signals

ALICE, BOB = Owner(workload="a/alice", kind="pod"), Owner(workload="b/bob", kind="pod")
GPU = Target("GPU-0", 0, "0000:01:00.0")


def shared(alice: float, bob: float, counted: Counted | None = None) -> Reading:
    """A GPU of two owners, and the share of the cycle in which each ran."""
    allocations = (Allocation(ALICE, 0.5, (1,), alice), Allocation(BOB, 0.5, (2,), bob))
    return Reading(GPU, Signals(busy=alice + bob), allocations, counted=counted)


def passed(ledger: Ledger, reading: Reading, seconds: float = 1.0) -> Ledger:
    return advance_ledger(ledger, LedgerInput(time=1000.0, seconds=seconds, readings=(reading,)))  # type: ignore[arg-type]


def used(ledger: Ledger) -> tuple[float, float, float]:
    """Seconds of Alice, of Bob, and of no known owner."""
    alice, bob = (sum(ledger.owners[owner].used.values()) if owner in ledger.owners else 0.0 for owner in (ALICE, BOB))
    return round(alice, 9), round(bob, 9), round(ledger.targets["GPU-0"].unowned_seconds, 9)


def test_each_owner_used_what_it_ran() -> None:
    assert used(passed(Ledger(), shared(0.6, 0.2))) == (0.6, 0.2, 0.0)


@pytest.mark.parametrize("seconds", [1.0, 1.5])
def test_count_of_a_cycle_in_time_is_no_other_count(seconds: float) -> None:
    assert used(passed(Ledger(), shared(0.6, 0.2, Counted(1.0, seconds)))) == (0.6, 0.2, 0.0)


def test_time_since_the_last_answer_goes_to_who_was_there_then() -> None:
    """Eight busy seconds in ten, and three runs to one: six are Alice's and two Bob's."""
    before = passed(Ledger(), shared(0.6, 0.2))

    assert used(passed(before, shared(0.6, 0.2, Counted(8.0, 10.0)))) == (6.6, 2.2, 0.0)


def test_who_came_since_the_last_answer_used_what_was_seen_and_no_more() -> None:
    alone = Reading(GPU, Signals(busy=0.6), (Allocation(ALICE, 1.0, (1,), 0.6),))
    before = passed(Ledger(), alone)

    assert used(passed(before, shared(0.6, 0.2, Counted(8.0, 10.0)))) == (6.6, 0.2, 1.8)


def test_owner_that_ran_in_the_time_of_others_has_no_more_seconds_than_its_share() -> None:
    """The driver counted 5 s of a gap of 10 s, all of them busy, and Alice ran nine tenths of these."""
    before = passed(Ledger(), shared(0.9, 0.1))
    after = passed(before, shared(0.9, 0.1, Counted(5.0, 5.0)), 10.0)

    assert [sum(after.owners[each].seconds) - sum(before.owners[each].seconds) for each in (ALICE, BOB)] == [5.0, 5.0]
    assert after.owners[ALICE].seconds[INDEX["unobserved"]] == 2.5


def joules(ledger: Ledger) -> tuple[float, float, float]:
    """Energy of Alice, of Bob and of no owner in the last cycle."""
    alice, bob, nobody = (sum(row.joules for row in ledger.usage if row.owner == each) for each in (ALICE, BOB, NOBODY))
    return alice, bob, nobody


@pytest.mark.parametrize("seconds", [1.0, 10.0])
def test_energy_of_cycles_without_an_answer_is_not_that_of_a_new_owner(seconds: float) -> None:
    """10 s and 5,000 J after the last answer the GPU is another owner's, seen for one cycle: of all or of the last one.

    An exporter that stood still for these 10 s has one long cycle.
    """
    before = passed(Ledger(), Reading(GPU, Signals(busy=1.0), (Allocation(ALICE, 1.0, (1,)),)))
    late = Reading(GPU, Signals(busy=1.0), (Allocation(BOB, 1.0, (2,)),), joules=5000.0, metered=10.0)

    assert joules(passed(before, late, seconds)) == pytest.approx((0.0, 500.0, 4500.0))


def test_energy_of_cycles_without_an_answer_is_that_of_the_owner_before() -> None:
    one = Allocation(ALICE, 1.0, (1,))
    before = passed(Ledger(), Reading(GPU, Signals(busy=1.0), (one,)))
    late = Reading(GPU, Signals(busy=1.0), (one,), joules=5000.0, metered=10.0)

    assert joules(passed(before, late)) == pytest.approx((5000.0, 0.0, 0.0))
