"""Calls that fill a C struct. Its layout stands here, since the binding's release may be older than the driver's.

A versioned struct begins with its version: `size | version << 24`.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from struct import Struct
from typing import Any

from exporter.driver.interface import Record, UnsupportedError
from exporter.driver.nvml.session import Target

_FABRIC = ("clusterUuid", "status", "cliqueId", "state", "healthMask")
_SRAM = (
    "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed",
    "volatileCor", "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie",
    "aggregateUncBucketMcu", "aggregateUncBucketOther", "bThresholdExceeded",
)  # fmt: skip
_ATTRIBUTES = (
    "multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount", "sharedJpegCount",
    "sharedOfaCount", "gpuInstanceSliceCount", "computeInstanceSliceCount", "memorySizeMB",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A struct of one C function: the fields after `version`, and how they lie in memory."""

    symbol: str
    version: int
    """0: the struct has none."""
    form: Struct
    names: tuple[str, ...]


MEMORY_V2 = Layout("nvmlDeviceGetMemoryInfo_v2", 2, Struct("=I4xQQQQ"), ("total", "reserved", "free", "used"))
MEMORY_V1 = Layout("nvmlDeviceGetMemoryInfo", 0, Struct("=QQQ"), ("total", "free", "used"))
TEMPERATURE = Layout("nvmlDeviceGetTemperatureV", 1, Struct("=IIi"), ("sensorType", "temperature"))
FAN_RPM = Layout("nvmlDeviceGetFanSpeedRPM", 1, Struct("=III"), ("fan", "speed"))
MARGIN = Layout("nvmlDeviceGetMarginTemperature", 1, Struct("=Ii"), ("marginTemperature",))
FABRIC_V3 = Layout("nvmlDeviceGetGpuFabricInfoV", 3, Struct("=I16sIIIIB3x"), (*_FABRIC, "healthSummary"))
FABRIC_V2 = Layout("nvmlDeviceGetGpuFabricInfoV", 2, Struct("=I16sIIII"), _FABRIC)
_PLATFORM = ("ibGuid", "chassisSerialNumber", "slotNumber", "trayIndex", "hostId", "peerType", "moduleId")
PLATFORM_V2 = Layout("nvmlDeviceGetPlatformInfo", 2, Struct("=I16s16sBBBBB3x"), _PLATFORM)
SRAM_ECC = Layout("nvmlDeviceGetSramEccErrorStatus", 1, Struct("=I4x11QI4x"), _SRAM)
UTILIZATION = Layout("nvmlDeviceGetUtilizationRates", 0, Struct("=II"), ("gpu", "memory"))
ATTRIBUTES = Layout("nvmlDeviceGetAttributes_v2", 0, Struct("=8IQ"), _ATTRIBUTES)


def read(target: Target, layout: Layout, *given: int) -> Record:
    """Fill the struct; `given` are the fields the caller sets, which come first."""
    key = (layout, given)
    kept = target.buffers.get(key)
    if kept is None:
        kept = target.buffers[key] = _blank(layout, given)
    buffer, blank = kept
    ctypes.memmove(buffer, blank, len(blank))
    target.library.ask(layout.symbol, target.handle, buffer)
    values = layout.form.unpack(buffer)
    record = Record()
    vars(record).update(zip(layout.names, values[1:] if layout.version else values))  # noqa: B905 - a Layout fits
    return record


def _blank(layout: Layout, given: tuple[int, ...]) -> tuple[Any, bytes]:
    size = layout.form.size
    head = (size | layout.version << 24, *given) if layout.version else given
    blank = b"".join(number.to_bytes(4, sys.byteorder) for number in head).ljust(size, b"\0")
    return ctypes.create_string_buffer(blank, size), blank


def memory(target: Target) -> Record:
    """Bytes. Before R515 the driver counts its reserve as used: `reserved` is None there."""
    try:
        return read(target, MEMORY_V2)
    except UnsupportedError as error:
        if not _older(error):
            raise
    return Record(reserved=None, **vars(read(target, MEMORY_V1)))


def temperature(target: Target, sensor: int = 0) -> int:
    """Celsius. The older call (before R570) is announced to go."""
    try:
        celsius: int = read(target, TEMPERATURE, sensor).temperature
    except UnsupportedError as error:
        if not _older(error):
            raise
        celsius = target.library.bound("nvmlDeviceGetTemperature", target.handle, sensor)
    return celsius


def margin(target: Target) -> int:
    """Celsius left until the clocks go down."""
    celsius: int = read(target, MARGIN).marginTemperature
    return celsius


def fan_rpm(target: Target, fan: int = 0) -> int:
    """Rounds per minute. The binding's own wrapper knows only the first fan."""
    rounds: int = read(target, FAN_RPM, fan).speed
    return rounds


def fabric(target: Target) -> Record:
    """State of the NVLink fabric; `clusterUuid` as hexadecimal digits."""
    try:
        info = read(target, FABRIC_V3)
    except UnsupportedError as error:
        if error.code != "ARGUMENT_VERSION_MISMATCH":
            raise
        info = read(target, FABRIC_V2)
    info.clusterUuid = info.clusterUuid.hex()
    return info


def platform(target: Target) -> Record:
    """Where the GPU sits in its rack; the serial number as text, the GUID as hexadecimal digits."""
    info = read(target, PLATFORM_V2)
    info.ibGuid = info.ibGuid.hex()
    info.chassisSerialNumber = info.chassisSerialNumber.partition(b"\0")[0].decode("ascii", "replace")
    return info


def sram_ecc(target: Target) -> Record:
    return read(target, SRAM_ECC)


def one(target: Target, function: str, kind: type[Any]) -> int:
    """A call that fills one number of the C type `kind`: its buffer is made once for each device."""
    kept = target.buffers.get(function)
    if kept is None:
        number = kind()
        kept = target.buffers[function] = (number, ctypes.byref(number))
    number, pointer = kept
    number.value = 0
    target.library.ask(function, target.handle, pointer)
    found: int = number.value
    return found


def of_kind(target: Target, function: str, kind: int) -> int:
    """A call that fills one unsigned int, of the kind that is asked for."""
    kept = target.buffers.get(function)
    if kept is None:
        number = ctypes.c_uint()
        kept = target.buffers[function] = (number, ctypes.byref(number))
    number, pointer = kept
    number.value = 0
    target.library.ask(function, target.handle, kind, pointer)
    found: int = number.value
    return found


def utilization_rates(target: Target) -> Record:
    """Percent."""
    return read(target, UTILIZATION)


def numbers(target: Target, function: str, count: int) -> Any:
    """A call that fills `count` unsigned ints: the binding keeps one buffer for all threads in these."""
    kept = target.buffers.get(function)
    if kept is None:
        made = [ctypes.c_uint() for _ in range(count)]
        kept = target.buffers[function] = (made, [ctypes.byref(number) for number in made])
    found, pointers = kept
    for number in found:
        number.value = 0
    target.library.ask(function, target.handle, *pointers)
    return found[0].value if count == 1 else tuple([number.value for number in found])


def _older(error: UnsupportedError) -> bool:
    return error.code in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH")
