"""A device in memory that answers by function name, and ready-made sets of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from exporter.collectors.base import AnyCollector, Tick
from exporter.core.families import Sample
from exporter.driver.interface import Device, DriverError, Mig, Record, UnsupportedError

ALL_LINKS = 0xFFFFFFFF


class FakeDevice(Device):
    """Answers are values, exceptions, or functions of the call's arguments; what is not there is unsupported.

    `fields` answers field values by (id, scope), `otherwise` all that is not in `answers`. `asked` records every call.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        fields: Mapping[tuple[int, int], Any] | None = None,
        instances: Iterable[Device] = (),
        uuid: str = "GPU-1",
        otherwise: DriverError | None = None,
    ) -> None:
        self.otherwise = otherwise
        self.index = 0
        self.uuid = uuid
        self.pci_bus_id = "0000:1a:00.0"
        self.minor = 0
        self.instances = tuple(instances)
        self.answers = dict(answers or {})
        self.fields = dict(fields or {})
        self.asked: list[tuple[Any, ...]] = []

    def call(self, function: str, *args: Any) -> Any:
        self.asked.append((function, *args))
        if function == "nvmlDeviceGetFieldValues" and function not in self.answers and not self.otherwise:
            return tuple(self.fields.get(entry) for entry in args[0])
        answer = self.answers.get(function, self.otherwise or UnsupportedError(function))
        if callable(answer):
            answer = answer(*args)
        if isinstance(answer, DriverError):
            raise answer
        return answer

    @property
    def functions(self) -> list[str]:
        return [function for function, *_ in self.asked]


class FakeInstance(FakeDevice):
    def __init__(self, answers: Mapping[str, Any] | None = None, uuid: str = "MIG-1") -> None:
        super().__init__(answers, uuid=uuid)
        self.parent_uuid = "GPU-1"
        self.mig = Mig(gpu_instance=1, compute_instance=0, profile="1g.10gb", share=1 / 7)


def by_argument(*answers: Any) -> Any:
    """An answer that depends on the call's last argument: the element of that index; None is unsupported."""

    def answer(*args: Any) -> Any:
        index = args[-1]
        found = answers[index] if index < len(answers) else None
        return UnsupportedError(str(index)) if found is None else found

    return answer


def samples(collector: AnyCollector, reading: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """What a reading publishes: value by labels, by family."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in collector.families:
        made: tuple[Sample, ...] = family.collect(reading)
        if made:
            found[family.name] = {sample.labels: sample.value for sample in made}
    return found


def first(collector: AnyCollector, device: Device) -> dict[str, dict[tuple[str, ...], float]]:
    return samples(collector, collector.read(device, None, Tick(1000.0, 0.0)))


def cycles(collector: AnyCollector, device: Device, count: int, every: float = 1.0) -> list[Any]:
    """The readings of `count` cycles."""
    readings: list[Any] = []
    for number in range(count):
        tick = Tick(1000.0 + number * every, every if number else 0.0)
        readings.append(collector.read(device, readings[-1] if readings else None, tick))
    return readings


def hopper() -> FakeDevice:
    """An H200 on R570: answers to everything the collectors ask of such a GPU."""
    percents = {1: 90.0, 2: 80.0, 3: 40.0, 5: 50.0, 10: 30.0, 11: 0.0, 12: 10.0, 13: 5.0, 4: 2.0}
    gpm = {**percents, 20: 100.0, 21: 200.0, 60: 1000.0, 61: 2000.0}
    links = range(18)
    fields: dict[tuple[int, int], Any] = {
        **{(field, 0): 0 for field in (3, 4, 5, 6, *range(7, 18))},
        (74, 0): 5_000_000_000,
        (76, 0): 0,
        (77, 0): 0,
        (78, 0): 0,
        (79, 0): 0,
        (82, 0): 60,
        (90, 0): 26562,
        (91, 0): 18,
        (94, 0): 3,
        **{(field, 0): 0 for field in range(173, 184)},
        (193, 0): -8,
        (194, 0): -2,
        (196, 0): 0,
        (197, 0): 1000,
        (198, 0): 2000,
        (138, ALL_LINKS): 10,
        (139, ALL_LINKS): 20,
        (230, 0): 0,
        **{(165, link): 1 for link in links},
        **{(field, link): 0 for field in (161, 162, 163) for link in links},
    }
    answers: dict[str, Any] = {
        "nvmlSystemGetDriverVersion": "570.148.08",
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetSerial": "1650000000000",
        "nvmlDeviceGetVbiosVersion": "96.00.B7.00.01",
        "nvmlDeviceGetArchitecture": 9,
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetMemoryAffinity": (2, 0, 0, 0),
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetMigMode": (0, 0),
        "nvmlDeviceGetEccMode": (1, 1),
        "nvmlDeviceGetMemoryInfo": Record(total=1500, reserved=100, free=400, used=1000),
        "nvmlDeviceGetBAR1MemoryInfo": Record(bar1Total=2000, bar1Free=1990, bar1Used=10),
        "nvmlDeviceGetUtilizationRates": Record(gpu=97, memory=35),
        "nvmlDeviceGetSamples": (),
        "nvmlDeviceGetEncoderUtilization": (0, 167000),
        "nvmlDeviceGetDecoderUtilization": (50, 167000),
        "nvmlDeviceGetJpgUtilization": (0, 167000),
        "nvmlDeviceGetOfaUtilization": (0, 167000),
        "nvmlGpmMetricsGet": gpm,
        "nvmlDeviceGetPowerUsage": 650_500,
        "nvmlDeviceGetTotalEnergyConsumption": 123_456_789,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
        "nvmlDeviceGetPowerManagementLimitConstraints": (200_000, 700_000),
        "nvmlDeviceGetClockInfo": by_argument(1980, 1980, 3201, 1545),
        "nvmlDeviceGetMaxClockInfo": by_argument(1980, 1980, 3201, 1545),
        "nvmlDeviceGetPerformanceState": 0,
        "nvmlDeviceGetTemperatureV": Record(temperature=55),
        "nvmlDeviceGetMarginTemperature": 32,
        "nvmlDeviceGetNumFans": 0,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
        "nvmlDeviceGetSupportedClocksEventReasons": 0x1FF,
        "nvmlDeviceGetViolationStatus": by_argument(None, Record(referenceTime=1, violationTime=7_000_000_000)),
        "nvmlDeviceGetCurrPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetMemoryErrorCounter": 0,
        "nvmlDeviceGetSramEccErrorStatus": Record(bThresholdExceeded=0),
        "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
        "nvmlDeviceGetRowRemapperHistogram": Record(max=2560, high=0, partial=0, low=0, none=0),
        "nvmlDeviceGetGpuFabricInfoV": Record(state=3, status=0, healthMask=0b0001_10101010),
        "nvmlDeviceGetComputeRunningProcesses": (Record(pid=4242, usedGpuMemory=900),),
        "nvmlDeviceGetGraphicsRunningProcesses": (),
        "nvmlDeviceGetMPSComputeRunningProcesses": (),
        "nvmlDeviceGetProcessUtilization": (),
    }
    return FakeDevice(answers, fields)
