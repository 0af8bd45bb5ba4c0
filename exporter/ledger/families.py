"""The metric families the ledger feeds; each takes the whole ledger, so their labels are all their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from exporter.attribution.owner import NOBODY, OWNER_LABELS
from exporter.core.families import (
    DEVICE,
    INSTANCE,
    NODE,
    Columns,
    Family,
    Sample,
    Shown,
    Unit,
    Values,
    counters,
    experimental,
    gauges,
    in_columns,
)
from exporter.ledger.account import Ledger, OwnerEntry, TargetEntry
from exporter.ledger.states import STATES, diagnosable_splits


def _gpu_labels(entry: TargetEntry) -> tuple[str, ...]:
    return (str(entry.target.index), entry.target.uuid)


def _instance_labels(entry: TargetEntry) -> tuple[str, ...]:
    target = entry.target
    ids = ("" if each is None else str(each) for each in (target.gpu_instance, target.compute_instance))
    return (*_gpu_labels(entry), target.parent_uuid, entry.profile, *ids)


def _time_by_state(labels: Callable[[TargetEntry], Values], *, mig: bool) -> Callable[[Ledger], Iterable[Sample]]:
    def samples(ledger: Ledger) -> Columns:
        entries = [entry for entry in ledger.targets.values() if bool(entry.target.parent_uuid) is mig]
        return _by_state(tuple([labels(entry) for entry in entries]), [entry.seconds for entry in entries])

    return samples


def _gpu_seconds(ledger: Ledger) -> Columns:
    owners = tuple([owner.labels for owner in ledger.owners])
    return _by_state(owners, [entry.seconds for entry in ledger.owners.values()])


def _by_state(whose: tuple[Values, ...], seconds: Iterable[Sequence[float]]) -> Columns:
    """Seconds of each, in the order of the states."""
    return Columns(_with_each(STATES, whose), tuple([each for found in seconds for each in found]))


@lru_cache(maxsize=4)  # of the families that have a series for each state
def _with_each(states: tuple[str, ...], whose: tuple[Values, ...]) -> tuple[Values, ...]:
    """The labels of each with every state: hundreds, and the same ones from page to page."""
    return tuple([(*own, state) for own in whose for state in states])


def _used_samples(ledger: Ledger) -> Iterable[Sample]:
    """Yield the used time by GPU, its instances' included; what nobody known ran has empty owner labels."""
    gpus = {uuid: entry for uuid, entry in ledger.targets.items() if not entry.target.parent_uuid}
    for entry in gpus.values():
        yield Sample(entry.unowned_seconds, (*_gpu_labels(entry), *NOBODY.labels))
    for owner, row in ledger.owners.items():
        for uuid, seconds in row.used.items():
            if uuid in gpus and owner != NOBODY:
                yield Sample(seconds, (*_gpu_labels(gpus[uuid]), *owner.labels))


def _straggling_samples(ledger: Ledger) -> Iterable[Sample]:
    for owner, entry in ledger.owners.items():
        for uuid, past in entry.past.items() if len(entry.past) > 1 and owner != NOBODY else ():
            known = ledger.targets.get(uuid)
            if known is not None:
                yield Sample(past.straggling_seconds, (*_gpu_labels(known), *owner.labels))


def _power_cap(ledger: Ledger) -> Iterable[Sample]:
    for entry in ledger.targets.values():
        if entry.power_cap_seconds is not None and not entry.target.parent_uuid:
            yield Sample(entry.power_cap_seconds, _gpu_labels(entry))


def _owner_samples(value: Callable[[OwnerEntry], float | None]) -> Callable[[Ledger], Iterable[Sample]]:
    def samples(ledger: Ledger) -> Columns:
        numbers = [(value(entry), owner) for owner, entry in ledger.owners.items()]
        return in_columns([(number, owner.labels) for number, owner in numbers if number is not None])

    return samples


def _diagnosable_samples(ledger: Ledger) -> Columns:
    inside = {entry.target.parent_uuid: entry.signals for entry in ledger.targets.values() if entry.signals}
    found: list[tuple[Values, Mapping[str, bool]]] = []
    for entry in ledger.targets.values():
        signals = inside.get(entry.target.uuid, entry.signals)
        if signals is not None and not entry.target.parent_uuid:
            found.append((_gpu_labels(entry), diagnosable_splits(signals, ledger.host_signals_known)))
    states = tuple(found[0][1]) if found else ()
    possible = [float(each) for _, splits in found for each in splits.values()]
    return Columns(_with_each(states, tuple([own for own, _ in found])), tuple(possible))


FAMILIES: tuple[Family[Ledger], ...] = (
    counters("gpu_state_seconds_total", "Time of the GPU by state; the states sum to wall time.", Unit.SECONDS, _time_by_state(_gpu_labels, mig=False), (*DEVICE, "state"), NODE),
    counters("gpu_mig_state_seconds_total", "Time of the MIG instance by state; the states sum to wall time.", Unit.SECONDS, _time_by_state(_instance_labels, mig=True), (*INSTANCE, "state"), NODE),
    counters("gpu_workload_gpu_seconds_total", "GPU time allocated to the workload on this node by state; the states sum to its allocated GPUs times wall time.", Unit.SECONDS, _gpu_seconds, (*OWNER_LABELS, "state"), NODE),
    counters("gpu_workload_busy_gpu_seconds_total", "GPU time the workload ran kernels on this GPU, whatever fraction of it is allocated to the workload; the sum over all workloads, the empty labels of no owner included, is the time the GPU was busy.", Unit.SECONDS, _used_samples, (*DEVICE, *OWNER_LABELS), NODE),
    experimental(counters("gpu_workload_straggler_seconds_total", "Time in which most other GPUs of the workload on this node waited, in a collective or idle, and this one did not: they waited for it.", Unit.SECONDS, _straggling_samples, (*DEVICE, *OWNER_LABELS), NODE)),
    counters("gpu_power_cap_slowdown_seconds_total", "Busy time that the power limit took: what the SM clock lacks while that alone lowers it, times how long. Full load reaches the limit, so this is in no lost state.", Unit.SECONDS, _power_cap, DEVICE, NODE),
    counters("gpu_workload_energy_joules_total", "Energy of the workload's GPUs on this node, its part of each.", Unit.JOULES, _owner_samples(lambda entry: entry.joules), OWNER_LABELS, NODE),
    gauges("gpu_workload_idle_seconds", "Time since any of the workload's GPUs on this node last did something for it.", Unit.SECONDS, _owner_samples(lambda entry: entry.idle_seconds), OWNER_LABELS, NODE),
    gauges("gpu_workload_time_to_first_kernel_seconds", "Time from the workload's start to its first kernel; absent where the exporter began after it.", Unit.SECONDS, _owner_samples(lambda entry: entry.first_kernel_seconds), OWNER_LABELS, NODE),
    gauges("gpu_workload_start_time_seconds", "Unix time the workload started: its allocation, else its oldest GPU process.", Unit.SECONDS, _owner_samples(lambda entry: None if entry.start_time is None else float(entry.start_time)), OWNER_LABELS, NODE),
    gauges("gpu_exporter_state_detectable", "Whether this GPU and host can detect the state (1), or fold it into busy or wait_other (0).", Unit.NONE, _diagnosable_samples, (*DEVICE, "state"), NODE, shown=Shown.ZERO),
)  # fmt: skip
