"""Calls of a device, each prepared once: its buffers are made and the session is guarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from exporter.driver.interface import Call
from exporter.driver.nvml import structs
from exporter.driver.nvml.lists import process_utilization, processes, samples
from exporter.driver.nvml.session import DeviceHandle
from exporter.driver.nvml.structs import UINT, ULONGLONG


def prepare(target: DeviceHandle, function: str, args: Sequence[Any]) -> Call:
    """Return the call, to be made with what changes alone. Its answers are plain data.

    What is not in the tables below goes through the binding's own wrapper.
    """
    if function in NUMBERS:
        return structs.number(target, function, NUMBERS[function], *args)
    if function in PAIRS:
        return structs.pair(target, function)
    if function in STRUCTS:
        return structs.record(target, STRUCTS[function], *args)
    if function in OTHERS:
        call: Call = OTHERS[function](target, *args)
        return call
    if function in LISTS:
        return target.guarded(LISTS[function](target, *args))
    handle = () if function.startswith("nvmlSystem") else (target.handle,)
    return target.guarded(partial(target.library.bound, function, *handle, *args))


def _memory_call(target: DeviceHandle) -> Call:
    versions = (structs.MEMORY_V2, structs.MEMORY_V1)
    return structs.newer_or_older(*(structs.record(target, each) for each in versions))


def _fabric_call(target: DeviceHandle) -> Call:
    versions = (structs.FABRIC_V3, structs.FABRIC_V2)
    return structs.newer_or_older(*(structs.record(target, each) for each in versions))


def _temperature_call(target: DeviceHandle, sensor: int = 0) -> Call:
    """The older call (before R570) is announced to go."""
    older = structs.number(target, "nvmlDeviceGetTemperature", UINT, sensor)
    return structs.newer_or_older(structs.record(target, structs.TEMPERATURE, sensor), older)


def _gpm_call(target: DeviceHandle, metrics: Sequence[int]) -> Call:
    return partial(target.meter.read, tuple(metrics))


_LISTS_OF_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
LISTS: Mapping[str, Callable[..., Call]] = {
    **{function: partial(processes, function=function) for function in _LISTS_OF_PROCESSES},
    "nvmlDeviceGetProcessUtilization": process_utilization,
    "nvmlDeviceGetSamples": samples,
    "nvmlGpmMetricsGet": _gpm_call,
}
"""Calls of several C functions, or of one more than once."""
OTHERS: Mapping[str, Callable[..., Call]] = {
    "nvmlDeviceGetFieldValues": structs.field_values,
    "nvmlDeviceGetMemoryInfo": _memory_call,
    "nvmlDeviceGetTemperatureV": _temperature_call,
    "nvmlDeviceGetGpuFabricInfoV": _fabric_call,
}
STRUCTS: Mapping[str, structs.Layout] = {
    "nvmlDeviceGetMarginTemperature": structs.MARGIN,
    "nvmlDeviceGetFanSpeedRPM": structs.FAN_RPM,  # the binding's own wrapper knows only the first fan
    "nvmlDeviceGetPlatformInfo": structs.PLATFORM_V2,
    "nvmlDeviceGetSramEccErrorStatus": structs.SRAM_ECC,
    "nvmlDeviceGetUtilizationRates": structs.UTILIZATION,
    "nvmlDeviceGetBAR1MemoryInfo": structs.BAR1,
}
NUMBERS = {
    "nvmlDeviceGetPowerUsage": UINT,
    "nvmlDeviceGetTotalEnergyConsumption": ULONGLONG,
    "nvmlDeviceGetCurrentClocksEventReasons": ULONGLONG,
    "nvmlDeviceGetCurrPcieLinkGeneration": UINT,
    "nvmlDeviceGetCurrPcieLinkWidth": UINT,
    "nvmlDeviceGetModuleId": UINT,
    "nvmlDeviceGetClockInfo": UINT,
    "nvmlDeviceGetFanSpeed_v2": UINT,
    "nvmlDeviceGetMaxClockInfo": UINT,
    "nvmlDeviceGetPerformanceState": UINT,
}
PAIRS = frozenset(
    f"nvmlDeviceGet{name}" for name in (
        "GspFirmwareMode", "EncoderUtilization", "DecoderUtilization", "JpgUtilization", "OfaUtilization",
        "MinMaxFanSpeed",
    )
)  # fmt: skip
