"""How each function is made ready to be called that is more than one plain getter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from exporter.driver.interface import Call
from exporter.driver.nvml import structs
from exporter.driver.nvml.field_values import field_values
from exporter.driver.nvml.lists import process_utilization, processes, samples
from exporter.driver.nvml.session import Target


def made_ready(target: Target, function: str, args: Sequence[Any]) -> Call:
    """The call with its buffers: to be made with what changes alone. Its answers are plain data.

    What is not in the table below goes through the binding's own wrapper.
    """
    make = CALLS.get(function)
    if make is not None:
        return make(target, *args)
    handle = () if function.startswith("nvmlSystem") else (target.handle,)
    return partial(target.library.bound, function, *handle, *args)


def _activity(target: Target, metrics: Sequence[int]) -> Call:
    return partial(target.meter.read, tuple(metrics))


def _processes(function: str) -> Callable[[Target], Call]:
    return partial(processes, function=function)


def _one(function: str, kind: type[Any]) -> Callable[[Target], Call]:
    return lambda target: structs.one(target, function, kind)


def _of_kind(function: str) -> Callable[[Target, int], Call]:
    return lambda target, kind: structs.one(target, function, ctypes.c_uint, kind)


def _numbers(function: str, count: int) -> Callable[[Target], Call]:
    return partial(structs.numbers, function=function, count=count)


CALLS: Mapping[str, Callable[..., Call]] = {
    "nvmlDeviceGetComputeRunningProcesses":    _processes("nvmlDeviceGetComputeRunningProcesses"),
    "nvmlDeviceGetGraphicsRunningProcesses":   _processes("nvmlDeviceGetGraphicsRunningProcesses"),
    "nvmlDeviceGetMPSComputeRunningProcesses": _processes("nvmlDeviceGetMPSComputeRunningProcesses"),
    "nvmlDeviceGetProcessUtilization":         process_utilization,
    "nvmlDeviceGetSamples":                    samples,
    "nvmlDeviceGetFieldValues":                field_values,
    "nvmlGpmMetricsGet":                       _activity,
    "nvmlDeviceGetMemoryInfo":                 structs.memory,
    "nvmlDeviceGetTemperatureV":               structs.temperature,
    "nvmlDeviceGetMarginTemperature":          structs.margin,
    "nvmlDeviceGetFanSpeedRPM":                structs.fan_rpm,
    "nvmlDeviceGetGpuFabricInfoV":             structs.fabric,
    "nvmlDeviceGetPlatformInfo":               structs.platform,
    "nvmlDeviceGetSramEccErrorStatus":         structs.sram_ecc,
    "nvmlDeviceGetUtilizationRates":           structs.utilization_rates,
    "nvmlDeviceGetPowerUsage":                 _one("nvmlDeviceGetPowerUsage", ctypes.c_uint),
    "nvmlDeviceGetTotalEnergyConsumption":     _one("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong),
    "nvmlDeviceGetCurrentClocksEventReasons":  _one("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong),
    "nvmlDeviceGetBAR1MemoryInfo":             structs.bar1_memory,
    "nvmlDeviceGetCurrPcieLinkGeneration":     _one("nvmlDeviceGetCurrPcieLinkGeneration", ctypes.c_uint),
    "nvmlDeviceGetCurrPcieLinkWidth":          _one("nvmlDeviceGetCurrPcieLinkWidth", ctypes.c_uint),
    "nvmlDeviceGetModuleId":                   _one("nvmlDeviceGetModuleId", ctypes.c_uint),
    "nvmlDeviceGetGspFirmwareMode":            _numbers("nvmlDeviceGetGspFirmwareMode", 2),
    "nvmlDeviceGetClockInfo":                  _of_kind("nvmlDeviceGetClockInfo"),
    "nvmlDeviceGetFanSpeed_v2":                _of_kind("nvmlDeviceGetFanSpeed_v2"),
    "nvmlDeviceGetMaxClockInfo":               _of_kind("nvmlDeviceGetMaxClockInfo"),
    "nvmlDeviceGetPerformanceState":           _one("nvmlDeviceGetPerformanceState", ctypes.c_uint),
    "nvmlDeviceGetEncoderUtilization":         _numbers("nvmlDeviceGetEncoderUtilization", 2),
    "nvmlDeviceGetDecoderUtilization":         _numbers("nvmlDeviceGetDecoderUtilization", 2),
    "nvmlDeviceGetJpgUtilization":             _numbers("nvmlDeviceGetJpgUtilization", 2),
    "nvmlDeviceGetOfaUtilization":             _numbers("nvmlDeviceGetOfaUtilization", 2),
    "nvmlDeviceGetMinMaxFanSpeed":             _numbers("nvmlDeviceGetMinMaxFanSpeed", 2),
}  # fmt: skip
