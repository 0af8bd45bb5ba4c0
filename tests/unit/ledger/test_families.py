"""The series the ledger feeds: names, labels, all states from the first cycle."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import NOBODY, OWNER_LABELS, Owner, Target
from exporter.core.families import Sample
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.families import FAMILIES
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import SPLITS, STATES, diagnosable_splits
from exporter.ledger.states.state import Signals

OWNER = Owner(workload="slurm:1", kind="slurm", slurm_job="1")
GPU = Target("GPU-a", 3, "0000:01:00.0")
MIG = Target("MIG-b", 4, "0000:02:00.0", None, "GPU-b", 7, 0, share=3 / 7)
FAMILY = {family.name: family for family in FAMILIES}


def ledger(seconds: float, *readings: Reading, start: float | None = None) -> Ledger:
    first = LedgerInput(time=100.0, seconds=0.0, readings=readings, host_signals_known=frozenset({"io_pressure"}))
    starts = {} if start is None else {OWNER: start}
    second = LedgerInput(time=100.0 + seconds, seconds=seconds, readings=readings, starts=starts)
    return advance_ledger(advance_ledger(Ledger(), first), second)


def allocated(target: Target, busy: float, **rest: float) -> Reading:
    return Reading(target, Signals(busy=busy, **rest), (Allocation(OWNER, 1.0, (1,)),), 50.0, "3g.40gb")


def samples(name: str, of: Ledger) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in FAMILY[name].collect(of)}


def test_gpu_rows_have_every_state_and_instances_have_rows_of_their_own() -> None:
    found = ledger(
        2.0, allocated(GPU, 0.5), allocated(MIG, 1.0), Reading(Target("GPU-b", 4, "0000:02:00.0"), Signals())
    )

    whole, inside = samples("gpu_state_seconds_total", found), samples("gpu_mig_state_seconds_total", found)

    assert set(whole) == {(gpu, uuid, state) for gpu, uuid in (("3", "GPU-a"), ("4", "GPU-b")) for state in STATES}
    assert set(inside) == {("4", "MIG-b", "GPU-b", "3g.40gb", "7", "0", state) for state in STATES}
    assert (whole["3", "GPU-a", "computing"], inside["4", "MIG-b", "GPU-b", "3g.40gb", "7", "0", "computing"]) == (
        1.0,
        2.0,
    )


def test_workload_rows() -> None:
    found = ledger(2.0, allocated(GPU, 0.0), start=100.5)

    assert samples("gpu_workload_gpu_seconds_total", found)[(*OWNER.labels, "wait_other")] == 2.0
    assert len(samples("gpu_workload_gpu_seconds_total", found)) == len(STATES)
    assert samples("gpu_workload_energy_joules_total", found) == {OWNER.labels: 100.0}
    assert samples("gpu_workload_idle_seconds", found) == {OWNER.labels: 2.0}
    assert samples("gpu_workload_start_time_seconds", found) == {OWNER.labels: 100.5}


def test_used_time_reconciles_with_the_busy_time() -> None:
    """Of ten owners one runs nearly always: held a tenth, used all of it, and what runs with no owner is nobody's."""
    holders = tuple(
        Allocation(Owner(workload=f"slurm:{number}", kind="slurm"), 0.1, (number,), 0.88 if number == 3 else 0.0)
        for number in range(10)
    )
    shared = Reading(GPU, Signals(busy=0.88), holders)
    found = ledger(100.0, shared, Reading(Target("GPU-c", 5, ""), Signals(busy=0.25)))
    first, second = LedgerInput(time=0.0, seconds=1.0, readings=(shared,)), ledger(1.0, shared)

    used = samples("gpu_workload_busy_gpu_seconds_total", advance_ledger(second, first))
    by_workload = {labels[2]: round(value, 6) for labels, value in used.items() if labels[0] == "3"}
    assert by_workload == {"": 0.0, **{f"slurm:{number}": 1.76 if number == 3 else 0.0 for number in range(10)}}
    rest = samples("gpu_workload_busy_gpu_seconds_total", ledger(2.0, Reading(GPU, Signals(busy=0.25))))
    assert rest == {("3", "GPU-a", *NOBODY.labels): 0.5}
    assert sum(samples("gpu_workload_busy_gpu_seconds_total", found).values()) == 0.0  # a gap: nothing was seen


def test_owner_of_one_gpu_and_nobody_hold_up_no_others() -> None:
    other = Reading(
        Target("GPU-c", 5, ""), Signals(busy=0.5), (Allocation(OWNER, 0.5, (2,)), Allocation(NOBODY, 0.5, (3,)))
    )
    of_nobody = Reading(GPU, Signals(busy=0.5), (Allocation(NOBODY, 1.0, (4,)),))

    assert samples("gpu_workload_straggler_seconds_total", ledger(2.0, allocated(GPU, 0.5))) == {}
    assert samples("gpu_workload_straggler_seconds_total", ledger(2.0, of_nobody, other)) == {}
    assert len(samples("gpu_workload_straggler_seconds_total", ledger(2.0, allocated(GPU, 0.5), other))) == 2


def test_what_runs_on_an_instance_is_not_that_of_its_gpu_again() -> None:
    whole = Reading(Target("GPU-b", 4, "0000:02:00.0"), Signals(busy=0.5))
    found = ledger(2.0, Reading(MIG, Signals(busy=0.5)), whole)

    used = samples("gpu_workload_busy_gpu_seconds_total", found)
    assert used == {("4", "GPU-b", *NOBODY.labels): pytest.approx(2.0 * 0.5 * 3 / 7)}


def test_what_is_not_known_is_absent() -> None:
    found = ledger(2.0, allocated(GPU, 0.0))

    assert samples("gpu_workload_time_to_first_kernel_seconds", found) == {}
    assert samples("gpu_workload_start_time_seconds", found) == {}


def test_first_kernel_is_told_once_it_ran() -> None:
    assert samples("gpu_workload_time_to_first_kernel_seconds", ledger(2.0, allocated(GPU, 1.0), start=100.5)) == {
        OWNER.labels: 1.5
    }


def test_diagnosable_splits_follow_the_signals_of_gpu_and_host() -> None:
    found = samples(
        "gpu_exporter_state_detectable",
        ledger(1.0, allocated(GPU, 0.5, throttled_thermal=0.0, sm_clock=1e9, sm_active=0.1)),
    )

    told = {state for (_, _, state), value in found.items() if value}
    assert {state for _, _, state in found} == {state.name for state in SPLITS}
    by_holder = {"allocated_unused", "wait_peer", "wait_requests", "wait_user"}
    assert told == {"wait_storage", "throttled_thermal", "low_sm_activity", *by_holder}


def test_gpu_with_instances_tells_what_they_tell() -> None:
    parent = Reading(Target("GPU-b", 4, "0000:02:00.0"), Signals())
    found = samples(
        "gpu_exporter_state_detectable", ledger(1.0, parent, allocated(MIG, 0.5, dram_active=0.1, tensor_active=0.1))
    )

    assert found["4", "GPU-b", "memory_bound"] == 1.0


def test_gpu_that_never_answered_tells_nothing() -> None:
    assert samples("gpu_exporter_state_detectable", ledger(1.0, Reading(GPU))) == {}


def test_nothing_is_told_where_busy_is_not() -> None:
    assert not any(diagnosable_splits(Signals(sm_active=0.5), ("io_pressure",)).values())


def test_empty_ledger_has_no_samples() -> None:
    assert [sample for family in FAMILIES for sample in family.collect(Ledger())] == list[Sample]()


def test_owner_families_carry_every_owner_label() -> None:
    owners = [family for family in FAMILIES if family.name.startswith("gpu_workload_")]

    assert all(set(OWNER_LABELS) <= set(family.all_labels) for family in owners)
