"""The simulated driver and its devices: answers by NVML function name, for machines without a GPU."""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from exporter.core.clock import NEVER, MonotonicTime, UnixTime
from exporter.core.units import Fraction
from exporter.driver.interface import (
    Device,
    DeviceLostError,
    Driver,
    DriverGoneError,
    Mig,
    Record,
    UnsupportedError,
    XidEvent,
)
from exporter.host.network_ports import NO_PORTS, READ_SECONDS, GpuSeat, NetworkPorts, PortWatch
from exporter.ledger.states import HOST_SIGNALS
from exporter.progress.progress import Progress, Reported
from exporter.sampling.host_view import ExitedProcesses, Host, HostQuestion, HostView
from exporter.tools.simulator.answers import FUNCTIONS, bar1_record, memory_record, process_records, refuse, unsupported
from exporter.tools.simulator.gpu import Gpu, Target
from exporter.tools.simulator.node import SimulatedNode, elapsed
from exporter.tools.simulator.sampling import gpm, process_samples, samples
from exporter.tools.simulator.scenario import Scenario


class SimulatedHost(Host):
    """Answers for a machine that exists in the simulation alone."""

    def __init__(self, machine: SimulatedNode) -> None:
        self._machine = machine
        self._exited = ExitedProcesses()
        self._last: MonotonicTime | None = None
        self._watch = PortWatch()
        self._ports: tuple[MonotonicTime, NetworkPorts] = (NEVER, NO_PORTS)

    def view(self, question: HostQuestion) -> HostView:
        unix, monotonic = float(question.at.unix), question.at.monotonic
        known = self._machine.processes(unix)
        processes = {pid: known[pid] for pid in question.pids if pid in known}
        seconds = monotonic - self._last if self._last is not None else 0.0
        self._last = monotonic
        return HostView(
            processes=processes,
            running=self._exited.remaining(question.listed, processes),
            ownership=self._machine.ownership(unix),
            usage=self._machine.usage(unix),
            signals=self._machine.signals(unix, seconds),
            known_signals=HOST_SIGNALS,
            reported=Reported(
                {
                    owner: Progress({"samples": each.samples, "steps": each.steps}, ratio=each.ratio)
                    for owner, each in self._machine.progress(unix).items()
                }
            ),
            pci_gpus=self._machine.pci_count,
            ports=self._network_ports(question),
        )

    def _network_ports(self, question: HostQuestion) -> NetworkPorts:
        """Return the network ports, as often as those of a real machine are read."""
        unix, monotonic = float(question.at.unix), question.at.monotonic
        if monotonic - self._ports[0] >= READ_SECONDS:
            paths = self._machine.pci_paths()
            seats = [GpuSeat(gpu.index, gpu.uuid, paths[gpu.uuid]) for gpu in question.gpus if gpu.uuid in paths]
            self._ports = (monotonic, self._watch.update(self._machine.ports(unix), seats, monotonic))
        return self._ports[1]


_GPM_SINCE, _DETAILS_SINCE = 525, 550


class Moments(Protocol):
    """The driver behind a device."""

    epoch: float
    """Unix seconds of the start."""

    def now(self) -> float:
        """Seconds since the start."""
        ...

    def ready(self, gpu: Gpu) -> float:
        """The time at which a call about this GPU is answered, or the error that is its answer."""
        ...

    def system(self, function: str, *args: Any) -> Any: ...


class _SimulatedDevice(Device):
    def __init__(self, gpu: Gpu, uuid: str, clock: Moments) -> None:
        self._gpu = gpu
        self._moments = clock
        self._gpm_at: float | None = None
        self.index = self.minor = gpu.index
        self.uuid = uuid
        self.pci_bus_id = gpu.pci_bus_id

    def _gpm_metrics(self, target: Target, now: float, metrics: Any) -> dict[int, float]:
        if not self._gpu.model.gpm or self._gpu.branch < _GPM_SINCE:
            raise unsupported("GPM")
        before, self._gpm_at = self._gpm_at, now
        return {} if before is None or before >= now else gpm(self._gpu, target, metrics, before, now)


class SimulatedGpu(_SimulatedDevice):
    def __init__(self, gpu: Gpu, clock: Moments) -> None:
        super().__init__(gpu, gpu.uuid, clock)
        if gpu.mig:
            self.instances = tuple(
                SimulatedInstance(gpu, target, uuid, clock)
                for target, uuid in zip(gpu.targets, gpu.instance_uuids, strict=True)
            )

    @property
    def lost(self) -> bool:
        return self._gpu.has("lost", self._moments.now())

    def call(self, function: str, *args: Any) -> Any:
        now = self._moments.ready(self._gpu)
        entry = FUNCTIONS.get(function)
        if entry is not None:
            if self._gpu.branch < entry.since:
                raise UnsupportedError(f"{function}: not in driver {self._gpu.driver}", "FUNCTION_NOT_FOUND")
            return entry.answer(self._gpu, now, *args)
        if function == "nvmlDeviceGetSamples":
            return self._samples(now, *args)
        if function in {"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"}:
            if self._gpu.mig or (function.endswith("Info") and self._gpu.branch < _DETAILS_SINCE):
                raise unsupported(function)
            return process_samples(self._gpu.targets[0], self._moments.epoch, now, *args)
        if function == "nvmlGpmMetricsGet":
            return refuse("GPM") if self._gpu.mig else self._gpm_metrics(self._gpu.targets[0], now, *args)
        return self._moments.system(function, *args)

    def _samples(self, now: float, type_: int, after: int) -> tuple[tuple[int, float], ...]:
        found = samples(self._gpu, self._moments.epoch, now, type_, after)
        if found is None:
            raise unsupported(f"samples of type {type_}")
        return found


class SimulatedInstance(_SimulatedDevice):
    def __init__(self, gpu: Gpu, target: Target, uuid: str, clock: Moments) -> None:
        super().__init__(gpu, uuid, clock)
        self._target = target
        self.parent_uuid = gpu.uuid
        if target.slice:
            self.mig = Mig(target.slice.gpu_instance, 0, target.slice.profile, Fraction(target.share))

    def call(self, function: str, *args: Any) -> Any:
        now = self._moments.ready(self._gpu)
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetName": lambda: f"{self._gpu.model.name} MIG {self.mig.profile if self.mig else ''}",
            "nvmlDeviceGetUUID": lambda: self.uuid,
            "nvmlDeviceGetAttributes_v2": lambda: self._attributes(now),
            "nvmlDeviceGetAttributes": lambda: self._attributes(now),
            "nvmlDeviceGetMemoryInfo": lambda *_: memory_record(self._target.memory(now)),
            "nvmlDeviceGetBAR1MemoryInfo": lambda: bar1_record(self._gpu, self._target, now),
            "nvmlDeviceGetComputeRunningProcesses": lambda: process_records(self._target.processes(now), self._target),
            "nvmlDeviceGetGraphicsRunningProcesses": tuple[Record, ...],
            "nvmlDeviceGetMPSComputeRunningProcesses": tuple[Record, ...],
            "nvmlDeviceGetMemoryErrorCounter": lambda *_: 0,
            "nvmlGpmMetricsGet": partial(self._gpm_metrics, self._target, now),
        }
        if function not in answers:
            raise unsupported(f"{function} on a MIG instance")
        return answers[function](*args)

    def _attributes(self, now: float) -> Record:
        total = self._target.memory(now).total
        slices = self._target.slice.slices if self._target.slice else 7
        return Record(
            multiprocessorCount=self._gpu.model.sms * slices // 7 // 2 * 2,
            sharedCopyEngineCount=slices,
            sharedDecoderCount=slices // 2,
            sharedEncoderCount=0,
            sharedJpegCount=0,
            sharedOfaCount=0,
            gpuInstanceSliceCount=slices,
            computeInstanceSliceCount=slices,
            memorySizeMB=total // (1024 * 1024),
        )


_HANG_STEP_SECONDS = 0.1
_EVENT_STEP_SECONDS = 0.1
_CUDA_VERSIONS = (
    # branch  CUDA, as NVML writes it
    (615, 13050), (610, 13030), (595, 13020), (590, 13010), (580, 13000), (575, 12090), (570, 12080), (565, 12070),
    (560, 12060), (555, 12050), (550, 12040), (545, 12030), (535, 12020), (530, 12010), (525, 12000), (520, 11080),
    (515, 11070), (510, 11060), (495, 11050), (470, 11040), (460, 11020), (450, 11000),
)  # fmt: skip


class SimulatedDriver(Driver):
    """Deterministic: the same scenario and clock give the same answers. `clock` is Unix seconds."""

    simulated = True

    def __init__(
        self,
        scenario: Scenario,
        clock: Callable[[], float] = wall.time,
        sleep: Callable[[float], None] = wall.sleep,
    ) -> None:
        self.scenario = scenario
        self.epoch = clock() if scenario.start is None else scenario.start
        self._clock = clock
        self._sleep = sleep
        self._gpus = tuple(Gpu(index, scenario) for index in range(len(scenario.gpus)))
        self._devices = tuple(SimulatedGpu(gpu, self) for gpu in self._gpus)
        self.node = SimulatedNode(scenario, self._gpus, self.epoch)
        self._outages = tuple(fault for fault in scenario.faults if fault.kind.name == "driver-gone")
        self._seen = 0.0
        self._opened = False

    @property
    def node_name(self) -> str:
        return self.node.name

    def host(self) -> SimulatedHost:
        return SimulatedHost(self.node)

    def now(self) -> float:
        return elapsed(self.epoch, self._clock())

    def open(self) -> None:
        self._refuse_when_gone(self.now())
        self._opened = True

    def close(self) -> None:
        self._opened = False

    def devices(self) -> tuple[Device, ...]:
        self._refuse_when_gone(self.now())
        return tuple(device for device in self._devices if not device.lost)

    def call(self, function: str, *args: Any) -> Any:
        self._refuse_when_gone(self.now())
        return self.system(function, *args)

    def system(self, function: str, *args: Any) -> Any:
        del args
        branch = int(self.scenario.driver.split(".")[0])
        answers = {
            "nvmlSystemGetDriverVersion": self.scenario.driver,
            "nvmlSystemGetNVMLVersion": f"{13 if branch >= 580 else 12}.{self.scenario.driver}",  # noqa: PLR2004
            "nvmlSystemGetCudaDriverVersion": next((cuda for since, cuda in _CUDA_VERSIONS if branch >= since), 10020),
            "nvmlDeviceGetCount": sum(not device.lost for device in self._devices),
        }
        answers["nvmlSystemGetCudaDriverVersion_v2"] = answers["nvmlSystemGetCudaDriverVersion"]
        if function not in answers:
            raise UnsupportedError(f"{function}: not in the simulated driver", "FUNCTION_NOT_FOUND")
        return answers[function]

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        deadline = self._clock() + timeout
        while True:
            now = self.now()
            self._refuse_when_gone(now)
            found = [
                XidEvent(gpu.uuid, fault.xid or fault.kind.xid, UnixTime(self.epoch + fault.at))
                for gpu in self._gpus
                for fault in gpu.faults
                if (fault.xid or fault.kind.xid) and self._seen < fault.at <= now
            ]
            self._seen = max(now, self._seen)
            if found or self._clock() >= deadline:
                return tuple(sorted(found, key=lambda event: event.timestamp))
            self._sleep(min(_EVENT_STEP_SECONDS, max(0.0, deadline - self._clock())))

    def _refuse_when_gone(self, now: float) -> None:
        if any(fault.active(now) for fault in self._outages):
            raise DriverGoneError("the simulated driver is not loaded")

    def ready(self, gpu: Gpu) -> float:
        """The time at which a call about this GPU is answered, or the error that is its answer."""
        self._refuse_when_gone(self.now())
        while gpu.has("hang", self.now()):
            self._sleep(_HANG_STEP_SECONDS)
        now = self.now()
        if gpu.has("lost", now):
            raise DeviceLostError(f"GPU {gpu.index} is lost")
        return now
