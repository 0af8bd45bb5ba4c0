"""Families of the processes, once they have a name and an owner; and how many of them are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.attribution.owner import NOBODY, OWNER_LABELS, Owner
from exporter.core.clock import UnixTime
from exporter.core.families import NODE, Columns, Family, Sample, Unit, counters, gauges, in_columns
from exporter.core.units import Bytes

OTHER = "other"
"""The pid of the row that sums up the processes over the limit."""
_LABELS = ("gpu", "uuid", "pid", "command", *OWNER_LABELS)


@dataclass(slots=True)
class ProcessRow:
    """One process on one GPU; `uuid` is the whole GPU's, under MIG too. None is what is not known.

    Nothing of it changes but `_labels`, which every family asks for and which are made once.
    """

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
    _labels: tuple[str, ...] = field(default=(), init=False, compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        if not self._labels:
            self._labels = (self.gpu, self.uuid, self.pid, self.command, *self.owner.labels)
        return self._labels


ProcessRows = Sequence[ProcessRow]


def limit(rows: Iterable[ProcessRow], count: int) -> tuple[ProcessRow, ...]:
    """The `count` processes of each GPU that hold the most memory; the others become one row with pid `other`.

    A process on several MIG instances of one GPU is one row.
    """
    by_gpu: dict[str, dict[str, ProcessRow]] = {}
    for row in rows:
        gpu = by_gpu.setdefault(row.uuid, {})
        gpu[row.pid] = _merged(gpu[row.pid], row) if row.pid in gpu else row
    shown: list[ProcessRow] = []
    for gpu in by_gpu.values():
        ranked = sorted(gpu.values(), key=lambda row: (-(row.memory_bytes or 0), row.pid))
        kept, rest = ranked[:count], ranked[count:]
        shown += kept
        shown += [_sum(rest)] if rest else []
    return tuple(shown)


def _merged(row: ProcessRow, more: ProcessRow) -> ProcessRow:
    return replace(
        row,
        memory_bytes=_added(row.memory_bytes, more.memory_bytes),
        utilization=_engines(row.utilization, more.utilization),
    )


def _sum(rows: Sequence[ProcessRow]) -> ProcessRow:
    """CPU seconds are left out: over a set that changes they would be no counter."""
    total = replace(
        rows[0], pid=OTHER, command="", owner=NOBODY, cpu_seconds=None, start_time=None, resident_bytes=None
    )
    for row in rows[1:]:
        total = _merged(total, row)
    resident = [row.resident_bytes for row in rows if row.resident_bytes is not None]
    return replace(total, resident_bytes=Bytes(sum(resident)) if resident else None)


def _added(one: Bytes | None, other: Bytes | None) -> Bytes | None:
    return one if other is None else other if one is None else Bytes(one + other)


def _engines(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    engines = dict.fromkeys((*one, *other))
    return {engine: min(one.get(engine, 0.0) + other.get(engine, 0.0), 1.0) for engine in engines}


def _one(value: Callable[[ProcessRow], float | None]) -> Callable[[ProcessRows], Iterable[Sample]]:
    def samples(rows: ProcessRows) -> Columns:
        return in_columns([(number, row.labels) for row in rows if (number := value(row)) is not None])

    return samples


def _utilization(rows: ProcessRows) -> Columns:
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
    gauges("gpu_process_memory_bytes", "Device memory the process holds.", Unit.BYTES, _one(lambda r: r.memory_bytes), _LABELS, NODE),
    gauges("gpu_process_utilization_ratio", "Share of the last sampling period in which the process used the engine.", Unit.RATIO, _utilization, (*_LABELS, "engine"), NODE),
    counters("gpu_process_cpu_seconds_total", "CPU time the process has used.", Unit.SECONDS, _one(lambda r: r.cpu_seconds), _LABELS, NODE),
    gauges("gpu_process_resident_memory_bytes", "Host memory the process holds.", Unit.BYTES, _one(lambda r: r.resident_bytes), _LABELS, NODE),
    gauges("gpu_process_start_time_seconds", "When the process started, Unix time.", Unit.SECONDS, _one(lambda r: None if r.start_time is None else float(r.start_time)), _LABELS, NODE),
)  # fmt: skip
