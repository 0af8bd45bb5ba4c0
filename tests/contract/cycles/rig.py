"""The real sampler over scripted GPUs and a scripted node, cycle by cycle on a clock of its own."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields

from exporter.accounting.writer import NodeAccounting
from exporter.attribution.families import workload_families
from exporter.attribution.work_class import ClassRule
from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.threads import Threads
from exporter.driver.interface import Device, Driver, DriverError, UnsupportedError, XidEvent
from exporter.exposition.page import Renderer
from exporter.faults.watch import FaultTracker, FaultWatchConfig
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import HostDeadline
from exporter.sampling.sampler import Pacing, Sampler
from exporter.sampling.snapshot import GpuStatus, NodeStatus, Snapshot
from tests.contract.cycles.node import ScriptedNode
from tests.unit.collectors.answers import FakeDevice, hopper

BEGIN = 1_700_000_000.0
UPTIME = 5_000.0
"""Time of the monotonic clock at the first cycle."""
DEADLINE = 30.0
"""Seconds of this machine that GPUs and node may take: no case is about that."""
_TIMED = {"time", "cycle_seconds", "interval", "driver_calls", "cycles", "collectors", "gpus", "process"}
"""Of the status: what the machine's speed decides, and what the text shows by itself."""

_USUAL = re.compile(r'gpu_\w+\{.*\bstate="\w+".*\} 0\.0$|gpu_scrape_collector_success\{collector="\w+"\} 1\.0$')
"""Samples that each state or collector has."""


def gpu(index: int, **answers: object) -> FakeDevice:
    """An H200 that has been on for a while."""
    device = hopper()
    device.index, device.uuid, device.minor = index, f"GPU-{index}", index
    device.pci_bus_id = f"0000:{index + 1:02x}:00.0"
    device.answers |= {f"nvmlDeviceGet{name}": value for name, value in answers.items()}
    return device


class ScriptedDriver(Driver):
    def __init__(self, *gpus: FakeDevice) -> None:
        self.gpus: tuple[Device, ...] = gpus
        self.failure: DriverError | None = None
        """Why it can neither be opened nor asked for its GPUs."""
        self.answers = {
            "nvmlSystemGetDriverVersion": "570.148.08",
            "nvmlSystemGetNVMLVersion": "12.570.148.08",
            "nvmlSystemGetCudaDriverVersion": 12080,
        }

    @property
    def calls(self) -> int:
        return 7

    def open(self) -> None:
        if self.failure:
            raise self.failure

    def close(self) -> None:
        """Nothing to close."""

    def devices(self) -> tuple[Device, ...]:
        self.open()
        return self.gpus

    def call(self, function: str, *args: object) -> object:
        if args or function not in self.answers:
            raise UnsupportedError(function)
        return self.answers[function]

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        raise UnsupportedError(f"events {timeout}")


@dataclass
class Rig:
    """Change `gpus` and `node` between cycles."""

    gpus: list[FakeDevice]
    node: ScriptedNode
    process_limit: int = 64
    class_rules: tuple[ClassRule, ...] = ()
    pod_labels: tuple[str, ...] = ()
    site: FaultWatchConfig = field(default_factory=FaultWatchConfig)
    accounting: NodeAccounting | None = None

    def __post_init__(self) -> None:
        self.driver = ScriptedDriver(*self.gpus)
        self.seconds = 0.0
        self.every_second: list[Callable[[], None]] = []
        """What happens on the machine before each cycle."""
        options = AccountingOptions(1.0, 10.0, self.process_limit, class_rules=self.class_rules)
        self._faults = FaultTracker(self.site)
        self._deadline = HostDeadline(self.node, DEADLINE, DEADLINE)
        self.sampler = Sampler(
            self.driver,
            self._deadline,
            COLLECTORS,
            Pacing(1.0, DEADLINE, 10.0),
            Accounting(options, workload_families(self.pod_labels), self.accounting),
            faults=self._faults,
        )
        self._deadline.start(Threads())
        self.enumerate()
        self.snapshot = Snapshot()

    def enumerate(self) -> None:
        """Have the driver's GPUs enumerated now, which is a thread's work otherwise."""
        self.driver.gpus = tuple(self.gpus)
        self.sampler.connection._attempt()
        self.sampler.connection.first.set()

    def cycles(self, count: int = 1, every: float = 1.0) -> None:
        for _ in range(count):
            at = Moment(UnixTime(BEGIN + self.seconds), MonotonicTime(UPTIME + self.seconds))
            for happens in self.every_second:
                happens()
            self.snapshot = self.sampler.run_cycle(at)
            assert self.node.moments <= {at}, "the node was asked about another moment"
            self.node.moments.clear()
            if self._faults._saver:  # a thread's work otherwise
                self._faults._saver.save_once()
            self.seconds += every

    def text(self, *families: str) -> str:
        """The families whose names match one of the patterns, without states of zero and collectors that succeed."""
        return "".join(f"{line}\n" for line in self.page() if _matches(line, families) and not _USUAL.match(line))

    def page(self) -> list[str]:
        """The lines that Prometheus reads."""
        text = Renderer().render(self.snapshot.blocks, "")[1].decode()
        return text.replace(platform.python_version(), "3").splitlines()

    def stop(self) -> None:
        self.sampler.stop()


def _matches(line: str, families: Iterable[str]) -> bool:
    name = line.split()[2] if line.startswith("#") else re.split(r"[{ ]", line)[0]
    return not line.startswith("# HELP") and any(re.fullmatch(pattern, name) for pattern in families)


def status_lines(status: NodeStatus) -> Iterator[str]:
    """What the status page is drawn from."""
    yield "status " + " ".join(f"{name}={value!r}" for name, value in _plain(status, _TIMED))
    for each in status.gpus:
        yield "gpu " + " ".join(f"{name}={value!r}" for name, value in _plain(each, {"hung_seconds"}))
    for each in status.collectors:
        if not each.success or each.rejected:
            yield f"collector {each.name} success={each.success} rejected={each.rejected}"


def _plain(record: NodeStatus | GpuStatus, without: Iterable[str]) -> Iterator[tuple[str, object]]:
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name == "owners":
            value = {owner.workload: share for owner, share in value}
        elif each.name == "states":
            value = {state: seconds for state, seconds in value.items() if seconds}
        elif each.name == "sources":
            value = [f"{source.source}:{source.success}:{source.age:g}" for source in value]
        if each.name not in without:
            yield each.name, value
