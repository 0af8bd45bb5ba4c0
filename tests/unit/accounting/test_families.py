"""Samples of the owners' counters, and which of them the time after a restart reaches."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.accounting.families import ACCOUNTING_FAMILIES, OWNER_COUNTER_FAMILIES
from exporter.accounting.model import (
    AccountingStatus,
    Allocation,
    Amount,
    CounterKey,
    CounterRow,
    Cycle,
    HourKey,
    HourRow,
    Stored,
    WriterHealth,
)
from exporter.accounting.tracker import AllocationTracker
from exporter.attribution.owner import Owner, Ownership
from exporter.core.clock import Moment, MonotonicTime, UnixTime

T0 = 1_760_000_400.0  # a full hour
KEY = CounterKey("slurm", "", "vision", "ada", "high", "", "batch", "H100", "1g.10gb", "gpu")
ROW = CounterRow(KEY, 1_760_000_000, T0, 3, Amount({"computing": 7.5, "idle": 2.0}, used=6.0, joules=900.0))
STATUS = AccountingStatus("store-1", (ROW,), WriterHealth(persistent=True, age=4.0, waiting=5, dropped=6), 2)
LABELS = ("slurm", "", "vision", "ada", "high", "", "batch", "H100", "1g.10gb", "gpu", "store-1", "1760000000")
LABEL_NAMES = (
    "kind", "workload_namespace", "account", "user", "priority", "owner", "class", "model", "profile", "pool",
    "store", "since",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("gpu_owner_gpu_seconds_total", {(*LABELS, "computing"): 7.5, (*LABELS, "idle"): 2.0}),
        ("gpu_owner_busy_gpu_seconds_total", {LABELS: 6.0}),
        ("gpu_owner_energy_joules_total", {LABELS: 900.0}),
        ("gpu_owner_allocations_total", {LABELS: 3}),
        ("gpu_owner_since_timestamp_seconds", {LABELS: 1_760_000_000}),
        ("gpu_exporter_accounting_persistent", {(): 1.0}),
        ("gpu_exporter_accounting_write_age_seconds", {(): 4.0}),
        ("gpu_exporter_accounting_unwritten_rows", {(): 5}),
        ("gpu_exporter_accounting_dropped_rows_total", {(): 6}),
        ("gpu_exporter_accounting_merged_owners", {(): 2}),
    ],
)
def test_each_family_has_its_value_and_all_labels(name: str, samples: Mapping[tuple[str, ...], float]) -> None:
    family = next(each for each in ACCOUNTING_FAMILIES if each.name == name)

    assert {sample.labels: sample.value for sample in family.samples(STATUS)} == samples


def test_names_of_the_labels_are_in_the_order_of_their_values() -> None:
    states, *others = OWNER_COUNTER_FAMILIES

    assert states.labels == (*LABEL_NAMES, "state")
    assert {family.labels for family in others} == {LABEL_NAMES}


@pytest.mark.parametrize(("priority", "work_class"), [("high", "batch"), ("", "")])
def test_end_while_the_exporter_was_down_counts_with_the_stored_priority_class_and_profile(
    priority: str, work_class: str
) -> None:
    owner = Owner("slurm:1", "slurm", slurm_job="1", user="ada", account="vision", partition="gpu")
    details = {name: each for name, each in (("priority", priority), ("class", work_class)) if each}
    key = KEY._replace(priority=priority, work_class=work_class)
    stored = Allocation("a", owner, T0, gpus=0.5, devices=("GPU-0",), details=details)
    hour = HourKey("a", int(T0 // 3600), "H100", "1g.10gb")
    row = HourRow(hour, T0 + 30, Amount({"computing": 10.0, "idle": 5.0}, used=9.0, joules=90.0))
    tracker = AllocationTracker(Stored("store-1", T0, (stored,), (row,)))
    now = Moment(UnixTime(T0 + 100), MonotonicTime(1.0))

    batch = tracker.account_cycle(Cycle(now, 0.0, (), {}, Ownership(ended={owner.source_id: UnixTime(T0 + 50)})))

    assert batch is not None
    # half a GPU, from second 30, the end of the row, to second 50, the reported end
    assert {each.key: each.amount.states for each in batch.counters} == {key: {"unobserved": 10.0}}
    assert batch.hours[hour].amount == Amount({"computing": 10.0, "idle": 5.0, "unobserved": 10.0}, 9.0, 90.0)
    assert batch.allocations["a"].end == T0 + 50
