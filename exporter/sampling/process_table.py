"""The processes of one pass as rows, made when somebody looks: a scrape or the status page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from exporter.attribution.process_families import ProcessRow, limit
from exporter.collectors.memory import Memory
from exporter.sampling.gpus import Gpu
from exporter.sampling.join import Join
from exporter.sampling.readings import processes_are_listed, reading


class ProcessTable(Sequence[ProcessRow]):
    """At most `limit` rows for each GPU, and one more for the rest."""

    def __init__(self, gpus: Sequence[Gpu], join: Join, limit: int) -> None:
        self._gpus = gpus
        self._join = join
        self._limit = limit
        self._shown: tuple[ProcessRow, ...] | None = None

    @property
    def folded(self) -> int:
        """How many rows fewer there are than processes on GPUs."""
        rows = sum(map(len, self._join.running.values()))
        return max(rows - len(self), 0)

    @overload
    def __getitem__(self, index: int) -> ProcessRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ProcessRow, ...]: ...
    def __getitem__(self, index: int | slice) -> ProcessRow | tuple[ProcessRow, ...]:
        return self._made()[index]

    def __iter__(self) -> Iterator[ProcessRow]:
        return iter(self._made())

    def __len__(self) -> int:
        return sum(map(self._length, self._join.running))

    def _length(self, uuid: str) -> int:
        pids = len({process.pid for process in self._join.running[uuid]})
        return min(pids, self._limit) + (pids > self._limit)

    def _made(self) -> tuple[ProcessRow, ...]:
        if self._shown is None:
            self._shown = limit(_rows(self._gpus, self._join), self._limit)
        return self._shown


def _rows(gpus: Sequence[Gpu], join: Join) -> Iterator[ProcessRow]:
    for gpu in gpus:
        for process in join.running[gpu.device.uuid]:
            host = join.hosts.get(process.pid)
            yield ProcessRow(
                gpu=str(gpu.device.index),
                uuid=gpu.device.uuid,
                pid=str(process.pid),
                command=(host.arguments or host.command) if host else "",
                owner=join.owner(process),
                memory_bytes=process.memory_bytes,
                utilization=process.utilization,
                cpu_seconds=host.cpu_seconds if host else None,
                resident_bytes=host.resident_bytes if host else None,
                start_time=host.start_time if host else None,
            )


def unattributed_bytes(gpus: Sequence[Gpu], join: Join) -> Mapping[str, float]:
    """By GPU uuid: memory used less that of the processes; not known where they, or the memory of one, are not.

    Drivers that do not tell their own reserve apart count it as used: the rest means nothing then, and is not shown.
    """
    found: dict[str, float] = {}
    for gpu in gpus:
        memory = reading(gpu, "memory", Memory)
        held = [process.memory_bytes for process in join.running[gpu.device.uuid]]
        complete = memory is not None and memory.used is not None and memory.reserved is not None
        known = processes_are_listed(gpu) and None not in held
        if gpu.present and memory and memory.used is not None and complete and known:
            found[gpu.device.uuid] = max(memory.used - sum([each or 0 for each in held]), 0)
    return found
