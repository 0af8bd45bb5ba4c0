"""nvmlDeviceGetFieldValues: many readings in one driver call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from struct import Struct

from exporter.driver.interface import Call
from exporter.driver.nvml.session import Target

Number = int | float

_ENTRY = Struct("=IIqqIIQ")
"""nvmlFieldValue_t: field, scope, timestamp µs, latency µs, type of the value, return code, value."""
_FUNCTION = "nvmlDeviceGetFieldValues"
_LAST_ECC = 31
_DOUBLE, _RAW = Struct("=d"), Struct("=Q")


def _double(raw: int) -> Number:
    value: float = _DOUBLE.unpack(_RAW.pack(raw))[0]
    return value


_AS_THEY_ARE = frozenset({2, 3})
"""Types of 64 bits without a sign: what most entries have."""
_VALUES: Mapping[int, Callable[[int], Number]] = {
    0: _double,
    1: lambda raw: raw & 0xFFFFFFFF,
    2: lambda raw: raw,
    3: lambda raw: raw,
    4: lambda raw: raw - (raw >> 63 << 64),
    5: lambda raw: (raw & 0xFFFFFFFF) - ((raw >> 31 & 1) << 32),
    6: lambda raw: raw & 0xFFFF,
}


def field_values(target: Target, fields: Sequence[tuple[int, int]]) -> Call:
    """One value per (field, scope); None where the device has none."""
    # One entry more than asked: the driver reads past the last one in NVLink queries.
    blank = b"".join(_ENTRY.pack(field, scope, 0, 0, 0, 0, 0) for field, scope in (*fields, (0, 0)))
    size = len(blank)
    array = ctypes.create_string_buffer(blank, size)
    entries = memoryview(array).cast("B")[: len(fields) * _ENTRY.size]
    ask = target.library.asking(_FUNCTION, target.handle, len(fields), array)

    def call() -> tuple[Number | None, ...]:
        ctypes.memmove(array, blank, size)
        ask()
        return tuple(
            [
                raw if type_ in _AS_THEY_ARE and time and not failed else value(field, time, type_, failed, raw)
                for field, _, time, _, type_, failed, raw in _ENTRY.iter_unpack(entries)
            ]
        )

    return call


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
