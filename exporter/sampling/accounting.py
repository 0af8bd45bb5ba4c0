"""The accounting of one pass: whose processes run where, who holds what, and where each GPU second went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from exporter.attribution.families import SHARE_FAMILIES, ShareRow, WorkloadRow
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.ownership import Ownership, WorkloadInfo
from exporter.attribution.process_families import PROCESS_FAMILIES, ProcessRow, limit
from exporter.attribution.work_class import UNKNOWN, ClassRule, WorkClass, WorkClasses
from exporter.collectors.memory import Memory
from exporter.collectors.processes import NO_PROCESSES, GpuProcess, Processes
from exporter.exposition.snapshot import AnyBlock, LazyBlock
from exporter.host.model import HostProcess, HostUsage
from exporter.ledger.account import Ledger, LedgerInput, Reading
from exporter.ledger.families import FAMILIES as LEDGER_FAMILIES
from exporter.ledger.ledger import advance, prune
from exporter.ledger.states import STATES
from exporter.ledger.thresholds import Thresholds
from exporter.metrics.family import AnyFamily, Family
from exporter.node.interface import Node
from exporter.progress.counters import ProgressCounters
from exporter.sampling.exited_processes import ExitedProcesses
from exporter.sampling.gpus import Gpu
from exporter.sampling.readings import Throttled, instance_signals, joules, reading, signals, throttled
from exporter.sampling.targets import holdings, target_of, targets

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class AccountingOptions:
    """How accounting are kept. Seconds: between passes, and how long an ended workload stays."""

    interval: float = 1.0
    retention: float = 120.0
    process_limit: int = 64
    thresholds: Thresholds = field(default_factory=Thresholds)
    class_rules: tuple[ClassRule, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountingResult:
    """What the accounting say after one pass. Mappings are by GPU uuid."""

    ownership: Ownership
    blocks: tuple[AnyBlock, ...]
    processes: tuple[ProcessRow, ...]
    unattributed: int
    unattributed_bytes: Mapping[str, float]
    shares: Mapping[str, tuple[tuple[Owner, float], ...]]
    states: Mapping[str, Mapping[str, float]]
    dropped: Mapping[str, int]


class Accounting:
    """Keeps the ledger and what it needs of the pass before. Belongs to the thread that runs the passes."""

    def __init__(self, options: AccountingOptions, workload_families: Sequence[AnyFamily]) -> None:
        self._options = options
        self._workload_families = tuple(workload_families)
        self._ledger = Ledger()
        self._throttled: dict[str, Throttled] = {}
        self._joules: dict[str, float] = {}
        self._kept: dict[Owner, WorkloadRow] = {}
        self._progress = ProgressCounters()
        self._exited = ExitedProcesses()
        self._classes = WorkClasses(options.class_rules)
        self._monotonic: float | None = None
        self._dropped = 0

    def update(self, gpus: Sequence[Gpu], node: Node, now: float, monotonic: float) -> AccountingResult:
        """Settle one pass. `now` is Unix seconds, `monotonic` the start of the pass."""
        listed = {gpu.device.uuid: _listed(gpu) for gpu in gpus}
        hosts = node.processes(sorted({process.pid for each in listed.values() for process in each.running}), now)
        running = self._exited.remaining(listed, hosts)
        everyone = [process for processes in running.values() for process in processes]
        ownership = node.ownership(targets(gpus), _pids(everyone), hosts, now)
        usage, host_signals = node.usage(ownership, hosts, now, monotonic)
        work = self._classes.of(ownership.info, host_signals)
        current = LedgerInput(
            time=now,
            seconds=0.0 if self._monotonic is None else monotonic - self._monotonic,
            interval=self._options.interval,
            readings=tuple(each for gpu in gpus for each in self._readings(gpu, running, ownership, monotonic)),
            hosts=host_signals,
            work={owner: each.name for owner, each in work.items()},
            spread=frozenset(owner for owner, info in ownership.info.items() if (info.nodes or 1) > 1),
            starts=_starts(ownership, hosts),
            host_tells=node.host_tells(),
        )
        self._monotonic = monotonic
        self._ledger = prune(advance(self._ledger, current, self._options.thresholds), self._options.retention)
        rows = tuple(_rows(gpus, running, ownership, hosts))
        shown = limit(rows, self._options.process_limit)
        self._dropped += max(len(rows) - len(shown), 0)
        self._keep(ownership, usage, work, current, everyone)
        reported = node.progress(ownership, now)
        return AccountingResult(
            ownership=ownership,
            blocks=(*self._blocks(current, shown), *self._progress.blocks(reported, self._ledger.owners)),
            processes=shown,
            unattributed=sum(ownership.processes.get(process.pid, NOBODY) == NOBODY for process in everyone),
            unattributed_bytes=dict(_unattributed(gpus, running)),
            shares=_shares(current),
            states=_states(self._ledger),
            dropped={"process_limit": self._dropped, "watch_budget": node.skipped_tasks()},
        )

    def _readings(
        self, gpu: Gpu, running: Mapping[str, Sequence[GpuProcess]], ownership: Ownership, monotonic: float
    ) -> Iterator[Reading]:
        uuid = gpu.device.uuid
        on = running[uuid]
        whole = signals(gpu, self._throttled.get(uuid), monotonic)
        yield Reading(target_of(gpu.device), whole, holdings(uuid, on, ownership), self._energy(gpu))
        for instance in gpu.device.instances:
            found = instance_signals(gpu, instance.uuid, whole, monotonic)
            profile = instance.mig.profile if instance.mig else ""
            yield Reading(target_of(instance), found, holdings(instance.uuid, on, ownership), profile=profile)
        latest = throttled(gpu, monotonic)
        if latest:
            self._throttled[uuid] = latest

    def _energy(self, gpu: Gpu) -> float:
        """Joules since the last pass; a counter that went back was reset and counts from 0."""
        total = joules(gpu)
        if total is None:
            return 0.0
        before = self._joules.get(gpu.device.uuid, total)
        self._joules[gpu.device.uuid] = total
        return total - before if total >= before else total

    def _keep(
        self,
        ownership: Ownership,
        usage: Mapping[Owner, HostUsage],
        work: Mapping[Owner, WorkClass],
        current: LedgerInput,
        everyone: Iterable[GpuProcess],
    ) -> None:
        """Rows of the workloads there are, and those of ended ones for as long as the ledger has them."""
        processes: dict[Owner, set[int]] = {}
        memory: dict[Owner, int] = {}
        for process in everyone:
            owner = ownership.processes.get(process.pid, NOBODY)
            processes.setdefault(owner, set()).add(process.pid)
            memory[owner] = memory.get(owner, 0) + (process.memory_bytes or 0)
        gpus: dict[Owner, float] = {}
        parents = {each.target.parent_uuid for each in current.readings}
        for each in current.readings:
            for holding in each.holdings if each.target.uuid not in parents else ():
                gpus[holding.owner] = gpus.get(holding.owner, 0.0) + holding.share * each.target.share
        for owner in self._ledger.owners:
            ended = self._kept.get(owner)
            if owner in gpus or ended is None:
                self._kept[owner] = WorkloadRow(
                    owner=owner,
                    info=ownership.info.get(owner, WorkloadInfo()),
                    usage=usage.get(owner, HostUsage()),
                    memory_bytes=memory.get(owner, 0),
                    gpus=gpus.get(owner, 0.0),
                    processes=len(processes.get(owner, ())),
                    work=work.get(owner, UNKNOWN),
                )
            else:
                self._kept[owner] = ended.ended()
        self._kept = {owner: row for owner, row in self._kept.items() if owner in self._ledger.owners}

    def _blocks(self, current: LedgerInput, shown: Sequence[ProcessRow]) -> Iterator[LazyBlock]:
        workloads = tuple(self._kept.values())
        shares = tuple(
            ShareRow(each.target, each.profile, holding.owner, holding.share)
            for each in current.readings
            for holding in each.holdings
        )
        yield from _filled(LEDGER_FAMILIES, self._ledger)
        yield from _filled(SHARE_FAMILIES, shares)
        yield from _filled(self._workload_families, workloads)
        yield from _filled(PROCESS_FAMILIES, shown)


def _filled(families: Iterable[Family[R]], content: R) -> Iterator[LazyBlock]:
    return (LazyBlock(family, content) for family in families)


def _listed(gpu: Gpu) -> Processes:
    """Processes on the GPU as last read; those of a GPU that has gone are not known any more."""
    found = reading(gpu, gpu.device.uuid, "processes", Processes)
    return found if found and gpu.present else NO_PROCESSES


def _pids(processes: Iterable[GpuProcess]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for process in processes:
        found.setdefault(process.target, []).append(process.pid)
    return found


def _starts(ownership: Ownership, hosts: Mapping[int, HostProcess]) -> Mapping[Owner, float]:
    """When each workload started: its allocation where a source says so, else its oldest process."""
    starts: dict[Owner, float] = {}
    for pid, owner in ownership.processes.items():
        host = hosts.get(pid)
        if host is not None:
            starts[owner] = min(starts.get(owner, host.start_time), host.start_time)
    told = {owner: info.start_time for owner, info in ownership.info.items() if info.start_time is not None}
    return {**starts, **told}


def _rows(
    gpus: Iterable[Gpu],
    running: Mapping[str, Sequence[GpuProcess]],
    ownership: Ownership,
    hosts: Mapping[int, HostProcess],
) -> Iterator[ProcessRow]:
    for gpu in gpus:
        for process in running[gpu.device.uuid]:
            host = hosts.get(process.pid)
            yield ProcessRow(
                gpu=str(gpu.device.index),
                uuid=gpu.device.uuid,
                pid=str(process.pid),
                command=(host.arguments or host.command) if host else "",
                owner=ownership.processes.get(process.pid, NOBODY),
                memory_bytes=process.memory_bytes,
                utilization=process.utilization,
                cpu_seconds=host.cpu_seconds if host else None,
                resident_bytes=host.resident_bytes if host else None,
                start_time=host.start_time if host else None,
            )


def _unattributed(gpus: Iterable[Gpu], running: Mapping[str, Sequence[GpuProcess]]) -> Iterator[tuple[str, float]]:
    """Memory used less that of the processes; not known where a process's memory is not."""
    for gpu in gpus:
        memory = reading(gpu, gpu.device.uuid, "memory", Memory)
        held = [process.memory_bytes for process in running[gpu.device.uuid]]
        if gpu.reading and memory and memory.used is not None and None not in held:
            yield gpu.device.uuid, max(memory.used - sum(each or 0 for each in held), 0)


def _shares(current: LedgerInput) -> Mapping[str, tuple[tuple[Owner, float], ...]]:
    """Owners of each whole GPU with their part of it, its instances' owners included."""
    found: dict[str, dict[Owner, float]] = {}
    parents = {each.target.parent_uuid for each in current.readings}
    for each in current.readings:
        if each.target.uuid in parents:
            continue
        gpu = found.setdefault(each.target.parent_uuid or each.target.uuid, {})
        for holding in each.holdings:
            gpu[holding.owner] = gpu.get(holding.owner, 0.0) + holding.share * each.target.share
    return {uuid: tuple(owners.items()) for uuid, owners in found.items()}


def _states(ledger: Ledger) -> Mapping[str, Mapping[str, float]]:
    return {uuid: dict(zip(STATES, entry.seconds, strict=True)) for uuid, entry in ledger.targets.items()}
