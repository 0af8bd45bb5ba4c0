"""Who is counted to have used a GPU, also for the time of cycles in which nobody looked."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.ledger.account import Allocation, Counted, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
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
