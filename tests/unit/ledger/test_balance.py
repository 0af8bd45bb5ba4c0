"""The ledger balances, whatever it is told: any readings, owners, gaps, instances, in any order."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import Owner, Target
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Counted, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger, drop_stale
from exporter.ledger.states import OF_BUSY_TIME
from exporter.ledger.states.state import Signals
from tests.depth import examples

OWNERS = tuple(Owner(workload=f"slurm:{number}", kind="slurm", slurm_job=str(number)) for number in range(4))
GPUS = (Target("GPU-0", 0, "0000:01:00.0"), Target("GPU-1", 1, "0000:02:00.0"), Target("GPU-2", 2, "0000:03:00.0"))
INSTANCES = (
    Target("MIG-0", 2, "0000:03:00.0", parent_uuid="GPU-2", gpu_instance=1, compute_instance=0, share=3 / 7),
    Target("MIG-1", 2, "0000:03:00.0", parent_uuid="GPU-2", gpu_instance=2, compute_instance=0, share=2 / 7),
)
NEAR = 1e-9

ratio = st.one_of(st.sampled_from((0.0, 1.0)), st.floats(0, 1))
maybe = st.one_of(st.none(), ratio)
signals = st.one_of(
    st.none(),
    st.builds(
        Signals,
        busy=maybe,
        sm_active=maybe,
        tensor_active=maybe,
        dram_active=maybe,
        vector_active=maybe,
        memory_activity=maybe,
        link_activity=maybe,
        power_of_limit=maybe,
        throttled_thermal=maybe,
        throttled_power_brake=maybe,
        throttled_power_cap=maybe,
        sm_clock=st.one_of(st.none(), st.floats(0, 3e9)),
        sm_clock_throttled=st.one_of(st.none(), st.floats(0, 3e9)),
        sm_clock_capped=st.one_of(st.none(), st.floats(0, 3e9)),
        sm_clock_max=st.one_of(st.none(), st.floats(0, 3e9)),
    ),
)
rate = st.one_of(st.none(), st.floats(0, 1e10))
process = st.builds(
    ProcessSignals,
    hottest_thread=maybe,
    blocked=maybe,
    receiving=maybe,
    polling=st.one_of(st.none(), st.booleans()),
    read_bytes_per_second=rate,
    written_bytes_per_second=rate,
)
host = st.builds(
    HostSignals,
    cpu_pressure=maybe,
    io_pressure=maybe,
    io_full_pressure=maybe,
    written_bytes_per_second=rate,
    network_bytes_per_second=rate,
    cpu_of_limit=maybe,
    hottest_thread=maybe,
    blocked_threads=maybe,
    processes=st.dictionaries(st.integers(1, 6), process, max_size=3),
)


@st.composite
def allocated(draw: st.DrawFn) -> tuple[Allocation, ...]:
    """Up to four owners whose shares sum to 1 at most."""
    owners = draw(st.lists(st.sampled_from(OWNERS), unique=True, max_size=4))
    weights = [draw(st.floats(0.01, 1)) for _ in owners]
    total = sum(weights) * draw(st.sampled_from((1.0, 1.0, 2.0)))
    return tuple(
        Allocation(
            owner,
            weight / total,
            tuple(draw(st.lists(st.integers(1, 6), max_size=2))),
            draw(maybe),
        )
        for owner, weight in zip(owners, weights, strict=True)
    )


@st.composite
def cycles(draw: st.DrawFn) -> LedgerInput:
    split = draw(st.booleans())
    targets = (*GPUS, *INSTANCES) if split else GPUS
    return LedgerInput(
        time=draw(st.floats(0, 2e9)),
        seconds=draw(st.one_of(st.floats(0.5, 1.5), st.floats(0, 100), st.floats(-5, 0))),
        readings=tuple(
            Reading(
                target,
                draw(signals),
                () if split and target.uuid == "GPU-2" else draw(allocated()),
                0.0 if target.parent_uuid else draw(st.floats(0, 700)),
            )
            for target in targets
        ),
        hosts={owner: draw(host) for owner in draw(st.sets(st.sampled_from(OWNERS)))},
        work=draw(st.dictionaries(st.sampled_from(OWNERS), st.sampled_from(("batch", "service", "interactive")))),
        spread=frozenset(draw(st.sets(st.sampled_from(OWNERS)))),
        starts=draw(st.dictionaries(st.sampled_from(OWNERS), st.floats(0, 2e9))),
    )


def run(steps: list[LedgerInput]) -> list[Ledger]:
    ledgers = [Ledger()]
    for step in steps:
        ledgers.append(advance_ledger(ledgers[-1], step))
    return ledgers


@given(st.lists(cycles(), min_size=1, max_size=4))
@examples(25)
def test_ledger_balances(steps: list[LedgerInput]) -> None:
    """One run of cycles for all the laws: drawing them is what takes the time."""
    ledgers = run(steps)

    targets_sum_to_the_time_they_were_there(ledgers[-1], steps)
    owners_sum_to_their_shares_times_time(ledgers[-1], steps)
    owners_get_no_more_energy_than_was_drawn(ledgers[-1], steps)
    what_is_used_sums_to_the_busy_time(ledgers[-1], steps)
    for step, (before, after) in zip(steps, pairwise(ledgers), strict=True):
        no_total_decreases(before, after)
        usage_of_a_gpu_is_the_whole_cycle(after, step)


def usage_of_a_gpu_is_the_whole_cycle(ledger: Ledger, step: LedgerInput) -> None:
    """What owners were allocated, and what was left."""
    for gpu in GPUS:
        parts = [part for row in ledger.usage if row.gpu == gpu.uuid for _, part in row.states]
        assert math.isclose(sum(parts), 1.0, rel_tol=1e-6)
    drawn = sum(each.joules for each in step.readings)
    assert math.isclose(sum(row.joules for row in ledger.usage), drawn, rel_tol=1e-6, abs_tol=1e-6)


def targets_sum_to_the_time_they_were_there(last: Ledger, steps: list[LedgerInput]) -> None:
    for uuid, entry in last.targets.items():
        there = sum(max(0.0, step.seconds) for step in steps if any(each.target.uuid == uuid for each in step.readings))
        assert math.isclose(sum(entry.seconds), there, rel_tol=NEAR, abs_tol=NEAR), uuid


def owners_sum_to_their_shares_times_time(last: Ledger, steps: list[LedgerInput]) -> None:
    for owner, entry in last.owners.items():
        held_time = sum(
            max(0.0, step.seconds) * each.target.share * allocation.share
            for step in steps
            for each in step.readings
            for allocation in each.allocations
            if allocation.owner == owner
        )
        assert math.isclose(sum(entry.seconds), held_time, rel_tol=NEAR, abs_tol=NEAR), owner


def owners_get_no_more_energy_than_was_drawn(last: Ledger, steps: list[LedgerInput]) -> None:
    drawn = sum(each.joules for step in steps for each in step.readings)
    assert sum(entry.joules for entry in last.owners.values()) <= drawn * (1 + NEAR) + NEAR


def what_is_used_sums_to_the_busy_time(last: Ledger, steps: list[LedgerInput]) -> None:
    """Whatever the shares, and with what nobody is known to have run."""
    used = sum(seconds for entry in last.owners.values() for seconds in entry.used.values())
    unowned = sum(entry.unowned_seconds for entry in last.targets.values())
    busy = sum(
        max(0.0, step.seconds) * each.target.share * (each.signals.busy or 0.0)
        for step in steps
        if step.seconds <= 3 * step.interval
        for each in step.readings
        if each.signals and not any(other.target.parent_uuid == each.target.uuid for other in step.readings)
    )
    assert used + unowned == pytest.approx(busy, rel=NEAR, abs=NEAR)


def no_total_decreases(before: Ledger, after: Ledger) -> None:
    for uuid, entry in before.targets.items():
        assert all(new >= old for old, new in zip(entry.seconds, after.targets[uuid].seconds, strict=True))
    for owner, entry in before.owners.items():
        assert all(new >= old for old, new in zip(entry.seconds, after.owners[owner].seconds, strict=True))
        assert after.owners[owner].joules >= entry.joules


@given(cycles(), ratio, ratio)
@examples(15)
def test_gap_that_the_driver_counted_in_part_balances(step: LedgerInput, covered: float, load: float) -> None:
    counted = Counted(10.0 * covered * load, 10.0 * covered)
    gap = replace(step, seconds=10.0, readings=tuple(replace(each, counted=counted) for each in step.readings))
    steps = [step, gap]
    last = run(steps)[-1]

    targets_sum_to_the_time_they_were_there(last, steps)
    owners_sum_to_their_shares_times_time(last, steps)
    usage_of_a_gpu_is_the_whole_cycle(last, gap)


@given(cycles())
@examples(20)
def test_busy_time_of_a_target_is_what_the_driver_says(step: LedgerInput) -> None:
    busy_states = [state for state, _ in OF_BUSY_TIME]
    entries = advance_ledger(Ledger(), step).targets

    for reading in step.readings:
        is_parent = any(each.target.parent_uuid == reading.target.uuid for each in step.readings)
        gap = step.seconds > 3
        if reading.signals and reading.signals.busy is not None and not is_parent and not gap:
            booked = sum(entries[reading.target.uuid].seconds[index] for index in busy_states)
            assert booked == pytest.approx(reading.signals.busy * max(0.0, step.seconds), abs=NEAR)


@given(st.lists(cycles(), min_size=1, max_size=3), st.floats(0, 50))
@examples(8)
def test_pruning_keeps_what_was_seen_lately_and_nothing_else(steps: list[LedgerInput], retention: float) -> None:
    last = run(steps)[-1]

    kept = drop_stale(last, retention)

    assert all(last.clock - entry.seen <= retention + NEAR for entry in kept.owners.values())
    assert all(
        last.clock - entry.seen >= retention - NEAR for owner, entry in last.owners.items() if owner not in kept.owners
    )
    for owner, entry in kept.owners.items():
        assert entry == replace(last.owners[owner], past=entry.past, used=entry.used)
        assert entry.past == {uuid: each for uuid, each in last.owners[owner].past.items() if uuid in kept.targets}
        assert entry.used == {uuid: each for uuid, each in last.owners[owner].used.items() if uuid in kept.targets}
