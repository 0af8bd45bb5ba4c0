"""The processes and workloads of one pass as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import overload

from exporter.attribution.families import ProcessRow, WorkloadRow, limit
from exporter.attribution.owner import NOBODY, Owner, WorkloadInfo
from exporter.attribution.work_class import UNKNOWN, WorkClass
from exporter.collectors.memory import Memory
from exporter.core.units import Bytes
from exporter.host.model import HostUsage
from exporter.ledger.account import Reading
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


_NO_INFO, _NO_USAGE = WorkloadInfo(), HostUsage()


class WorkloadRows:
    """Keeps the last row of each workload."""

    def __init__(self) -> None:
        self._rows: dict[Owner, WorkloadRow] = {}

    def of(
        self,
        owners: Collection[Owner],
        join: Join,
        readings: Sequence[Reading],
        usage: Mapping[Owner, HostUsage],
        work: Mapping[Owner, WorkClass],
    ) -> tuple[WorkloadRow, ...]:
        """Rows of these `owners`, which are those of the ledger."""
        processes: dict[Owner, set[int]] = {}
        memory: dict[Owner, Bytes] = {}
        attributed = join.ownership.processes
        for process in join.everyone:
            pid = process.pid
            owner = attributed.get(pid, NOBODY)
            if owner in processes:
                processes[owner].add(pid)
                memory[owner] = Bytes(memory[owner] + (process.memory_bytes or 0))
            else:
                processes[owner], memory[owner] = {pid}, process.memory_bytes or Bytes(0)
        gpus = held(readings)
        for owner in owners:
            before = self._rows.get(owner)
            if owner in gpus or before is None:
                self._rows[owner] = WorkloadRow(
                    owner=owner,
                    info=join.ownership.info.get(owner, _NO_INFO),
                    usage=usage.get(owner, _NO_USAGE),
                    memory_bytes=memory.get(owner, Bytes(0)),
                    gpus=gpus.get(owner, 0.0),
                    processes=len(processes.get(owner, ())),
                    work=work.get(owner, UNKNOWN),
                )
            else:
                self._rows[owner] = before.ended()
        self._rows = {owner: row for owner, row in self._rows.items() if owner in owners}
        return tuple(self._rows.values())


def held(readings: Sequence[Reading]) -> Mapping[Owner, float]:
    """GPUs that each owner holds: the sum of its shares."""
    gpus: dict[Owner, float] = {}
    parents = {each.target.parent_uuid for each in readings}
    for each in readings:
        for holding in each.holdings if each.target.uuid not in parents else ():
            gpus[holding.owner] = gpus.get(holding.owner, 0.0) + holding.share * each.target.share
    return gpus
