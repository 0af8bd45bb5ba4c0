# ruff: noqa: E501 - the table of functions
"""NVML functions by name: what a simulated GPU answers, in NVML's units, and since which driver branch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.driver.interface import Record
from exporter.tools.simulator import clocks, heat, memory_errors
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.fields import field_value, link_up
from exporter.tools.simulator.gpu import RATE_WINDOW, Gpu, MemoryState, Target
from exporter.tools.simulator.models import AMPERE, HOPPER, MIB, TURING
from exporter.tools.simulator.refusal import refuse, unsupported

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


def _whole(gpu: Gpu, what: str) -> Target:
    """The GPU as one target; under MIG there is none."""
    if gpu.mig:
        raise unsupported(f"{what} in MIG mode")
    return gpu.targets[0]


def _utilization(gpu: Gpu, time: float) -> Record:
    target = _whole(gpu, "utilization")
    return Record(
        gpu=round(100 * min(1.0, target.mean(Channel.BUSY, time, RATE_WINDOW))),
        memory=round(100 * min(1.0, target.mean(Channel.MEMORY_BUSY, time, RATE_WINDOW))),
    )


def _codec(gpu: Gpu, time: float) -> tuple[int, int]:
    target = _whole(gpu, "engines")
    return round(100 * min(1.0, target.mean(Channel.CODEC, time, RATE_WINDOW))), 1_000_000


def _no_codec(gpu: Gpu, time: float) -> tuple[int, int]:
    del time
    _whole(gpu, "engines")
    if gpu.model.architecture < TURING:
        raise unsupported("JPEG and optical flow engines")
    return 0, 1_000_000


def _compute_processes(gpu: Gpu, time: float) -> tuple[Record, ...]:
    return process_records(gpu.processes(time), None if gpu.mig else gpu.targets[0])


def _pcie_generation(gpu: Gpu, time: float) -> int:
    return gpu.model.pcie if gpu.busy(time, 5.0) else _PCIE_IDLE_GENERATION


def _link_state(gpu: Gpu, time: float, link: int) -> int:
    return link_up(gpu, link, time) if link < gpu.model.links else refuse(f"NVLink {link}")


def _fabric(gpu: Gpu, time: float) -> Record:
    del time
    if gpu.model.architecture < HOPPER:
        raise unsupported("fabric")
    healthy = 0b10_10_10_10 | 1 << 8
    return Record(clusterUuid="00" * 16, status=0, cliqueId=0, state=3, healthMask=healthy, healthSummary=1)


def _mig_mode(gpu: Gpu, time: float) -> tuple[int, int]:
    del time
    return (int(gpu.mig), int(gpu.mig)) if gpu.model.slices else refuse("MIG")


def _numa_words(gpu: Gpu, time: float, words: int = 1, scope: int = 0) -> tuple[int, ...]:
    del time, scope
    return (1 << gpu.index // _NODE_GPUS, *(0,) * (words - 1))


def _fields(gpu: Gpu, time: float, wanted: Sequence[tuple[int, int]]) -> tuple[float | None, ...]:
    return tuple([field_value(gpu, field, scope, time) for field, scope in wanted])


def _serial(gpu: Gpu, time: float) -> str:
    del time
    return gpu.serial if gpu.model.ecc else refuse("serial")


def _same(value: Callable[[Gpu], Any]) -> Answer:
    """What never changes, whatever the time and the arguments."""

    def answer(gpu: Gpu, time: float, *args: Any) -> Any:
        del time, args
        return value(gpu)

    return answer


def _at(value: Callable[[Gpu, float], Any]) -> Answer:
    """What changes with time, whatever the arguments."""

    def answer(gpu: Gpu, time: float, *args: Any) -> Any:
        del args
        return value(gpu, time)

    return answer


FUNCTIONS: Mapping[str, Function] = {
    "nvmlDeviceGetName":                          Function(0, _same(lambda gpu: gpu.model.name)),
    "nvmlDeviceGetUUID":                          Function(0, _same(lambda gpu: gpu.uuid)),
    "nvmlDeviceGetIndex":                         Function(0, _same(lambda gpu: gpu.index)),
    "nvmlDeviceGetMinorNumber":                   Function(0, _same(lambda gpu: gpu.index)),
    "nvmlDeviceGetSerial":                        Function(0, _serial),
    "nvmlDeviceGetBoardPartNumber":               Function(0, _same(lambda gpu: f"900-{gpu.bus:05d}-0000-000")),
    "nvmlDeviceGetVbiosVersion":                  Function(0, _same(lambda gpu: f"{86 + gpu.model.architecture}.00.99.00.0{gpu.index % 10}")),
    "nvmlDeviceGetInforomImageVersion":           Function(0, _same(lambda _: "G520.0200.00.05")),
    "nvmlDeviceGetArchitecture":                  Function(450, _same(lambda gpu: gpu.model.architecture)),
    "nvmlDeviceGetBrand":                         Function(0, _same(lambda gpu: 14 if gpu.model.ecc else 5)),
    "nvmlDeviceGetCudaComputeCapability":         Function(0, _same(lambda gpu: gpu.model.compute)),
    "nvmlDeviceGetNumGpuCores":                   Function(510, _same(lambda gpu: gpu.model.sms * 128)),
    "nvmlDeviceGetModuleId":                      Function(535, _same(lambda gpu: gpu.index + 1 if gpu.model.links else refuse("module id"))),
    "nvmlDeviceGetPciInfo":                       Function(0, _same(lambda gpu: Record(busId=f"0000{gpu.pci_bus_id.upper()}", domain=0, bus=gpu.bus, device=0, pciDeviceId=0x233010DE, pciSubSystemId=0x16C110DE))),
    "nvmlDeviceGetMemoryAffinity":                Function(0, _numa_words),
    "nvmlDeviceGetNumaNodeId":                    Function(550, _same(lambda _: refuse("NUMA node of the GPU's memory"))),
    "nvmlDeviceGetPersistenceMode":               Function(0, _same(lambda _: 1)),
    "nvmlDeviceGetComputeMode":                   Function(0, _same(lambda _: 0)),
    "nvmlDeviceGetGspFirmwareVersion":            Function(520, _same(lambda gpu: gpu.driver)),
    "nvmlDeviceGetMigMode":                       Function(450, _mig_mode),
    "nvmlDeviceGetMaxMigDeviceCount":             Function(450, _same(lambda gpu: 7 if gpu.model.slices else 0)),
    "nvmlDeviceGetMemoryInfo":                    Function(0, _at(lambda gpu, time: memory_record(gpu.memory(time)))),
    "nvmlDeviceGetBAR1MemoryInfo":                Function(0, _at(lambda gpu, time: bar1_record(gpu, None, time))),
    "nvmlDeviceGetUtilizationRates":              Function(0, _utilization),
    "nvmlDeviceGetEncoderUtilization":            Function(0, _codec),
    "nvmlDeviceGetDecoderUtilization":            Function(0, _codec),
    "nvmlDeviceGetJpgUtilization":                Function(535, _no_codec),
    "nvmlDeviceGetOfaUtilization":                Function(535, _no_codec),
    "nvmlDeviceGetComputeRunningProcesses":       Function(0, _compute_processes),
    "nvmlDeviceGetGraphicsRunningProcesses":      Function(0, _same(lambda _: ())),
    "nvmlDeviceGetMPSComputeRunningProcesses":    Function(495, _same(lambda _: ())),
    "nvmlDeviceGetPowerUsage":                    Function(0, _at(lambda gpu, time: int(gpu.watts(time, 1.0 if gpu.model.architecture >= AMPERE and gpu.model.key != "A100" else 0.05) * 1000))),
    "nvmlDeviceGetTotalEnergyConsumption":        Function(0, _at(lambda gpu, time: int(gpu.joules(time) * 1000))),
    "nvmlDeviceGetEnforcedPowerLimit":            Function(0, _same(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementLimit":          Function(0, _same(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementDefaultLimit":   Function(0, _same(lambda gpu: gpu.model.limit * 1000)),
    "nvmlDeviceGetPowerManagementLimitConstraints": Function(0, _same(lambda gpu: (gpu.model.min_limit * 1000, gpu.model.limit * 1000))),
    "nvmlDeviceGetClockInfo":                     Function(0, clocks.clock),
    "nvmlDeviceGetMaxClockInfo":                  Function(0, clocks.max_clock),
    "nvmlDeviceGetPerformanceState":              Function(0, clocks.performance_state),
    "nvmlDeviceGetCurrentClocksEventReasons":     Function(535, clocks.reasons),
    "nvmlDeviceGetCurrentClocksThrottleReasons":  Function(0, clocks.reasons),
    "nvmlDeviceGetSupportedClocksEventReasons":   Function(535, _same(lambda _: 0x1FF)),
    "nvmlDeviceGetSupportedClocksThrottleReasons": Function(0, _same(lambda _: 0x1FF)),
    "nvmlDeviceGetViolationStatus":               Function(0, clocks.violation),
    "nvmlDeviceGetTemperature":                   Function(0, heat.temperature),
    "nvmlDeviceGetTemperatureV":                  Function(570, _at(lambda gpu, time: Record(sensorType=0, temperature=heat.temperature(gpu, time)))),
    "nvmlDeviceGetMarginTemperature":             Function(570, heat.margin),
    "nvmlDeviceGetTemperatureThreshold":          Function(0, heat.threshold),
    "nvmlDeviceGetNumFans":                       Function(515, heat.fans),
    "nvmlDeviceGetFanSpeed_v2":                   Function(0, heat.fan),
    "nvmlDeviceGetFanSpeed":                      Function(0, heat.fan),
    "nvmlDeviceGetFanSpeedRPM":                   Function(570, _at(lambda gpu, time: heat.fan(gpu, time) * 32)),
    "nvmlDeviceGetCurrPcieLinkGeneration":        Function(0, _pcie_generation),
    "nvmlDeviceGetCurrPcieLinkWidth":             Function(0, _at(lambda gpu, time: 4 if gpu.has("pcie-degraded", time) else 16)),
    "nvmlDeviceGetMaxPcieLinkGeneration":         Function(0, _same(lambda gpu: gpu.model.pcie)),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration":      Function(530, _same(lambda gpu: gpu.model.pcie)),
    "nvmlDeviceGetMaxPcieLinkWidth":              Function(0, _same(lambda _: 16)),
    "nvmlDeviceGetPcieReplayCounter":             Function(0, _at(lambda gpu, time: int(gpu.total(Channel.REPLAYS, time)))),
    "nvmlDeviceGetNvLinkState":                   Function(0, _link_state),
    "nvmlDeviceGetEccMode":                       Function(0, memory_errors.ecc_mode),
    "nvmlDeviceGetTotalEccErrors":                Function(0, memory_errors.ecc_total),
    "nvmlDeviceGetMemoryErrorCounter":            Function(0, memory_errors.ecc_location),
    "nvmlDeviceGetSramEccErrorStatus":            Function(550, memory_errors.sram),
    "nvmlDeviceGetRetiredPages":                  Function(0, memory_errors.retired),
    "nvmlDeviceGetRetiredPagesPendingStatus":     Function(0, memory_errors.retired_pending),
    "nvmlDeviceGetRemappedRows":                  Function(450, memory_errors.remapped),
    "nvmlDeviceGetRowRemapperHistogram":          Function(460, memory_errors.histogram),
    "nvmlDeviceGetRepairStatus":                  Function(580, _same(lambda gpu: (0, 0) if gpu.model.ecc and gpu.model.architecture >= AMPERE else refuse("repair status"))),
    "nvmlDeviceGetGpuFabricInfoV":                Function(550, _fabric),
    "nvmlDeviceGetFieldValues":                   Function(0, _fields),
}  # fmt: skip
