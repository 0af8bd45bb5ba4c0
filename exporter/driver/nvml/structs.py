"""Calls that fill one C struct, or numbers. Layouts stand here, since the binding's release may be older.

A versioned struct begins with its version: `size | version << 24`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

from exporter.driver.interface import Call, Record, UnsupportedError
from exporter.driver.nvml.session import DeviceHandle

UINT, ULONGLONG = Struct("=I"), Struct("=Q")


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A struct of one C function: the fields after `version`, and how they lie in memory."""

    symbol: str
    version: int
    """0: the struct has none."""
    form: Struct
    names: tuple[str, ...]
    convert: Callable[[Any], Any] | None = None
    """Function from the struct to the answer, where that is not the struct itself."""


def _hex_uuid(info: Any) -> Any:
    info.clusterUuid = info.clusterUuid.hex()
    return info


def _fabric_text(info: Any) -> Any:
    """Write the serial number as text, and the GUID as hexadecimal digits."""
    info.ibGuid = info.ibGuid.hex()
    info.chassisSerialNumber = info.chassisSerialNumber.partition(b"\0")[0].decode("ascii", "replace")
    return info


def _without_reserve(info: Any) -> Any:
    """Subtract the driver's reserve, which drivers before R515 count as used."""
    return Record(reserved=None, **vars(info))


_FABRIC = ("clusterUuid", "status", "cliqueId", "state", "healthMask")
_PLATFORM = ("ibGuid", "chassisSerialNumber", "slotNumber", "trayIndex", "hostId", "peerType", "moduleId")
_SRAM = (
    "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed",
    "volatileCor", "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie",
    "aggregateUncBucketMcu", "aggregateUncBucketOther", "bThresholdExceeded",
)  # fmt: skip
_ATTRIBUTES = (
    "multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount", "sharedJpegCount",
    "sharedOfaCount", "gpuInstanceSliceCount", "computeInstanceSliceCount", "memorySizeMB",
)  # fmt: skip

# fmt: off
MEMORY_V2 = Layout("nvmlDeviceGetMemoryInfo_v2", 2, Struct("=I4xQQQQ"), ("total", "reserved", "free", "used"))
MEMORY_V1 = Layout("nvmlDeviceGetMemoryInfo", 0, Struct("=QQQ"), ("total", "free", "used"), _without_reserve)
TEMPERATURE = Layout("nvmlDeviceGetTemperatureV", 1, Struct("=IIi"), ("sensor", "celsius"), lambda info: info.celsius)
FAN_RPM = Layout("nvmlDeviceGetFanSpeedRPM", 1, Struct("=III"), ("fan", "speed"), lambda info: info.speed)
MARGIN = Layout("nvmlDeviceGetMarginTemperature", 1, Struct("=Ii"), ("celsius",), lambda info: info.celsius)
FABRIC_V3 = Layout("nvmlDeviceGetGpuFabricInfoV", 3, Struct("=I16sIIIIB3x"), (*_FABRIC, "healthSummary"), _hex_uuid)
FABRIC_V2 = Layout("nvmlDeviceGetGpuFabricInfoV", 2, Struct("=I16sIIII"), _FABRIC, _hex_uuid)
PLATFORM_V2 = Layout("nvmlDeviceGetPlatformInfo", 2, Struct("=I16s16sBBBBB3x"), _PLATFORM, _fabric_text)
SRAM_ECC = Layout("nvmlDeviceGetSramEccErrorStatus", 1, Struct("=I4x11QI4x"), _SRAM)
BAR1 = Layout("nvmlDeviceGetBAR1MemoryInfo", 0, Struct("=QQQ"), ("bar1Total", "bar1Free", "bar1Used"))
UTILIZATION = Layout("nvmlDeviceGetUtilizationRates", 0, Struct("=II"), ("gpu", "memory"))
ATTRIBUTES = Layout("nvmlDeviceGetAttributes_v2", 0, Struct("=8IQ"), _ATTRIBUTES)
# fmt: on


def record(target: DeviceHandle, layout: Layout, *given: int) -> Call:
    """Prepare a call that fills the struct; `given` are the fields that the caller sets, which come first."""
    size = layout.form.size
    head = (size | layout.version << 24, *given) if layout.version else given
    blank = b"".join(number.to_bytes(4, sys.byteorder) for number in head).ljust(size, b"\0")
    unpack, names, first = layout.form.unpack, layout.names, 1 if layout.version else 0
    buffer, convert = ctypes.create_string_buffer(len(blank)), layout.convert

    def read(view: memoryview) -> Any:
        found = Record(**dict(zip(names, unpack(view)[first:])))  # noqa: B905 - a Layout fits
        return found if convert is None else convert(found)

    return target.filling(layout.symbol, (buffer,), buffer, blank, read)


def newer_or_older(newer: Call, older: Call) -> Call:
    """Prepare `newer`, and `older` where the driver lacks it."""

    def call() -> Any:
        try:
            return newer()
        except UnsupportedError as error:
            if error.code not in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH"):
                raise
        return older()

    return call


def number(target: DeviceHandle, function: str, form: Struct, *given: int) -> Call:
    """Prepare a call that fills one number, after the arguments that are `given`."""
    buffer, unpack = ctypes.create_string_buffer(form.size), form.unpack
    return target.filling(function, (*given, buffer), buffer, bytes(form.size), lambda view: unpack(view)[0])


def pair(target: DeviceHandle, function: str) -> Call:
    """Prepare a call that fills two unsigned ints: the binding keeps one buffer for all threads in these."""
    buffer, form = ctypes.create_string_buffer(8), Struct("=II")
    pointers = (ctypes.byref(buffer), ctypes.byref(buffer, 4))
    return target.filling(function, pointers, buffer, bytes(8), form.unpack)


Number = int | float

_ENTRY = Struct("=IIqqIIQ")
"""nvmlFieldValue_t: field, scope, timestamp µs, latency µs, type of the value, return code, value."""
_LAST_ECC = 31
_DOUBLE = Struct("=d")


def _read_double(raw: int) -> Number:
    value: float = _DOUBLE.unpack(ULONGLONG.pack(raw))[0]
    return value


_AS_THEY_ARE = frozenset({2, 3})
"""Types of 64 bits without a sign: what most entries have."""
_VALUES: Mapping[int, Callable[[int], Number]] = {
    0: _read_double,
    1: lambda raw: raw & 0xFFFFFFFF,
    2: lambda raw: raw,
    3: lambda raw: raw,
    4: lambda raw: raw - (raw >> 63 << 64),
    5: lambda raw: (raw & 0xFFFFFFFF) - ((raw >> 31 & 1) << 32),
    6: lambda raw: raw & 0xFFFF,
}


def field_values(target: DeviceHandle, fields: Sequence[tuple[int, int]]) -> Call:
    """One value per (field, scope); None where the device has none."""
    # One entry more than asked: the driver reads past the last one in NVLink queries.
    blank = b"".join(_ENTRY.pack(field, scope, 0, 0, 0, 0, 0) for field, scope in (*fields, (0, 0)))
    array, size = ctypes.create_string_buffer(len(blank)), len(fields) * _ENTRY.size

    def read(view: memoryview) -> tuple[Number | None, ...]:
        return tuple(
            [
                raw if type_ in _AS_THEY_ARE and time and not failed else value(field, time, type_, failed, raw)
                for field, _, time, _, type_, failed, raw in _ENTRY.iter_unpack(view[:size])
            ]
        )

    return target.filling("nvmlDeviceGetFieldValues", (len(fields), array), array, blank, read)


def value(field: int, time: int, type_: int, code: int, raw: int) -> Number | None:
    """One entry's number. With ECC off the driver leaves its entries as they were: success, type 0, time 0.

    ECC counters are 64 bits whatever type the entry names.
    """
    if code or not time:
        return None
    if field <= _LAST_ECC:
        return raw
    convert = _VALUES.get(type_)
    return None if convert is None else convert(raw)
