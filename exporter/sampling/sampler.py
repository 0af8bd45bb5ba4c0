"""One cycle: read the GPUs, join their owners, advance the ledger, publish. A loop runs one per interval."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import SystemRandom

from exporter.collectors.base import AnyCollector
from exporter.collectors.sxid import SXID_FAMILIES, last_fatal
from exporter.core.clock import Moment, MonotonicTime, UnixTime, monotonic_time, unix_time
from exporter.core.families import Block
from exporter.core.threads import Threads
from exporter.driver.interface import Driver
from exporter.faults.evaluate import STAGES, evaluate_known
from exporter.faults.families import FAULT_FAMILIES, FINDINGS
from exporter.faults.findings import RELEASED
from exporter.faults.rule import Finding, Verdict, from_blocks
from exporter.faults.watch import FaultTracker, FaultWatchConfig, observed_gpu
from exporter.sampling.accounting import Accounting, AccountingResult
from exporter.sampling.blocks import collector_statuses, device_blocks, gpu_statuses, node_blocks, xid_blocks
from exporter.sampling.driver_connection import DriverConnection, DriverState
from exporter.sampling.gpus import Gpus, readings_of
from exporter.sampling.host_view import Host
from exporter.sampling.snapshot import NodeStatus, ProcessHealth, Snapshot
from exporter.sampling.xids import XidLog


@dataclass(frozen=True, slots=True)
class Pacing:
    """Seconds: between cycles, one cycle waits for the GPUs, until a gauge vanishes."""

    interval: float = 1.0
    deadline: float = 0.8
    stale: float = 10.0


_STATE_READS = 4
"""Inside a cycle, at processes that may wait for storage."""


class Sampler:
    """Runs cycles; everything it keeps between them is in its parts. One thread at a time may call `run_cycle`."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        driver: Driver,
        host: Host,
        collectors: Sequence[AnyCollector],
        pacing: Pacing,
        accounting: Accounting,
        process: Callable[[], ProcessHealth] = ProcessHealth,
        *,
        faults: FaultTracker | None = None,
    ) -> None:
        """`process` reports how the exporter's own parts fare."""
        self._driver = driver
        self._host = host
        self._collectors = collectors
        self._pacing = pacing
        self._accounting = accounting
        self._gpus = Gpus(collectors)
        self.connection = DriverConnection(driver)
        self._process = process
        self._faults = faults or FaultTracker(FaultWatchConfig())
        self._findings: tuple[Finding, ...] = ()
        self.xids = XidLog(site=self._faults.site_xids)
        self._cycles = 0

    def start(self, threads: Threads | None = None) -> None:
        """Open the driver and begin to ask the host's sources; both in the background."""
        threads = threads or Threads()
        self._gpus.threads.threads = threads
        self.connection.start(threads)
        self._host.start(threads)
        self._faults.start(threads)
        self._accounting.start(threads)

    def run_cycle(self, at: Moment | None = None) -> Snapshot:
        """Take one cycle. It lasts at most the deadline and a little, whatever the driver does.

        `at` is the moment it books its readings at; without it, now. Tests make hours cycle in seconds with it.
        """
        began = monotonic_time()
        clock = None if at else monotonic_time
        at = at or Moment(unix_time(), began)
        if not self._cycles:
            self.connection.first.wait(self._pacing.deadline)
        state = self.connection.state
        deadline = began + self._pacing.deadline
        for failure in self._gpus.read(state.devices, at.unix, deadline, at.monotonic, clock=clock):
            self.connection.refresh(failure)
        due = self._faults.is_due(at.monotonic)
        if due:
            self._update_faults(state, at)
            self.connection.release(on=self._faults.released)
        result = self._accounting.update(self._gpus.all, self._host, at, self._faults.pool)
        self._cycles += 1
        snapshot = self._publish_snapshot(state, result, at, monotonic_time() - began)
        if due:
            ignored = STAGES["periodic"].left_out  # jobs run: what they have is no fault
            self._findings = evaluate_known(
                from_blocks(snapshot.blocks, at.unix), self._faults.limits, ignored, Verdict.DEGRADED
            ).findings
        findings = self._findings

        def series() -> Iterator[Block]:
            yield from snapshot.blocks
            yield Block(FINDINGS, (), findings)

        return replace(snapshot, series=series)

    def extra_reads(self) -> int:
        """Return how often to read again before the next cycle."""
        reads = _STATE_READS if self._accounting.in_question else 0
        return max(reads, self._gpus.extra_reads(self._pacing.interval))

    def read_again(self) -> None:
        """Read what the last cycle left in question once more; the next cycle counts it."""
        self._gpus.read_again(monotonic_time() + self._pacing.deadline / 4, self._pacing.interval)
        if self._accounting.in_question:
            self._host.reread(self._accounting.in_question)

    def uuids(self) -> Mapping[str, str]:
        """The GPUs seen so far, by PCI bus id as sysfs writes it. Of two at one place, the one that is there."""
        known = sorted(self._gpus.all, key=lambda gpu: gpu.present)
        return {gpu.device.pci_bus_id: gpu.device.uuid for gpu in known if gpu.device.pci_bus_id}

    def stop(self) -> None:
        self.connection.stop()
        self._gpus.stop()
        self._host.stop()
        self._faults.stop()
        self._accounting.stop()

    def _update_faults(self, state: DriverState, at: Moment) -> None:
        """Let the faults see what this cycle found."""
        booted = UnixTime(float(at.unix) - float(at.monotonic))
        self.xids.set_clock(booted)
        self.xids.claim(self.uuids())
        gpus = tuple(
            observed_gpu(
                gpu.device,
                {name: cached.reading for name, cached in readings_of(gpu).items()},
                self.xids.counts(gpu.device.uuid).standing,
                up=gpu.answers(at.monotonic, self._pacing.stale),
                failure=gpu.failure or ("" if gpu.present else "not shown by the driver"),
                present=gpu.present,
                programs=self.xids.programs(gpu.device.uuid, at.unix),
                reset=self.xids.reset(gpu.device.uuid),
            )
            for gpu in self._gpus.all
        )
        self._faults.observe(
            at.unix,
            at.monotonic,
            gpus,
            state.refused,
            driver=not state.error,
            sxids=last_fatal(self.xids.switches),
            unclaimed=self.xids.unclaimed,
            booted=booted,
        )

    def _publish_snapshot(self, state: DriverState, result: AccountingResult, at: Moment, seconds: float) -> Snapshot:
        now, started = at
        gpus, stale = () if state.error == RELEASED else self._gpus.all, self._pacing.stale
        hung = {gpu.device.uuid: self._gpus.hung_seconds(gpu.device.uuid) for gpu in gpus}
        status = NodeStatus(
            time=now,
            interval=self._pacing.interval,
            cycle_seconds=seconds,
            cycles=self._cycles,
            driver_calls=self._driver.calls,
            simulated=self._driver.simulated,
            driver=state.versions[0],
            nvml=state.versions[1],
            cuda=state.versions[2],
            driver_error=state.error,
            driver_gpus=None if state.error else len(state.devices),
            enumerated_gpus=None if state.error else len(state.devices) + len(state.refused),
            pci_gpus=result.pci_gpus,
            gpus=tuple(gpu_statuses(gpus, hung, result, started, stale)),
            collectors=collector_statuses(self._collectors, self._gpus.outcomes(), self._gpus.rejected),
            sources=result.ownership.health,
            unattributed_processes=result.unattributed,
            dropped=result.dropped,
            process=self._process(),
            xid_sources=self.xids.sources(),
        )
        xids = tuple(self.xids.counts(gpu.device.uuid) for gpu in gpus)
        faults, switches = self._faults.status, self.xids.switches

        def series() -> Iterator[Block]:
            broken: set[str] = set()
            for gpu in gpus:
                yield from device_blocks(gpu, started, stale, broken)
            for gpu, counts in zip(gpus, xids, strict=True):
                yield from xid_blocks(gpu, counts)
            yield from (Block(family, (), switches) for family in SXID_FAMILIES if switches.seen)
            yield from result.blocks
            yield from (Block(family, (), faults) for family in FAULT_FAMILIES)
            yield from node_blocks(status, broken)

        return Snapshot(status, series, result.processes, started, self._faults.limits)


GOLDEN_RATIO = 0.618034
"""Random times have gaps; from a random one on, steps of this fill the cycle evenly, whatever period the load has."""


def read_times(number: int, phase: float) -> Sequence[float]:
    """Return the times of further reads as fractions of the cycle, at `phase` (0 to 1) of equal parts of it."""
    return [(place + phase) / number for place in range(number)]


class Loop:
    """Runs one cycle per interval and keeps the last snapshot.

    A cycle that takes longer than the interval delays the next one; missed cycles are not made up for. A bug in one
    cycle ends the thread, which is run again: the last snapshot is served meanwhile, with its age.
    """

    def __init__(
        self,
        run_cycle: Callable[[], Snapshot],
        interval: float,
        published: Callable[[Snapshot], None],
        extra_reads: Callable[[], int] = lambda: 0,
        read_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._run_cycle = run_cycle
        self._interval = interval
        self._published = published
        self._extra_reads, self._read_again = extra_reads, read_again
        self._phase = SystemRandom().random()
        self._stopped = threading.Event()
        self.snapshot = Snapshot()
        self.alive_at = monotonic_time()
        """Time at which the last cycle ended; before the first, at which the loop was made."""

    def start(self, threads: Threads) -> None:
        threads.start("sampler", self._run, longest_pause=self._interval)

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        due = monotonic_time()
        while not self._stopped.is_set():
            self.snapshot = self._run_cycle()
            self.alive_at = monotonic_time()
            self._published(self.snapshot)
            due = max(due + self._interval, monotonic_time())
            self._read_between(due)
            self._stopped.wait(due - monotonic_time())

    def _read_between(self, due: MonotonicTime) -> None:
        """Read again at times that no pattern of the load follows, each in its own part of the cycle."""
        self._phase = (self._phase + GOLDEN_RATIO) % 1.0
        for fraction in read_times(self._extra_reads(), self._phase):
            if self._stopped.wait(max(0.0, due - self._interval * (1.0 - fraction) - monotonic_time())):
                return
            self._read_again()
