"""The accounting of one cycle: processes joined with owners, the ledger, and what is shown of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from exporter.accounting.families import ACCOUNTING_FAMILIES
from exporter.accounting.model import Cycle, Usage
from exporter.attribution.families import OWNER_FAMILIES, PROCESS_FAMILIES, OwnerRow, ProcessRow, WorkloadRow, limit
from exporter.attribution.owner import NOBODY, Owner, Ownership, WorkloadInfo
from exporter.attribution.work_class import UNKNOWN, ClassRule, WorkClass, WorkClasses
from exporter.collectors.info import Info
from exporter.collectors.memory import Memory
from exporter.collectors.utilization import Utilization
from exporter.core.clock import Moment, MonotonicTime
from exporter.core.families import AnyFamily, Block, Family
from exporter.core.record import record
from exporter.core.threads import Threads
from exporter.core.units import Bytes, Fraction
from exporter.host.model import HostUsage
from exporter.host.network_ports import NETWORK_PORT_FAMILIES
from exporter.ledger.account import Ledger, LedgerInput, Reading
from exporter.ledger.families import FAMILIES as LEDGER_FAMILIES
from exporter.ledger.hangs import find_suspects
from exporter.ledger.ledger import advance_ledger, drop_stale
from exporter.ledger.states import DEFAULTS, STATES
from exporter.ledger.states.host_waits import ON_DEMAND
from exporter.ledger.states.state import NO_HOST, Limits
from exporter.progress.families import ProgressCounters
from exporter.sampling.gpus import Gpu, reading
from exporter.sampling.host_view import Host
from exporter.sampling.join import Join, host_question, join
from exporter.sampling.readings import LedgerReadings, is_stuck, processes_are_listed
from exporter.sampling.usage.nccl_status import NCCL_FAMILIES

if TYPE_CHECKING:  # with SQLite, which a check does not need
    from exporter.accounting.writer import NodeAccounting

R = TypeVar("R")


@record
class AccountingOptions:
    """Options of the accounting. Seconds: between cycles, and how long an ended workload stays."""

    interval: float = 1.0
    retention: float = 120.0
    process_limit: int = 64
    limits: Limits = field(default_factory=lambda: DEFAULTS)
    class_rules: tuple[ClassRule, ...] = ()


@record
class AccountingResult:
    """The results of one cycle. Mappings are by GPU uuid."""

    ownership: Ownership
    blocks: tuple[Block, ...]
    processes: Sequence[ProcessRow]
    unattributed: int
    unattributed_bytes: Mapping[str, float]
    stuck: frozenset[str]
    """GPUs whose utilization cannot be true."""
    shares: Mapping[str, tuple[tuple[Owner, Fraction], ...]]
    states: Mapping[str, Mapping[str, float]]
    """Seconds since start."""
    pci_gpus: int | None
    dropped: Mapping[str, int]


class Accounting:
    """Keeps the ledger; its parts keep what they need of the cycle before. Belongs to the thread of the cycles."""

    def __init__(
        self, options: AccountingOptions, workload_families: Sequence[AnyFamily], node: NodeAccounting | None = None
    ) -> None:
        """`node` keeps allocations and the counters of owners."""
        self._options = options
        self._node = node
        self._workload_families = tuple(workload_families)
        self._readings = LedgerReadings()
        self._classes = WorkClasses(options.class_rules)
        self._ledger = Ledger()
        self._workloads = WorkloadRows()
        self._suspected: Mapping[Owner, Sequence[int]] = {}
        self._progress = ProgressCounters()
        self._monotonic: MonotonicTime | None = None
        self._dropped = 0
        self.in_question: Sequence[int] = ()
        """GPU processes of which one read a cycle does not show whether they wait for storage."""

    def start(self, threads: Threads) -> None:
        if self._node:
            self._node.start(threads)

    def stop(self) -> None:
        if self._node:
            self._node.stop()

    def update(self, gpus: Sequence[Gpu], host: Host, at: Moment, pool: str | None = None) -> AccountingResult:
        """Account for the cycle that started `at`. `pool` is that of the node, if known."""
        question = host_question(gpus, at, self._suspected)
        view = host.view(question)
        joined = join(question, view)
        work = self._classes.of(joined.ownership.info, view.signals)
        readings = self._readings.of(gpus, joined, at.monotonic)
        current = LedgerInput(
            time=at.unix,
            seconds=0.0 if self._monotonic is None else at.monotonic - self._monotonic,
            interval=self._options.interval,
            readings=readings,
            hosts=view.signals,
            work={owner: each.name for owner, each in work.items()},
            spread=frozenset(owner for owner, info in joined.ownership.info.items() if info.spread),
            slow_ports=view.ports.troubled_gpus,
            starts=joined.starts,
            ranks=view.reported.ranks,
            nccl={owner: status.verdict for owner, status in view.nccl.items()},
            host_signals_known=view.known_signals,
        )
        self._ledger = drop_stale(advance_ledger(self._ledger, current, self._options.limits), self._options.retention)
        self._monotonic = at.monotonic
        self._suspected = find_suspects(self._ledger, readings)
        self.in_question = _in_question(current)
        workloads = self._workloads.of(self._ledger.owners.keys(), joined, readings, view.usage, work)
        processes = limit(_process_rows(gpus, joined), self._options.process_limit)
        self._dropped += max(len(joined.everyone) - len(processes), 0)
        unallocated, nobody = joined.ownership.unallocated, frozenset[Owner]()
        shares = tuple(
            OwnerRow(
                each.target, each.profile, own.owner, own.share, own.owner in unallocated.get(each.target.uuid, nobody)
            )
            for each in readings
            for own in each.allocations
        )
        owners: dict[str, dict[Owner, Fraction]] = {}
        for uuid, owner, fraction in _parts_of_gpus(readings):
            gpu = owners.setdefault(uuid, {})
            gpu[owner] = Fraction(gpu.get(owner, 0.0) + fraction)
        blocks: tuple[Block, ...] = (
            *_fill_families(LEDGER_FAMILIES, self._ledger),
            *_fill_families(OWNER_FAMILIES, shares),
            *_fill_families(self._workload_families, workloads),
            *_fill_families(PROCESS_FAMILIES, processes),
            *_fill_families(NCCL_FAMILIES if view.nccl else (), view.nccl),
            *_fill_families(NETWORK_PORT_FAMILIES if view.ports.ports else (), view.ports),
            *self._progress.blocks(view.reported, self._ledger.owners),
            *self._owner_blocks(gpus, current, joined.ownership, at, pool),
        )
        return AccountingResult(
            ownership=joined.ownership,
            blocks=blocks,
            processes=processes,
            unattributed=joined.unattributed,
            unattributed_bytes=_unattributed_bytes(gpus, joined, view.unexplained),
            stuck=frozenset(gpu.device.uuid for gpu in gpus if is_stuck(gpu, joined)),
            shares={uuid: tuple(each.items()) for uuid, each in owners.items()},
            states={
                uuid: dict(zip(STATES, entry.seconds, strict=True)) for uuid, entry in self._ledger.targets.items()
            },
            pci_gpus=view.pci_gpus,
            dropped={"process_limit": self._dropped, "watch_budget": view.skipped_tasks},
        )

    def _owner_blocks(
        self, gpus: Sequence[Gpu], current: LedgerInput, ownership: Ownership, at: Moment, pool: str | None
    ) -> Iterator[Block]:
        if not self._node:
            return
        usage = [
            Usage(row.owner, row.gpu, row.profile, {STATES[at]: part for at, part in row.states}, row.used, row.joules)
            for row in self._ledger.usage
        ]
        models = {gpu.device.uuid: info.model for gpu in gpus if (info := reading(gpu, "info", Info))}
        cycle = Cycle(at, current.seconds, tuple(usage), models, ownership, current.work, pool)
        yield from _fill_families(ACCOUNTING_FAMILIES, self._node.account_cycle(cycle))


_MAX_IN_QUESTION = 64
_BUSY, _FULL = 0.95, 0.9


def _in_question(cycle: LedgerInput) -> Sequence[int]:
    """Return the processes whose GPU waited, and that neither slept all the time nor were full."""
    found = [
        pid
        for reading in cycle.readings
        if reading.signals and reading.signals.busy is not None and reading.signals.busy < _BUSY
        for each in reading.allocations
        if cycle.work.get(each.owner) not in ON_DEMAND
        for pid in each.pids
        if (process := cycle.hosts.get(each.owner, NO_HOST).processes.get(pid))
        and (process.blocked or 0.0 < (process.hottest_thread or 0.0) < _FULL)
    ]
    return found[:_MAX_IN_QUESTION]


def _fill_families(families: Iterable[Family[R]], content: R) -> Iterator[Block]:
    return (Block(family, (), content) for family in families)


def _parts_of_gpus(readings: Sequence[Reading]) -> Iterator[tuple[str, Owner, float]]:
    """Yield GPU, owner and the fraction of the GPU that the owner was allocated, on one of its instances or whole."""
    parents = {each.target.parent_uuid for each in readings}
    for each in readings:
        for allocation in each.allocations if each.target.uuid not in parents else ():
            yield each.target.parent_uuid or each.target.uuid, allocation.owner, allocation.share * each.target.share


def _process_rows(gpus: Sequence[Gpu], join: Join) -> Iterator[ProcessRow]:
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


def _unattributed_bytes(gpus: Sequence[Gpu], join: Join, unexplained: frozenset[str] | None) -> Mapping[str, float]:
    """Return the memory in use on quiet GPUs that no process is on and nobody was allocated, by uuid: it is leaked.

    Elsewhere it may be managed memory, which belongs to no process in the driver's list, and is not known. Drivers that
    do not report their own reserve count it as used: the rest means nothing then.
    """
    found: dict[str, float] = {}
    for gpu in gpus if unexplained is not None else ():
        memory, use = reading(gpu, "memory", Memory), reading(gpu, "utilization", Utilization)
        targets, holders = (gpu.device, *gpu.device.instances), join.ownership.holders
        idle = use.share == 0 if use else len(targets) > 1
        empty = processes_are_listed(gpu) and not join.running[gpu.device.uuid]
        leaks = gpu.present and idle and empty and not any(holders.get(target.uuid) for target in targets)
        known = memory is not None and memory.reserved is not None and gpu.device.uuid not in (unexplained or ())
        if leaks and known and memory and memory.used is not None:
            found[gpu.device.uuid] = memory.used
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
        processes: defaultdict[Owner, set[int]] = defaultdict(set)
        memory: defaultdict[Owner, list[Bytes]] = defaultdict(list)
        allocated = [(each, part) for each in readings for part in each.allocations]
        inferred = {(each.target.uuid, pid): part.owner for each, part in allocated for pid in part.pids}
        for process in join.everyone:
            owner = join.owner(process)
            owner = owner if owner != NOBODY else inferred.get((process.target, process.pid), NOBODY)
            processes[owner].add(process.pid)
            memory[owner] += [] if process.memory_bytes is None else [process.memory_bytes]
        unnamed = {each.target.uuid for each, part in allocated if part.owner == NOBODY and part.pids}
        unlisted = {
            part.owner
            for each, part in allocated
            if not part.listed or (each.target.uuid in unnamed and not processes[part.owner])
        }
        gpus: dict[Owner, float] = {}
        for _, owner, fraction in _parts_of_gpus(readings):
            gpus[owner] = gpus.get(owner, 0.0) + fraction
        for owner in owners:
            before = self._rows.get(owner)
            if owner in gpus or before is None:
                self._rows[owner] = WorkloadRow(
                    owner=owner,
                    info=join.ownership.info.get(owner, _NO_INFO),
                    usage=usage.get(owner, _NO_USAGE),
                    memory_bytes=None
                    if owner in unlisted or (processes[owner] and not memory[owner])
                    else Bytes(sum(memory[owner])),
                    gpus=gpus.get(owner, 0.0),
                    processes=None if owner in unlisted else len(processes[owner]),
                    work=work.get(owner, UNKNOWN),
                )
            else:
                self._rows[owner] = before.ended()
        self._rows = {owner: row for owner, row in self._rows.items() if owner in owners}
        return tuple(self._rows.values())
