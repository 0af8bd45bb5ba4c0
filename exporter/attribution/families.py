"""Metric families of workloads: their info, host usage and allocations. Families of processes, and their limit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from exporter.attribution.owner import NOBODY, OWNER_LABELS, Owner, Target, WorkloadInfo
from exporter.attribution.work_class import UNKNOWN, WorkClass
from exporter.core.clock import UnixTime
from exporter.core.families import (
    DEVICE,
    INSTANCE,
    NODE,
    Columns,
    Family,
    Sample,
    Unit,
    counters,
    gauges,
    in_columns,
    info,
)
from exporter.core.record import record
from exporter.core.units import Bytes, Fraction
from exporter.host.model import HostUsage


@record
class WorkloadRow:
    """One workload in one sampling cycle. `memory_bytes` is GPU memory of its processes. None: not known."""

    owner: Owner
    info: WorkloadInfo
    usage: HostUsage
    memory_bytes: Bytes | None
    gpus: float
    processes: int | None
    work: WorkClass = UNKNOWN

    def ended(self) -> WorkloadRow:
        """Return the row after the workload has ended: totals stay, allocations are 0, levels are unknown."""
        usage = replace(self.usage, cpu_limit_cores=None, resident_bytes=None, memory_limit_bytes=None)
        return replace(self, usage=usage, memory_bytes=Bytes(0), gpus=0.0, processes=0)


@record
class OwnerRow:
    """One owner's part (0 to 1) of one target. `profile` is the MIG instance's, empty for a GPU."""

    target: Target
    profile: str
    owner: Owner
    share: Fraction
    unallocated: bool = False
    """True if the owner runs on it without an allocation."""


Rows = Sequence[WorkloadRow]
OwnerRows = Sequence[OwnerRow]

INFO_LABELS = (
    "slurm_array_job",
    "slurm_array_task",
    "slurm_het_job",
    "slurm_het_offset",
    "slurm_step",
    "job_name",
    "qos",
    "time_limit_seconds",
    "pod_uid",
    "image",
    "trust",
    "owner_kind",
    "owner_name",
    "part_of",
    "inferred",
    "class",
    "class_source",
)


def workload_families(pod_labels: Sequence[str] = ()) -> tuple[Family[Rows], ...]:
    """Return the `gpu_workload_*` families; `pod_labels` are the allow-listed labels, columns of gpu_workload_info."""
    return (_info_family(pod_labels), *_FAMILIES)


def label_names(pod_labels: Sequence[str]) -> dict[str, str]:
    """Return metric labels by pod label: `app.kubernetes.io/name` is `label_app_kubernetes_io_name`; clashes are numbered."""
    names: dict[str, str] = {}
    for label in dict.fromkeys(pod_labels):
        name = "label_" + re.sub(r"[^a-z0-9_]", "_", label.lower())
        taken = set(names.values())
        numbered = (name, *(f"{name}_{number}" for number in range(2, len(taken) + 2)))
        names[label] = next(each for each in numbered if each not in taken)
    return names


def _info_family(pod_labels: Sequence[str]) -> Family[Rows]:
    columns = label_names(pod_labels)

    def samples(rows: Rows) -> Iterable[Sample]:
        for row in _newest_rows(rows):
            if row.owner != NOBODY:
                own = dict(row.info.pod_labels)
                limit = row.info.time_limit_seconds
                values = {
                    "time_limit_seconds": "" if limit is None else f"{limit:g}" if limit < 1e6 else f"{limit:.0f}",  # noqa: PLR2004 - no exponents
                    "inferred": "false" if row.info.trust == "exact" else "true",
                    "class": row.work.name,
                    "class_source": row.work.source,
                }
                shown = (values[name] if name in values else getattr(row.info, name) for name in INFO_LABELS)
                yield Sample(1, (*row.owner.labels, *shown, *(own.get(label, "") for label in columns)))

    return info(
        "gpu_workload_info",
        "What a workload is, beside the labels that all its series carry.",
        samples,
        (*OWNER_LABELS, *INFO_LABELS, *columns.values()),
        NODE,
    )


def _newest_rows(rows: Rows) -> Iterable[WorkloadRow]:
    """Return one row of each workload: once a source has reported more of it, the row with fewer labels has ended."""
    found: dict[tuple[str, str, str], WorkloadRow] = {}
    for row in rows:
        key = (row.owner.workload, row.owner.pod, row.owner.container)
        if key not in found or row.gpus or row.processes or not (found[key].gpus or found[key].processes):
            found[key] = row
    return found.values()


def _workload_samples(value: Callable[[WorkloadRow], float | None]) -> Callable[[Rows], Iterable[Sample]]:
    def samples(rows: Rows) -> Columns:
        numbers = [(value(row), row.owner) for row in rows]
        return in_columns(
            [(number, owner.labels) for number, owner in numbers if number is not None and owner != NOBODY]
        )

    return samples


def _labelled_samples(
    values: Callable[[WorkloadRow], Iterable[tuple[str, float]]],
) -> Callable[[Rows], Iterable[Sample]]:
    """Return one sample for each label value of a workload."""

    def samples(rows: Rows) -> Iterable[Sample]:
        for row in rows:
            if row.owner != NOBODY:
                for label, value in values(row):
                    yield Sample(value, (*row.owner.labels, label))

    return samples


_FAMILIES: tuple[Family[Rows], ...] = (
    gauges("gpu_workload_memory_bytes", "GPU memory of the workload's processes.", Unit.BYTES, _workload_samples(lambda row: row.memory_bytes), OWNER_LABELS, NODE),
    gauges("gpu_workload_allocated_gpus", "GPUs allocated to the workload, as the sum of its fractions.", Unit.NONE, _workload_samples(lambda row: row.gpus), OWNER_LABELS, NODE),
    gauges("gpu_workload_restarts", "How often its scheduler has started it again: restarts of the container, requeues of the job.", Unit.NONE, _workload_samples(lambda row: row.info.restarts), OWNER_LABELS, NODE),
    gauges("gpu_workload_processes", "Processes of the workload on GPUs.", Unit.NONE, _workload_samples(lambda row: row.processes), OWNER_LABELS, NODE),
    counters("gpu_workload_cpu_seconds_total", "CPU time of the workload on this node.", Unit.SECONDS, _workload_samples(lambda row: row.usage.cpu_seconds), OWNER_LABELS, NODE),
    gauges("gpu_workload_cpu_limit_cores", "Cores the workload may use at most.", Unit.CORES, _workload_samples(lambda row: row.usage.cpu_limit_cores), OWNER_LABELS, NODE),
    gauges("gpu_workload_resident_memory_bytes", "Host memory of the workload, without reclaimable page cache.", Unit.BYTES, _workload_samples(lambda row: row.usage.resident_bytes), OWNER_LABELS, NODE),
    gauges("gpu_workload_memory_limit_bytes", "Host memory the workload may use at most.", Unit.BYTES, _workload_samples(lambda row: row.usage.memory_limit_bytes), OWNER_LABELS, NODE),
    counters("gpu_workload_read_bytes_total", "Bytes the workload read from block devices of this node.", Unit.BYTES, _workload_samples(lambda row: row.usage.read_bytes), OWNER_LABELS, NODE),
    counters("gpu_workload_written_bytes_total", "Bytes the workload wrote to block devices of this node.", Unit.BYTES, _workload_samples(lambda row: row.usage.written_bytes), OWNER_LABELS, NODE),
    counters("gpu_workload_network_bytes_total", "Bytes over the workload's own network namespace; absent in the host's namespace.", Unit.BYTES, _labelled_samples(lambda row: row.usage.network_bytes.items()), (*OWNER_LABELS, "direction"), NODE),
    gauges("gpu_workload_listen_port", "A TCP port the workload listens on for clients, 8 at most; always 1.", Unit.NONE, _labelled_samples(lambda row: ((str(port), 1) for port in row.usage.ports)), (*OWNER_LABELS, "port"), NODE),
    counters("gpu_workload_pressure_seconds_total", "Time some task of the workload was stalled for the resource.", Unit.SECONDS, _labelled_samples(lambda row: row.usage.pressure_seconds.items()), (*OWNER_LABELS, "resource"), NODE),
)  # fmt: skip


def _gpu_fractions(rows: OwnerRows) -> Iterable[Sample]:
    """Return fractions of whole GPUs: owners of MIG instances have the instances' fractions."""
    found: dict[tuple[str, str, Owner], float] = defaultdict(float)
    parents = {row.target.parent_uuid for row in rows} - {""}
    for row in rows:
        target = row.target
        if target.uuid not in parents and row.owner != NOBODY:
            found[str(target.index), target.parent_uuid or target.uuid, row.owner] += row.share * target.share
    return (Sample(fraction, (gpu, uuid, *owner.labels)) for (gpu, uuid, owner), fraction in found.items())


def _unallocated_gpus(rows: OwnerRows) -> Iterable[Sample]:
    """Return the GPUs that are used, themselves or in an instance, by owners that they are not allocated to."""
    found = {
        (str(row.target.index), row.target.parent_uuid or row.target.uuid, row.owner): None
        for row in rows
        if row.unallocated and row.owner != NOBODY
    }
    return (Sample(1, (gpu, uuid, *owner.labels)) for gpu, uuid, owner in found)


def _instance_fractions(rows: OwnerRows) -> Iterable[Sample]:
    for row in rows:
        target = row.target
        if target.parent_uuid and row.owner != NOBODY:
            ids = ("" if each is None else str(each) for each in (target.gpu_instance, target.compute_instance))
            place = (str(target.index), target.uuid, target.parent_uuid, row.profile, *ids)
            yield Sample(row.share, (*place, *row.owner.labels))


OWNER_FAMILIES: tuple[Family[OwnerRows], ...] = (
    gauges("gpu_allocation_ratio", "Fraction of the GPU allocated to the owner, from 0 to 1; 0 for an owner that runs on a GPU of others.", Unit.NONE, _gpu_fractions, (*DEVICE, *OWNER_LABELS), NODE),
    gauges("gpu_mig_allocation_ratio", "Fraction of the MIG instance allocated to the owner, from 0 to 1.", Unit.NONE, _instance_fractions, (*INSTANCE, *OWNER_LABELS), NODE),
    gauges("gpu_unallocated_use", "The owner runs on a scheduler's GPU, and every source reports that it was not allocated to it; always 1.", Unit.NONE, _unallocated_gpus, (*DEVICE, *OWNER_LABELS), NODE),
)  # fmt: skip

"""Families of workloads without allow-listed pod labels."""


OTHER = "other"
"""The pid of the row that sums up the processes over the limit."""
_LABELS = ("gpu", "uuid", "pid", "command", *OWNER_LABELS)


@record
class ProcessRow:
    """One process on one GPU; `uuid` is the whole GPU's, under MIG too. None is an unknown value."""

    gpu: str
    uuid: str
    pid: str
    command: str
    owner: Owner
    memory_bytes: Bytes | None
    utilization: Mapping[str, float]
    cpu_seconds: float | None
    resident_bytes: Bytes | None
    start_time: UnixTime | None

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.gpu, self.uuid, self.pid, self.command, *self.owner.labels)


ProcessRows = Sequence[ProcessRow]


def limit(rows: Iterable[ProcessRow], count: int) -> tuple[ProcessRow, ...]:
    """Return the `count` processes with the most memory of each GPU; the others become one row with pid `other`.

    A process on several MIG instances of one GPU is one row.
    """
    by_gpu: dict[str, dict[str, ProcessRow]] = {}
    for row in rows:
        gpu = by_gpu.setdefault(row.uuid, {})
        gpu[row.pid] = _merge_rows(gpu[row.pid], row) if row.pid in gpu else row
    shown: list[ProcessRow] = []
    for gpu in by_gpu.values():
        ranked = sorted(gpu.values(), key=lambda row: (-(row.memory_bytes or 0), row.pid))
        kept, rest = ranked[:count], ranked[count:]
        shown += kept
        shown += [_sum_rows(rest)] if rest else []
    return tuple(shown)


def _merge_rows(row: ProcessRow, more: ProcessRow) -> ProcessRow:
    known = [each for each in (row.memory_bytes, more.memory_bytes) if each is not None]
    return replace(
        row,
        memory_bytes=Bytes(sum(known)) if known else None,
        utilization={
            engine: min(row.utilization.get(engine, 0.0) + more.utilization.get(engine, 0.0), 1.0)
            for engine in dict.fromkeys((*row.utilization, *more.utilization))
        },
    )


def _sum_rows(rows: Sequence[ProcessRow]) -> ProcessRow:
    """Return the sum of some processes, without CPU seconds: over a set that changes they would be no counter."""
    total = replace(
        rows[0], pid=OTHER, command="", owner=NOBODY, cpu_seconds=None, start_time=None, resident_bytes=None
    )
    for row in rows[1:]:
        total = _merge_rows(total, row)
    resident = [row.resident_bytes for row in rows if row.resident_bytes is not None]
    return replace(total, resident_bytes=Bytes(sum(resident)) if resident else None)


def _process_samples(value: Callable[[ProcessRow], float | None]) -> Callable[[ProcessRows], Iterable[Sample]]:
    def samples(rows: ProcessRows) -> Columns:
        return in_columns([(number, row.labels) for row in rows if (number := value(row)) is not None])

    return samples


def _engine_utilization(rows: ProcessRows) -> Columns:
    """Return the use of the SMs, and of each other engine that is in use."""
    return in_columns(
        [
            (ratio, (*row.labels, engine))
            for row in rows
            for engine, ratio in row.utilization.items()
            if ratio or engine == "sm"
        ]
    )


PROCESS_FAMILIES: tuple[Family[ProcessRows], ...] = (
    gauges("gpu_process_memory_bytes", "Device memory allocated by the process.", Unit.BYTES, _process_samples(lambda r: r.memory_bytes), _LABELS, NODE),
    gauges("gpu_process_utilization_ratio", "Fraction of the driver's last sampling period in which the process used the engine.", Unit.RATIO, _engine_utilization, (*_LABELS, "engine"), NODE),
    counters("gpu_process_cpu_seconds_total", "CPU time the process has used.", Unit.SECONDS, _process_samples(lambda r: r.cpu_seconds), _LABELS, NODE),
    gauges("gpu_process_resident_memory_bytes", "Resident host memory of the process.", Unit.BYTES, _process_samples(lambda r: r.resident_bytes), _LABELS, NODE),
    gauges("gpu_process_start_time_seconds", "When the process started, Unix time.", Unit.SECONDS, _process_samples(lambda r: None if r.start_time is None else float(r.start_time)), _LABELS, NODE),
)  # fmt: skip
