"""The accounting of one pass: the join of processes and owners, the ledger, and what is shown of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TypeVar

from exporter.attribution.families import PROCESS_FAMILIES, SHARE_FAMILIES, ProcessRow, ShareRow
from exporter.attribution.owner import Owner, Ownership
from exporter.attribution.work_class import ClassRule, WorkClasses
from exporter.core.clock import Moment, MonotonicTime
from exporter.core.families import AnyBlock, AnyFamily, Family, LazyBlock
from exporter.core.record import record
from exporter.core.units import Share
from exporter.host.network_port_families import NETWORK_PORT_FAMILIES
from exporter.ledger.account import Ledger, LedgerInput, Reading
from exporter.ledger.families import FAMILIES as LEDGER_FAMILIES
from exporter.ledger.ledger import advance, prune
from exporter.ledger.peers import Suspects
from exporter.ledger.states import STATES, limits
from exporter.ledger.thresholds import Thresholds
from exporter.progress.families import ProgressCounters
from exporter.sampling.gpus import Gpu
from exporter.sampling.host_view import Host
from exporter.sampling.join import Joiner
from exporter.sampling.ledger_readings import LedgerReadings
from exporter.sampling.rows import ProcessTable, WorkloadRows, unattributed_bytes
from exporter.sampling.usage.nccl_status import NCCL_FAMILIES

R = TypeVar("R")


@record
class AccountingOptions:
    """How the accounting is done. Seconds: between passes, and how long an ended workload stays."""

    interval: float = 1.0
    retention: float = 120.0
    process_limit: int = 64
    thresholds: Thresholds = field(default_factory=Thresholds)
    class_rules: tuple[ClassRule, ...] = ()


@record
class AccountingResult:
    """What the accounting shows after one pass. Mappings are by GPU uuid.

    What is called makes what a page needs, from what this pass found and nothing later.
    """

    ownership: Ownership
    blocks: Callable[[], Iterable[AnyBlock]]
    processes: Sequence[ProcessRow]
    unattributed: int
    unattributed_bytes: Callable[[], Mapping[str, float]]
    shares: Mapping[str, tuple[tuple[Owner, Share], ...]]
    states: Callable[[], Mapping[str, Mapping[str, float]]]
    """Seconds since start."""
    pci_gpus: int | None
    dropped: Mapping[str, int]


class Accounting:
    """Keeps the ledger; its parts keep what they need of the pass before. Belongs to the thread of the passes."""

    def __init__(self, options: AccountingOptions, workload_families: Sequence[AnyFamily]) -> None:
        self._options = options
        self._workload_families = tuple(workload_families)
        self._joiner = Joiner()
        self._readings = LedgerReadings()
        self._classes = WorkClasses(options.class_rules)
        self._ledger = Ledger()
        self._limits = limits(vars(options.thresholds))
        self._workloads = WorkloadRows()
        self._suspects = Suspects()
        self._suspected: Mapping[Owner, Sequence[int]] = {}
        self._progress = ProgressCounters()
        self._monotonic: MonotonicTime | None = None
        self._dropped = 0

    def update(self, gpus: Sequence[Gpu], host: Host, at: Moment) -> AccountingResult:
        """Account for the pass that started `at`."""
        question = self._joiner.question(gpus, at, self._suspected)
        view = host.view(question)
        join = self._joiner.join(question, view)
        work = self._classes.of(join.ownership.info, view.signals)
        readings = self._readings.of(gpus, join, at.monotonic)
        current = LedgerInput(
            time=at.unix,
            seconds=0.0 if self._monotonic is None else at.monotonic - self._monotonic,
            interval=self._options.interval,
            readings=readings,
            hosts=view.signals,
            work={owner: each.name for owner, each in work.items()},
            spread=frozenset(owner for owner, info in join.ownership.info.items() if info.spread),
            slow_ports=view.ports.troubled_gpus,
            starts=join.starts,
            ranks=view.reported.ranks,
            host_signals_known=view.known_signals,
        )
        before = self._ledger
        self._ledger = prune(advance(before, current, self._limits), self._options.retention)
        self._monotonic = at.monotonic
        self._suspected = self._suspects.of(before, self._ledger, readings, at.monotonic)
        workloads = self._workloads.of(self._ledger.owners.keys(), join, readings, view.usage, work)
        processes = ProcessTable(gpus, join, self._options.process_limit)
        self._dropped += processes.folded
        ledger, progress = self._ledger, self._progress.blocks(view.reported, self._ledger.owners)

        def blocks() -> Iterator[AnyBlock]:
            yield from _filled(LEDGER_FAMILIES, ledger)
            yield from _filled(SHARE_FAMILIES, _share_rows(readings, join.ownership.unreserved))
            yield from _filled(self._workload_families, workloads)
            yield from _filled(PROCESS_FAMILIES, processes)
            yield from _filled(NCCL_FAMILIES if view.nccl else (), view.nccl)
            yield from _filled(NETWORK_PORT_FAMILIES if view.ports.ports else (), view.ports)
            yield from progress

        return AccountingResult(
            ownership=join.ownership,
            blocks=blocks,
            processes=processes,
            unattributed=join.unattributed,
            unattributed_bytes=partial(unattributed_bytes, gpus, join),
            shares=_shares(readings),
            states=partial(_states, ledger),
            pci_gpus=view.pci_gpus,
            dropped={"process_limit": self._dropped, "watch_budget": view.skipped_tasks},
        )


def _share_rows(readings: Sequence[Reading], unreserved: Mapping[str, frozenset[Owner]]) -> tuple[ShareRow, ...]:
    nobody: frozenset[Owner] = frozenset()
    return tuple(
        [
            ShareRow(
                each.target,
                each.profile,
                holding.owner,
                holding.share,
                holding.owner in unreserved.get(each.target.uuid, nobody),
            )
            for each in readings
            for holding in each.holdings
        ]
    )


def _filled(families: Iterable[Family[R]], content: R) -> Iterator[LazyBlock]:
    return (LazyBlock(family, content) for family in families)


def _shares(readings: Sequence[Reading]) -> Mapping[str, tuple[tuple[Owner, Share], ...]]:
    """Owners of each whole GPU with their part of it, its instances' owners included."""
    found: dict[str, dict[Owner, Share]] = {}
    parents = {each.target.parent_uuid for each in readings}
    for each in readings:
        if each.target.uuid in parents:
            continue
        gpu = found.setdefault(each.target.parent_uuid or each.target.uuid, {})
        for holding in each.holdings:
            gpu[holding.owner] = Share(gpu.get(holding.owner, 0.0) + holding.share * each.target.share)
    return {uuid: tuple(owners.items()) for uuid, owners in found.items()}


def _states(ledger: Ledger) -> Mapping[str, Mapping[str, float]]:
    return {uuid: dict(zip(STATES, entry.seconds, strict=True)) for uuid, entry in ledger.targets.items()}
