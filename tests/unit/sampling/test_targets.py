"""Who holds how much of a target."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import NOBODY, Owner, Ownership
from exporter.collectors.processes import GpuProcess
from exporter.sampling.join import allocations

ADA, BOB = Owner("slurm:1", "slurm"), Owner("slurm:2", "slurm")
UUID = "GPU-0"


def process(pid: int, sm: float | None = None) -> GpuProcess:
    return GpuProcess(pid, UUID, 1, {} if sm is None else {"sm": sm})


def shares(running: tuple[GpuProcess, ...], ownership: Ownership) -> dict[Owner, float]:
    """With every process shown by /proc."""
    shown = {each.pid for each in running}
    return {allocated_to.owner: allocated_to.share for allocated_to in allocations(UUID, running, ownership, shown)}


def test_a_holder_with_no_process_holds_it_all() -> None:
    assert shares((), Ownership(holders={UUID: (ADA,)})) == {ADA: 1.0}


def test_a_process_of_nobody_known_takes_nothing_from_the_holder() -> None:
    assert shares((process(7),), Ownership(holders={UUID: (ADA,)})) == {ADA: 1.0, NOBODY: 0.0}


def test_process_that_proc_does_not_show_is_the_only_holders() -> None:
    """As with hidepid, or in a PID namespace of the exporter's own: its holder would be held idle, at 90 %."""
    (found,) = allocations(UUID, (process(7, 0.5), process(8, 0.4)), Ownership(holders={UUID: (ADA,)}), ())

    assert (found.owner, found.share, found.pids, found.utilization) == (ADA, 1.0, (7, 8), 0.9)


@pytest.mark.parametrize(
    ("ownership", "shown"),
    [
        (Ownership(holders={UUID: (ADA, BOB)}), ()),
        (Ownership(processes={8: ADA}, holders={UUID: (ADA,)}), {8}),
        (Ownership(holders={UUID: (ADA,)}, weights={(UUID, ADA): 0.5}), ()),
        (Ownership(holders={UUID: (ADA,)}), {7}),
    ],
    ids=["two hold it", "the holder has its own", "it holds a part", "some are shown"],
)
def test_process_that_proc_does_not_show_is_nobodys_where_it_may_be_another_ones(
    ownership: Ownership, shown: Collection[int]
) -> None:
    found = {each.owner: each.pids for each in allocations(UUID, (process(7), process(8)), ownership, shown)}

    assert 7 in found[NOBODY]


def test_a_process_of_nobody_known_holds_what_stated_shares_leave() -> None:
    ownership = Ownership(holders={UUID: (ADA,)}, weights={(UUID, ADA): 0.25})

    assert shares((process(7),), ownership) == {ADA: 0.25, NOBODY: 0.75}


def test_nobody_known_alone_holds_it_all() -> None:
    assert shares((process(7),), Ownership()) == {NOBODY: 1.0}


def test_processes_go_to_their_owners() -> None:
    ownership = Ownership(processes={7: ADA, 8: BOB, 9: BOB}, holders={UUID: (ADA, BOB)})

    running = (process(7, 0.5), process(8, 0.2), process(9, 0.1))
    found = {h.owner: h for h in allocations(UUID, running, ownership, {7, 8, 9})}

    assert (found[ADA].pids, found[BOB].pids) == ((7,), (8, 9))
    assert found[ADA].utilization == 0.5
    assert found[BOB].utilization == pytest.approx(0.3)


@given(st.dictionaries(st.sampled_from([ADA, BOB]), st.floats(0, 3), max_size=2), st.booleans(), st.integers(0, 3))
def test_shares_never_sum_to_more_than_one(weights: dict[Owner, float], stated: bool, strangers: int) -> None:  # noqa: FBT001 - drawn
    known = {(UUID, owner): weight for owner, weight in weights.items()} if stated else {}
    ownership = Ownership(holders={UUID: tuple(weights)}, weights=known)

    found = shares(tuple(process(pid) for pid in range(strangers)), ownership)

    assert sum(found.values()) <= 1 + 1e-9
    assert all(share >= 0 for share in found.values())
