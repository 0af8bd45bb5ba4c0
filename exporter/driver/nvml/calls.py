"""How each function is called that is more than one plain getter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from exporter.driver.nvml import structs
from exporter.driver.nvml.field_values import field_values
from exporter.driver.nvml.lists import process_utilization, processes, samples
from exporter.driver.nvml.session import Target


def plain_call(target: Target, function: str, *args: Any) -> Any:
    """The device's answer as plain data, by the binding's own wrapper: for what is not in the table below."""
    if function.startswith("nvmlSystem"):
        return target.library.bound(function, *args)
    return target.library.bound(function, target.handle, *args)


def _activity(target: Target, metrics: Sequence[int]) -> Mapping[int, float]:
    return target.meter.read(metrics)


def _processes(function: str) -> Callable[[Target], Any]:
    return partial(processes, function=function)


def _one(function: str, kind: type[Any]) -> Callable[[Target], Any]:
    return partial(structs.one, function=function, kind=kind)


def _of_kind(function: str) -> Callable[[Target, int], Any]:
    return lambda target, kind: structs.of_kind(target, function, kind)


def _numbers(function: str, count: int) -> Callable[[Target], Any]:
    return partial(structs.numbers, function=function, count=count)


CALLS: Mapping[str, Callable[..., Any]] = {
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
    "nvmlDeviceGetModuleId":                   _numbers("nvmlDeviceGetModuleId", 1),
    "nvmlDeviceGetGspFirmwareMode":            _numbers("nvmlDeviceGetGspFirmwareMode", 2),
    "nvmlDeviceGetClockInfo":                  _of_kind("nvmlDeviceGetClockInfo"),
    "nvmlDeviceGetMaxClockInfo":               _of_kind("nvmlDeviceGetMaxClockInfo"),
    "nvmlDeviceGetPerformanceState":           _numbers("nvmlDeviceGetPerformanceState", 1),
    "nvmlDeviceGetEncoderUtilization":         _numbers("nvmlDeviceGetEncoderUtilization", 2),
    "nvmlDeviceGetDecoderUtilization":         _numbers("nvmlDeviceGetDecoderUtilization", 2),
    "nvmlDeviceGetJpgUtilization":             _numbers("nvmlDeviceGetJpgUtilization", 2),
    "nvmlDeviceGetOfaUtilization":             _numbers("nvmlDeviceGetOfaUtilization", 2),
    "nvmlDeviceGetMinMaxFanSpeed":             _numbers("nvmlDeviceGetMinMaxFanSpeed", 2),
}  # fmt: skip
