"""Counters of owners: few series, no resets, a day longer than the work."""

from __future__ import annotations

from exporter.accounting.counters import OTHER, OwnerCounters, Sums
from exporter.accounting.model import Amount, Kind, Place
from exporter.attribution.owner import NOBODY, Owner
from tests.growth import grown

H100 = Place("H100")


def owner(number: int) -> Owner:
    return Owner(f"slurm:{number}", "slurm", slurm_job=str(number), user=f"u{number}", account="a")


def series(counters: OwnerCounters) -> int:
    return sum(4 + len(row.amount.states) for row in counters.counter_rows())


def test_jobs_of_one_user_are_one_counter() -> None:
    counters = OwnerCounters()
    for job in range(3):
        ada = Owner(f"slurm:{job}", "slurm", slurm_job=str(job), user="ada", account="a")
        counters.count_allocation(ada, Kind("high"), H100, 100.0)
        counters.add_amount(ada, Kind("high"), H100, Amount({"computing": 5.0}, 2.0, 7.0), 110.0)

    (row,) = counters.counter_rows()

    assert (row.key.user, row.key.priority, row.since, row.allocations) == ("ada", "high", 100, 3)
    assert row.amount == Amount({"computing": 15.0}, 6.0, 21.0)


def test_owners_above_the_limit_are_one_and_nothing_is_lost() -> None:
    counters = OwnerCounters(limit=500)
    for number in range(1000):
        counters.add_amount(owner(number), Kind(), H100, Amount({"computing": 1.0, "wait_other": 1.0}), 100.0)
    counters.add_amount(NOBODY, Kind(), H100, Amount({"free": 9.0}), 100.0)

    rows = {row.key.owner or row.key.user: row for row in counters.counter_rows()}

    assert series(counters) <= 500
    assert sum(sum(row.amount.states.values()) for row in rows.values()) == 2009.0
    assert len(counters.merged) + len(rows) - 2 == 1000
    assert rows[OTHER].amount.states["computing"] == len(counters.merged)


def test_counters_do_not_grow_with_owners_that_are_gone() -> None:
    """Also the names of those that were merged above the limit."""
    counters = OwnerCounters(limit=80)

    def next_round(number: int) -> None:
        now = number * 1e6
        for each in range(5):
            counters.add_amount(owner(5 * number + each), Kind(), H100, Amount({"computing": 1.0}), now)
        counters.forget_owners(now)

    assert grown(counters, next_round) == {}


def test_owner_that_comes_back_after_a_day_has_a_new_life() -> None:
    counters = OwnerCounters()
    counters.add_amount(owner(1), Kind(), H100, Amount({"computing": 1.0}), 100.0)
    counters.forget_owners(100.0 + 86400)
    kept = counters.counter_rows()
    counters.forget_owners(101.0 + 86400)
    counters.add_amount(owner(1), Kind(), H100, Amount({"computing": 2.0}), 90000.0)

    (row,) = counters.counter_rows()

    assert len(kept) == 1
    assert (row.since, row.amount.states) == (90000, {"computing": 2.0})


def test_sums_add_a_part_of_all_amounts() -> None:
    sums = Sums({"idle": 1.0}, 2.0, 3.0)
    sums.add_part(Amount({"idle": 8.0, "computing": 4.0}, 16.0, 100.0), 0.25)
    sums.add_part(Amount(used=1.0, joules=1.0))

    assert sums.amount == Amount({"idle": 3.0, "computing": 1.0}, 7.0, 29.0)
