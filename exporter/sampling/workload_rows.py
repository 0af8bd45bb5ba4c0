"""The rows of workloads: of those there are, and of ended ones for as long as the ledger has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from exporter.attribution.families import WorkloadRow
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.work_class import UNKNOWN, WorkClass
from exporter.core.units import Bytes
from exporter.host.model import HostUsage
from exporter.ledger.account import Reading
from exporter.sampling.join import Join

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
