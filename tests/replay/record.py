"""Lets the exporter's own parts sample a simulated node on a compressed clock, and writes what a scrape would show.

The parts are those of a cycle (readers, accounts, families); only the threads and the deadline of the real loop are
left out, since they wait on the real clock. A GPU whose calls hang is left unread, which is what the deadline does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from deploy.prometheus.targets import TARGETS
from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.collectors.xid import XidCounts, count_xid
from exporter.core.clock import Moment
from exporter.core.families import Block, in_columns
from exporter.driver.interface import Device, DriverGoneError, Record, UnsupportedError
from exporter.faults.families import FAULT_FAMILIES
from exporter.sampling.accounting import Accounting, AccountingOptions, AccountingResult
from exporter.sampling.blocks import collector_statuses, device_blocks, node_blocks, xid_blocks
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import CollectorResult, LastAnswers, read_gpu
from exporter.sampling.snapshot import GpuStatus, NodeStatus
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.driver import SimulatedDriver, SimulatedHost
from exporter.tools.simulator.gpu import Gpu as SimulatedGpu
from exporter.tools.simulator.spec import parse
from tests.replay.cures import Cure, KeptFaults

_GRACE_SECONDS = 10.0
"""Seconds after its last answer that a late GPU counts as there: the default of --sample.stale."""
_UNUSED = {"gpm", "engines", "clocks", "fabric"}
"""Collectors that no alert on a planted fault asks: left out, for time."""
_XIDS = {"13", "31", "48", "63", "64", "74", "79", "94"}
"""XIDs that are written; the others stay at 0 all the time."""


class Averaged(Device):
    """A GPU whose utilization reading is the mean since the last one, as cycles every second would make it.

    One reading in two minutes would be a guess, and the driver's buffer of samples reaches back seconds only. The
    ledger takes it as it is; `gpu_busy_seconds_total` counts no more than some seconds of it, as it must.
    """

    def __init__(self, device: Device, gpu: SimulatedGpu) -> None:
        self._device = device
        self._gpu = gpu
        self._last: tuple[float, float] | None = None
        self._time = 0.0
        self.index, self.uuid, self.minor = device.index, device.uuid, device.minor
        self.pci_bus_id = device.pci_bus_id

    def at(self, time: float) -> Averaged:
        """The GPU, `time` seconds after the start of the simulation."""
        self._time = time
        return self

    def call(self, function: str, *args: object) -> object:
        if "Samples" in function or function.startswith("nvmlDeviceGetProcess"):
            raise UnsupportedError(f"{function}: left out", "NOT_SUPPORTED")
        answer = self._device.call(function, *args)
        if function != "nvmlDeviceGetUtilizationRates":
            return answer
        total = sum(target.track.total(Channel.BUSY, self._time) for target in self._gpu.targets)
        before, self._last = self._last, (self._time, total)
        if before is None or before[0] >= self._time:
            return answer
        return Record(gpu=100 * (total - before[1]) / (self._time - before[0]), memory=answer.memory)


class CompressedNode:
    """One node of a scenario file; `step` samples it once at a given time."""

    def __init__(
        self, scenario: Path, name: str, interval: float, wanted: Iterable[str], cures: Iterable[Cure] = ()
    ) -> None:
        self.now = 0.0
        self.name = name
        self._interval = interval
        self._wanted = frozenset(wanted)
        self._driver = SimulatedDriver(parse(f"@{scenario};node={name}"), lambda: self.now, lambda _: None)
        self._node = SimulatedHost(self._driver.node)
        self._collectors = tuple(each for each in COLLECTORS if each.name not in _UNUSED)
        self._accounts = Accounting(AccountingOptions(interval=interval), workload_families(()))
        self._devices = {
            device.uuid: Averaged(device, self._driver._gpus[device.index]) for device in self._driver._devices
        }
        self._gpus: dict[str, Gpu] = {}
        self._xids: dict[str, XidCounts] = {}
        self._outcomes: dict[str, list[CollectorResult]] = {}
        self._memories: dict[str, LastAnswers] = {}
        self._cycles = 0
        self._faults = KeptFaults(cures)

    def step(self, now: float) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], float]]:
        """Sample at `now`; gives the wanted samples as name, label names, label values and value."""
        self.now = now
        self._outcomes = {}
        error = self._read(now)
        settlement = self._accounts.update(tuple(self._gpus.values()), self._node, Moment(now, now))
        self._cycles += 1
        for block in self._blocks(settlement, error, now):
            if block.family.name in self._wanted:
                names = block.family.all_labels
                for value, labels in block.samples:
                    yield block.family.name, names, (*block.prefix, *labels), value

    def _read(self, now: float) -> str:
        try:
            time = now - self._driver.epoch
            devices = {device.uuid: self._devices[device.uuid].at(time) for device in self._driver.devices()}
            for event in self._driver.events(0):
                self._xids[event.uuid] = count_xid(self._xids.get(event.uuid, XidCounts()), event, "nvml")
            error = ""
        except DriverGoneError as gone:
            devices, error = {}, gone.code
        known = {uuid: gpu.device for uuid, gpu in self._gpus.items()} | devices
        for uuid, device in known.items():
            gpu = replace(self._gpus.get(uuid, Gpu(device)), present=uuid in devices, reading=False)
            self._gpus[uuid] = self._sampled(gpu, now) if uuid in devices else gpu
        return error

    def _sampled(self, gpu: Gpu, now: float) -> Gpu:
        if self._hangs(gpu.device, now):
            return replace(gpu, failure="HUNG")
        memories = self._memories.setdefault(gpu.device.uuid, {})
        result = read_gpu(gpu.device, gpu.states, self._collectors, now, now, memories)
        for outcome in result.outcomes:
            self._outcomes.setdefault(outcome.collector, []).append(outcome)
        alive = result.answered and not result.device_error
        return replace(
            gpu,
            states=result.states,
            answered=now if alive else gpu.answered,
            reading=alive,
            failure=result.device_error.code if result.device_error else "",
        )

    def _hangs(self, device: Device, now: float) -> bool:
        time = now - self._driver.epoch
        faults = self._driver.scenario.faults
        return any(each.kind.name == "hang" and each.concerns(device.index) and each.active(time) for each in faults)

    def _blocks(self, settlement: AccountingResult, error: str, now: float) -> Iterator[Block]:
        for gpu in self._gpus.values():
            yield from device_blocks(gpu, now, 3 * self._interval)
            yield from (_few(block) for block in xid_blocks(gpu, self._xids.get(gpu.device.uuid, XidCounts())))
        yield from settlement.blocks
        xids = {uuid: counts.standing for uuid, counts in self._xids.items()}
        kept = self._faults.observe(now, self._gpus.values(), xids, driver=not error)
        yield from (Block(family, (), kept) for family in FAULT_FAMILIES)
        yield from node_blocks(self._status(settlement, error, now))

    def _status(self, settlement: AccountingResult, error: str, now: float) -> NodeStatus:
        gpus = tuple(self._gpu(gpu, settlement, now) for gpu in self._gpus.values())
        return NodeStatus(
            time=now,
            cycles=self._cycles,
            driver_error=error,
            driver="580.95.05",
            driver_gpus=None if error else sum(gpu.present for gpu in self._gpus.values()),
            pci_gpus=settlement.pci_gpus,
            gpus=gpus,
            collectors=collector_statuses(self._collectors, chain(*self._outcomes.values()), {}),
            sources=settlement.ownership.health,
        )

    @staticmethod
    def _gpu(gpu: Gpu, settlement: AccountingResult, now: float) -> GpuStatus:
        uuid = gpu.device.uuid
        up = gpu.answers(now, _GRACE_SECONDS)
        leaked = settlement.unattributed_bytes.get(uuid) if up else None
        return GpuStatus(gpu.device.index, uuid, "H100", up, now - gpu.answered, unattributed_bytes=leaked)


def _few(block: Block) -> Block:
    samples = [(sample.value, sample.labels) for sample in block.samples if sample.labels[0] in _XIDS]
    return Block(block.family, block.prefix, in_columns(samples))


@dataclass(frozen=True, slots=True)
class Series:
    """Text of the samples of one node; the part in front of each value is made once."""

    node: str
    texts: dict[tuple[str, tuple[str, ...]], str]

    def line(self, name: str, names: tuple[str, ...], values: tuple[str, ...], value: float, now: float) -> str:
        key = (name, values)
        start = self.texts.get(key)
        if start is None:
            labels = {"cluster": "c1", "job": "gpu-exporter", "node": self.node, "instance": f"{self.node}:9836"}
            labels |= {label: text for label, text in zip(names, values, strict=True) if text}
            inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
            start = self.texts[key] = f"{name}{{{inside}}} "
        return f"{start}{float(value)!r} {now:.0f}\n"


def record(
    scenario: Path,
    node: str,
    times: Iterable[float],
    wanted: Iterable[str],
    down: Iterable[range],
    cures: Iterable[Cure] = (),
) -> Iterator[str]:
    """Yield the samples of one node as OpenMetrics lines, in order of time.

    While `down` (Unix seconds) `up` is 0, and only what the rules record of the target is there besides.
    """
    times, down = tuple(times), tuple(down)
    compressed = CompressedNode(scenario, node, times[1] - times[0], wanted, cures)
    series = Series(node, {})
    for now in times:
        alive = not any(int(now) in each for each in down)
        yield series.line("up", (), (), float(alive), now)
        yield series.line(TARGETS.record, (), (), 1.0, now)
        samples = list(compressed.step(now))
        if alive:
            yield from (series.line(*sample, now) for sample in samples)
