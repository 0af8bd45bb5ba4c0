"""Calls that fill a C struct. Its layout stands here, since the binding's release may be older than the driver's.

A versioned struct begins with its version: `size | version << 24`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from exporter.driver.interface import Call, Record, UnsupportedError
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
BAR1 = Layout("nvmlDeviceGetBAR1MemoryInfo", 0, Struct("=QQQ"), ("bar1Total", "bar1Free", "bar1Used"))
UTILIZATION = Layout("nvmlDeviceGetUtilizationRates", 0, Struct("=II"), ("gpu", "memory"))
ATTRIBUTES = Layout("nvmlDeviceGetAttributes_v2", 0, Struct("=8IQ"), _ATTRIBUTES)


def filled(target: Target, layout: Layout, *given: int) -> Callable[[], Any]:
    """Fills the struct anew; `given` are the fields the caller sets, which come first."""
    blank = _blank(layout, given)
    size = len(blank)
    buffer = ctypes.create_string_buffer(blank, size)
    ask = target.library.asking(layout.symbol, target.handle, buffer)
    unpack, names, first = layout.form.unpack, layout.names, 1 if layout.version else 0

    def call() -> Record:
        ctypes.memmove(buffer, blank, size)
        ask()
        return Record(**dict(zip(names, unpack(buffer)[first:])))  # noqa: B905 - a Layout fits

    return call


def _blank(layout: Layout, given: tuple[int, ...]) -> bytes:
    size = layout.form.size
    head = (size | layout.version << 24, *given) if layout.version else given
    return b"".join(number.to_bytes(4, sys.byteorder) for number in head).ljust(size, b"\0")


def memory(target: Target) -> Call:
    """Bytes. Before R515 the driver counts its reserve as used: `reserved` is None there."""
    newer, older = filled(target, MEMORY_V2), filled(target, MEMORY_V1)

    def call() -> Record:
        try:
            found: Record = newer()
        except UnsupportedError as error:
            if not _older(error):
                raise
        else:
            return found
        return Record(reserved=None, **vars(older()))

    return call


def temperature(target: Target, sensor: int = 0) -> Call:
    """Celsius. The older call (before R570) is announced to go."""
    newer = filled(target, TEMPERATURE, sensor)

    def call() -> int:
        try:
            celsius: int = newer().temperature
        except UnsupportedError as error:
            if not _older(error):
                raise
            celsius = target.library.bound("nvmlDeviceGetTemperature", target.handle, sensor)
        return celsius

    return call


def margin(target: Target) -> Call:
    """Celsius left until the clocks go down."""
    read = filled(target, MARGIN)
    return lambda: read().marginTemperature


def fan_rpm(target: Target, fan: int = 0) -> Call:
    """Rounds per minute. The binding's own wrapper knows only the first fan."""
    read = filled(target, FAN_RPM, fan)
    return lambda: read().speed


def fabric(target: Target) -> Call:
    """State of the NVLink fabric; `clusterUuid` as hexadecimal digits."""
    newer, older = filled(target, FABRIC_V3), filled(target, FABRIC_V2)

    def call() -> Any:
        try:
            info = newer()
        except UnsupportedError as error:
            if error.code != "ARGUMENT_VERSION_MISMATCH":
                raise
            info = older()
        info.clusterUuid = info.clusterUuid.hex()
        return info

    return call


def platform(target: Target) -> Call:
    """Where the GPU sits in its rack; the serial number as text, the GUID as hexadecimal digits."""
    read = filled(target, PLATFORM_V2)

    def call() -> Any:
        info = read()
        info.ibGuid = info.ibGuid.hex()
        info.chassisSerialNumber = info.chassisSerialNumber.partition(b"\0")[0].decode("ascii", "replace")
        return info

    return call


def sram_ecc(target: Target) -> Call:
    return filled(target, SRAM_ECC)


def bar1_memory(target: Target) -> Call:
    """Bytes."""
    return filled(target, BAR1)


def utilization_rates(target: Target) -> Call:
    """Percent."""
    return filled(target, UTILIZATION)


def one(target: Target, function: str, kind: type[Any], *given: int) -> Callable[[], int]:
    """A call that fills one number of the C type `kind`, after the arguments that are `given`."""
    number = kind()
    ask = target.library.asking(function, target.handle, *given, ctypes.byref(number))

    def call() -> int:
        number.value = 0
        ask()
        found: int = number.value
        return found

    return call


def numbers(target: Target, function: str, count: int) -> Call:
    """A call that fills `count` unsigned ints: the binding keeps one buffer for all threads in these."""
    found = [ctypes.c_uint() for _ in range(count)]
    ask = target.library.asking(function, target.handle, *map(ctypes.byref, found))

    def call() -> tuple[int, ...]:
        for number in found:
            number.value = 0
        ask()
        return tuple([number.value for number in found])

    return call


def _older(error: UnsupportedError) -> bool:
    return error.code in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH")
