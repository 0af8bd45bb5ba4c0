"""The metric families of the accounting: counters of owners, and the health of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from exporter.accounting.model import AccountingStatus, CounterKey, CounterRow
from exporter.core.families import NODE, AnyFamily, Family, Sample, Unit, Values, counter, counters, gauge, gauges

OWNER_COUNTER_LABELS = (*("class" if name == "work_class" else name for name in CounterKey._fields), "store", "since")
"""Labels of the owners' counters. No scraper overwrites one of them."""


def _row_labels(status: AccountingStatus, row: CounterRow) -> Values:
    return (*row.key, status.store, str(row.since))


def _row_samples(value: Callable[[CounterRow], float]) -> Callable[[AccountingStatus], Iterable[Sample]]:
    return lambda status: [Sample(value(row), _row_labels(status, row)) for row in status.counters]


def _state_samples(status: AccountingStatus) -> Iterable[Sample]:
    for row in status.counters:
        for state, seconds in row.amount.states.items():
            yield Sample(seconds, (*_row_labels(status, row), state))


OWNER_COUNTER_FAMILIES: tuple[Family[AccountingStatus], ...] = (
    counters("gpu_owner_gpu_seconds_total", "GPU time allocated to all work of one owner on this node, by state. Empty owner labels: GPU time without an owner. It never resets: a new life has another `since`.", Unit.SECONDS, _state_samples, (*OWNER_COUNTER_LABELS, "state"), NODE),
    counters("gpu_owner_busy_gpu_seconds_total", "GPU time in which the owner's work ran kernels on this node.", Unit.SECONDS, _row_samples(lambda row: row.amount.used), OWNER_COUNTER_LABELS, NODE),
    counters("gpu_owner_energy_joules_total", "Energy of the owner's work on this node.", Unit.JOULES, _row_samples(lambda row: row.amount.joules), OWNER_COUNTER_LABELS, NODE),
    counters("gpu_owner_allocations_total", "Allocations that began on this node.", Unit.NONE, _row_samples(lambda row: row.allocations), OWNER_COUNTER_LABELS, NODE),
    gauges("gpu_owner_since_timestamp_seconds", "Unix time at which these counters were 0.", Unit.SECONDS, _row_samples(lambda row: row.since), OWNER_COUNTER_LABELS, NODE),
)  # fmt: skip
ACCOUNTING_FAMILIES: tuple[AnyFamily, ...] = (
    *OWNER_COUNTER_FAMILIES,
    gauge("gpu_exporter_accounting_persistent", "Whether the accounting was written to `--state.dir`; 0: a restart loses what was not collected.", Unit.NONE, lambda s: s.health.persistent, NODE),
    gauge("gpu_exporter_accounting_write_age_seconds", "Time since the accounting was last written; absent without `--state.dir`.", Unit.SECONDS, lambda s: s.health.age, NODE),
    gauge("gpu_exporter_accounting_unwritten_rows", "Rows of the accounting that wait for the disk.", Unit.NONE, lambda s: s.health.waiting, NODE),
    counter("gpu_exporter_accounting_dropped_rows_total", "Rows of the accounting that were dropped: too many waited for the disk.", Unit.NONE, lambda s: s.health.dropped, NODE),
    gauge("gpu_exporter_accounting_merged_owners", 'Owners counted as `owner="other"`: the node has more than 500 series of owners.', Unit.NONE, lambda s: s.merged_owners, NODE),
)  # fmt: skip
