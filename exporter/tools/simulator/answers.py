# ruff: noqa: E501 - the table of functions
"""NVML functions by name: what a simulated GPU answers, in NVML's units, and since which driver branch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.driver.interface import Record, UnsupportedError
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.fields import field_value, link_up
from exporter.tools.simulator.gpu import RATE_WINDOW_SECONDS, Gpu, MemoryState, Target
from exporter.tools.simulator.models import ADA, AMPERE, HOPPER, MIB, TURING


def unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: not supported by this simulated GPU")


def refuse(what: str) -> Any:
    raise unsupported(what)


def ecc_total(gpu: Gpu, time: float, type_: int, counter: int) -> int:
    field = {(0, 0): 3, (1, 0): 4, (0, 1): 5, (1, 1): 6}.get((type_, counter))
    value = None if field is None else field_value(gpu, field, 0, time)
    return refuse("ECC") if value is None else int(value)


def ecc_location(gpu: Gpu, time: float, type_: int, counter: int, location: int) -> int:
    """Device memory (2) has the errors; other locations have none."""
    if location == 2:  # noqa: PLR2004 - NVML_MEMORY_LOCATION_DRAM
        return ecc_total(gpu, time, type_, counter)
    return 0 if gpu.model.ecc else refuse("ECC")


def sram(gpu: Gpu) -> Record:
    if gpu.model.architecture < AMPERE or not gpu.model.ecc:
        raise unsupported("SRAM ECC status")
    names = ("aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed",
             "volatileCor", "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie",
             "aggregateUncBucketMcu", "aggregateUncBucketOther", "bThresholdExceeded")  # fmt: skip
    return Record(**dict.fromkeys(names, 0))


def remapped(gpu: Gpu, time: float) -> tuple[int, ...]:
    values = [field_value(gpu, field, 0, time) for field in (142, 143, 144, 145)]
    return tuple(int(value) if value is not None else refuse("remapped rows") for value in values)


def histogram(gpu: Gpu, time: float) -> Record:
    _, _, _, failed = remapped(gpu, time)
    return Record(max=639 if failed else 640, high=0, partial=0, low=0, none=1 if failed else 0)


def retired(gpu: Gpu, time: float, cause: int) -> tuple[int, ...]:
    """One page retired in each board's life, for single bit errors (cause 0)."""
    if field_value(gpu, 29, 0, time) is None:
        raise unsupported("retired pages")
    return (0x1A2B3000,) if cause == 0 else ()


def clock(gpu: Gpu, time: float, domain: int, *, highest: bool = False) -> int:
    now = gpu.model.clock if highest else gpu.clock(time)
    slow = now == gpu.model.idle_clock and not gpu.model.hbm
    return {
        0: now,
        1: now,
        2: 405 if slow else gpu.model.memory_clock,
        3: int(now * 0.9),
    }.get(domain) or refuse(f"clock {domain}")


def performance_state(gpu: Gpu, time: float) -> int:
    return 8 if not gpu.model.hbm and gpu.clock(time) == gpu.model.idle_clock else 0


_REASONS = (
    # channel                bits while it advances
    (Channel.SW_POWER,       0x4),
    (Channel.SW_THERMAL,     0x20),
    (Channel.HW_THERMAL,     0x48),
    (Channel.POWER_BRAKE,    0x88),
)  # fmt: skip


def reasons(gpu: Gpu, time: float) -> int:
    found = 0
    for channel, bits in _REASONS:
        if gpu.mean(channel, time, RATE_WINDOW_SECONDS) > 0:
            found |= bits
    return found or (1 if gpu.busy(time, RATE_WINDOW_SECONDS) == 0 else 0)


_POLICIES: Mapping[int, tuple[Channel, ...]] = {
    **dict.fromkeys(range(6), ()),
    0: (Channel.SW_POWER,),
    1: (Channel.SW_THERMAL, Channel.HW_THERMAL),
}


def violation(gpu: Gpu, time: float, policy: int) -> Record:
    if policy not in _POLICIES:
        raise unsupported(f"policy {policy}")
    seconds = sum(gpu.total(channel, time) for channel in _POLICIES[policy]) / len(gpu.targets)
    return Record(referenceTime=int(time * 1e6), violationTime=int(seconds * 1e9))


def temperature(gpu: Gpu, time: float, sensor: int = 0) -> int:
    return int(gpu.temperature(time)) if sensor == 0 else refuse("sensor")


def threshold(gpu: Gpu, _time: float, which: int) -> int:
    """Ada and newer say them as offsets in fields 193 to 196."""
    above = {0: 7, 1: 4, 3: 0, **({2: 10} if gpu.model.hbm else {})}.get(which)
    if above is None or gpu.model.architecture >= ADA:
        raise unsupported(f"temperature threshold {which}")
    return gpu.model.max_temperature + above


def fan(gpu: Gpu, time: float, number: int = 0) -> int:
    if number >= gpu.model.fans:
        raise unsupported(f"fan {number}")
    if number == 0 and gpu.has("fan-failure", time):
        return 0
    return max(0, min(100, int((gpu.temperature(time) - 28) * 1.9)))


Answer = Callable[..., Any]
"""(GPU, time in seconds since the start, the call's arguments…) to plain data."""

_PCIE_IDLE_GENERATION = 1
_NODE_GPUS = 4
"""GPUs per NUMA node."""


class Function(NamedTuple):
    since: int
    answer: Answer


def memory_record(state: MemoryState) -> Record:
    return Record(total=state.total, reserved=state.reserved, free=state.free, used=state.used)


def bar1_record(gpu: Gpu, target: Target | None, time: float) -> Record:
    total = 2 ** math.ceil(math.log2(gpu.model.memory)) * MIB if gpu.model.hbm else 256 * MIB
    used = 4 * MIB * (1 + len((target or gpu).processes(time)))
    return Record(bar1Total=total, bar1Free=total - used, bar1Used=used)


def process_records(processes: Sequence[Any], target: Target | None) -> tuple[Record, ...]:
    instance = target.slice.gpu_instance if target and target.slice else 0xFFFFFFFF
    compute = 0 if target and target.slice else 0xFFFFFFFF
    return tuple(
        Record(pid=each.pid, usedGpuMemory=each.memory, gpuInstanceId=instance, computeInstanceId=compute)
        for each in processes
    )


def _whole_gpu(gpu: Gpu, what: str) -> Target:
    """The GPU as one target; under MIG there is none."""
    if gpu.mig:
        raise unsupported(f"{what} in MIG mode")
    return gpu.targets[0]


def _utilization_record(gpu: Gpu, time: float) -> Record:
    target = _whole_gpu(gpu, "utilization")
    return Record(
        gpu=round(100 * min(1.0, target.mean(Channel.BUSY, time, RATE_WINDOW_SECONDS))),
        memory=round(100 * min(1.0, target.mean(Channel.MEMORY_BUSY, time, RATE_WINDOW_SECONDS))),
    )


def _codec_utilization(gpu: Gpu, time: float) -> tuple[int, int]:
    target = _whole_gpu(gpu, "engines")
    return round(100 * min(1.0, target.mean(Channel.CODEC, time, RATE_WINDOW_SECONDS))), 1_000_000


def _no_codec(gpu: Gpu) -> tuple[int, int]:
    _whole_gpu(gpu, "engines")
    if gpu.model.architecture < TURING:
        raise unsupported("JPEG and optical flow engines")
    return 0, 1_000_000


def _fabric_record(gpu: Gpu) -> Record:
    if gpu.model.architecture < HOPPER:
        raise unsupported("fabric")
    healthy = 0b10_10_10_10 | 1 << 8
    return Record(clusterUuid="00" * 16, status=0, cliqueId=0, state=3, healthMask=healthy, healthSummary=1)


def _constant_answer(value: Callable[[Gpu], Any]) -> Answer:
    """Answer what never changes, whatever the time and the arguments."""

    def answer(gpu: Gpu, *_: Any) -> Any:
        return value(gpu)

    return answer


def _timed_answer(value: Callable[[Gpu, float], Any]) -> Answer:
    """Answer what changes with time, whatever the arguments."""

    def answer(gpu: Gpu, time: float, *_: Any) -> Any:
        return value(gpu, time)

    return answer


def _argument_answer(value: Callable[[Gpu, float, int], Any]) -> Answer:
    """Answer what goes by time and one argument."""
    return value


def _numa_words(gpu: Gpu, _time: float, words: int = 1, _scope: int = 0) -> tuple[int, ...]:
    return (1 << gpu.index // _NODE_GPUS, *(0,) * (words - 1))


def _field_values(gpu: Gpu, time: float, wanted: Sequence[tuple[int, int]]) -> tuple[float | None, ...]:
    return tuple([field_value(gpu, field, scope, time) for field, scope in wanted])


FUNCTIONS: Mapping[str, Function] = {
    "nvmlDeviceGetName":                          Function(0, _constant_answer(lambda gpu: gpu.model.name)),
    "nvmlDeviceGetUUID":                          Function(0, _constant_answer(lambda gpu: gpu.uuid)),
    "nvmlDeviceGetIndex":                         Function(0, _constant_answer(lambda gpu: gpu.index)),
    "nvmlDeviceGetMinorNumber":                   Function(0, _constant_answer(lambda gpu: gpu.index)),
    "nvmlDeviceGetSerial":                        Function(0, _constant_answer(lambda gpu: gpu.serial if gpu.model.ecc else refuse("serial"))),
    "nvmlDeviceGetBoardPartNumber":               Function(0, _constant_answer(lambda gpu: f"900-{gpu.bus:05d}-0000-000")),
    "nvmlDeviceGetVbiosVersion":                  Function(0, _constant_answer(lambda gpu: f"{86 + gpu.model.architecture}.00.99.00.0{gpu.index % 10}")),
    "nvmlDeviceGetInforomImageVersion":           Function(0, _constant_answer(lambda _: "G520.0200.00.05")),
    "nvmlDeviceGetArchitecture":                  Function(450, _constant_answer(lambda gpu: gpu.model.architecture)),
    "nvmlDeviceGetBrand":                         Function(0, _constant_answer(lambda gpu: 14 if gpu.model.ecc else 5)),
    "nvmlDeviceGetCudaComputeCapability":         Function(0, _constant_answer(lambda gpu: gpu.model.compute)),
    "nvmlDeviceGetNumGpuCores":                   Function(510, _constant_answer(lambda gpu: gpu.model.sms * 128)),
    "nvmlDeviceGetModuleId":                      Function(535, _constant_answer(lambda gpu: gpu.index + 1 if gpu.model.links else refuse("module id"))),
    "nvmlDeviceGetPciInfo":                       Function(0, _constant_answer(lambda gpu: Record(busId=f"0000{gpu.pci_bus_id.upper()}", domain=0, bus=gpu.bus, device=0, pciDeviceId=0x233010DE, pciSubSystemId=0x16C110DE))),
    "nvmlDeviceGetMemoryAffinity":                Function(0, _numa_words),
    "nvmlDeviceGetNumaNodeId":                    Function(550, _constant_answer(lambda _: refuse("NUMA node of the GPU's memory"))),
    "nvmlDeviceGetPersistenceMode":               Function(0, _constant_answer(lambda _: 1)),
    "nvmlDeviceGetComputeMode":                   Function(0, _constant_answer(lambda _: 0)),
    "nvmlDeviceGetGspFirmwareVersion":            Function(520, _constant_answer(lambda gpu: gpu.driver)),
    "nvmlDeviceGetMigMode":                       Function(450, _constant_answer(lambda gpu: (int(gpu.mig),) * 2 if gpu.model.slices else refuse("MIG"))),
    "nvmlDeviceGetMaxMigDeviceCount":             Function(450, _constant_answer(lambda gpu: 7 if gpu.model.slices else 0)),
    "nvmlDeviceGetMemoryInfo":                    Function(0, _timed_answer(lambda gpu, time: memory_record(gpu.memory(time)))),
    "nvmlDeviceGetBAR1MemoryInfo":                Function(0, _timed_answer(lambda gpu, time: bar1_record(gpu, None, time))),
    "nvmlDeviceGetUtilizationRates":              Function(0, _utilization_record),
    "nvmlDeviceGetEncoderUtilization":            Function(0, _codec_utilization),
    "nvmlDeviceGetDecoderUtilization":            Function(0, _codec_utilization),
    "nvmlDeviceGetJpgUtilization":                Function(535, _constant_answer(_no_codec)),
    "nvmlDeviceGetOfaUtilization":                Function(535, _constant_answer(_no_codec)),
    "nvmlDeviceGetComputeRunningProcesses":       Function(0, _timed_answer(lambda gpu, time: process_records(gpu.processes(time), None if gpu.mig else gpu.targets[0]))),
    "nvmlDeviceGetGraphicsRunningProcesses":      Function(0, _constant_answer(lambda _: ())),
    "nvmlDeviceGetMPSComputeRunningProcesses":    Function(495, _constant_answer(lambda _: ())),
    "nvmlDeviceGetPowerUsage":                    Function(0, _timed_answer(lambda gpu, time: int(gpu.watts(time, 1.0 if gpu.model.architecture >= AMPERE and gpu.model.key != "A100" else 0.05) * 1000))),
    "nvmlDeviceGetTotalEnergyConsumption":        Function(0, _timed_answer(lambda gpu, time: int(gpu.joules(time) * 1000))),
    "nvmlDeviceGetEnforcedPowerLimit":            Function(0, _constant_answer(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementLimit":          Function(0, _constant_answer(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementDefaultLimit":   Function(0, _constant_answer(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementLimitConstraints": Function(0, _constant_answer(lambda gpu: (gpu.model.min_limit * 1000, gpu.model.limit * 1000))),
    "nvmlDeviceGetClockInfo":                     Function(0, clock),
    "nvmlDeviceGetMaxClockInfo":                  Function(0, _argument_answer(lambda gpu, time, domain: clock(gpu, time, domain, highest=True))),
    "nvmlDeviceGetPerformanceState":              Function(0, performance_state),
    "nvmlDeviceGetCurrentClocksEventReasons":     Function(535, reasons),
    "nvmlDeviceGetCurrentClocksThrottleReasons":  Function(0, reasons),
    "nvmlDeviceGetSupportedClocksEventReasons":   Function(535, _constant_answer(lambda _: 0x1FF)),
    "nvmlDeviceGetSupportedClocksThrottleReasons": Function(0, _constant_answer(lambda _: 0x1FF)),
    "nvmlDeviceGetViolationStatus":               Function(0, violation),
    "nvmlDeviceGetTemperature":                   Function(0, temperature),
    "nvmlDeviceGetTemperatureV":                  Function(570, _timed_answer(lambda gpu, time: Record(sensorType=0, temperature=temperature(gpu, time)))),
    "nvmlDeviceGetMarginTemperature":             Function(570, _timed_answer(lambda gpu, time: gpu.model.max_temperature - int(gpu.temperature(time)))),
    "nvmlDeviceGetTemperatureThreshold":          Function(0, threshold),
    "nvmlDeviceGetNumFans":                       Function(515, _constant_answer(lambda gpu: gpu.model.fans or refuse("fans"))),
    "nvmlDeviceGetFanSpeed_v2":                   Function(0, fan),
    "nvmlDeviceGetFanSpeed":                      Function(0, fan),
    "nvmlDeviceGetFanSpeedRPM":                   Function(570, _timed_answer(lambda gpu, time: fan(gpu, time) * 32)),
    "nvmlDeviceGetCurrPcieLinkGeneration":        Function(0, _timed_answer(lambda gpu, time: gpu.model.pcie if gpu.busy(time, 5.0) else _PCIE_IDLE_GENERATION)),
    "nvmlDeviceGetCurrPcieLinkWidth":             Function(0, _timed_answer(lambda gpu, time: 4 if gpu.has("pcie-degraded", time) else 16)),
    "nvmlDeviceGetMaxPcieLinkGeneration":         Function(0, _constant_answer(lambda gpu: gpu.model.pcie)),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration":      Function(530, _constant_answer(lambda gpu: gpu.model.pcie)),
    "nvmlDeviceGetMaxPcieLinkWidth":              Function(0, _constant_answer(lambda _: 16)),
    "nvmlDeviceGetPcieReplayCounter":             Function(0, _timed_answer(lambda gpu, time: int(gpu.total(Channel.REPLAYS, time)))),
    "nvmlDeviceGetNvLinkState":                   Function(0, _argument_answer(lambda gpu, time, link: link_up(gpu, link, time) if link < gpu.model.links else refuse(f"NVLink {link}"))),
    "nvmlDeviceGetEccMode":                       Function(0, _constant_answer(lambda gpu: (1, 1) if gpu.model.ecc else refuse("ECC"))),
    "nvmlDeviceGetTotalEccErrors":                Function(0, ecc_total),
    "nvmlDeviceGetMemoryErrorCounter":            Function(0, ecc_location),
    "nvmlDeviceGetSramEccErrorStatus":            Function(550, _constant_answer(sram)),
    "nvmlDeviceGetRetiredPages":                  Function(0, retired),
    "nvmlDeviceGetRetiredPagesPendingStatus":     Function(0, _timed_answer(lambda gpu, time: 0 if field_value(gpu, 31, 0, time) is not None else refuse("retired pages"))),
    "nvmlDeviceGetRemappedRows":                  Function(450, remapped),
    "nvmlDeviceGetRowRemapperHistogram":          Function(460, histogram),
    "nvmlDeviceGetRepairStatus":                  Function(580, _constant_answer(lambda gpu: (0, 0) if gpu.model.ecc and gpu.model.architecture >= AMPERE else refuse("repair status"))),
    "nvmlDeviceGetGpuFabricInfoV":                Function(550, _constant_answer(_fabric_record)),
    "nvmlDeviceGetFieldValues":                   Function(0, _field_values),
}  # fmt: skip
