"""The simulated driver: answers by NVML function name like the real one, for machines without a GPU."""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from typing import Any

from exporter.core.clock import UnixTime
from exporter.driver.interface import Device, DeviceLostError, Driver, DriverGoneError, UnsupportedError, XidEvent
from exporter.tools.simulator.devices import SimulatedGpu
from exporter.tools.simulator.gpu import Gpu
from exporter.tools.simulator.node import SimulatedNode, elapsed
from exporter.tools.simulator.scenario import Scenario

_HANG_STEP = 0.1
_EVENT_STEP = 0.1
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
            found = self._between(self._seen, now)
            self._seen = max(now, self._seen)
            if found or self._clock() >= deadline:
                return found
            self._sleep(min(_EVENT_STEP, max(0.0, deadline - self._clock())))

    def _between(self, after: float, now: float) -> tuple[XidEvent, ...]:
        found = [
            XidEvent(gpu.uuid, fault.xid or fault.kind.xid, UnixTime(self.epoch + fault.at))
            for gpu in self._gpus
            for fault in gpu.faults
            if (fault.xid or fault.kind.xid) and after < fault.at <= now
        ]
        return tuple(sorted(found, key=lambda event: event.timestamp))

    def _refuse_when_gone(self, now: float) -> None:
        if any(fault.active(now) for fault in self._outages):
            raise DriverGoneError("the simulated driver is not loaded")

    def wait_while_hung(self, gpu: Gpu) -> None:
        while gpu.has("hang", self.now()):
            self._sleep(_HANG_STEP)

    def ready(self, gpu: Gpu) -> float:
        """The time at which a call about this GPU is answered, or the error that is its answer."""
        self._refuse_when_gone(self.now())
        self.wait_while_hung(gpu)
        now = self.now()
        if gpu.has("lost", now):
            raise DeviceLostError(f"GPU {gpu.index} is lost")
        return now
