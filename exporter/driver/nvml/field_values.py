"""nvmlDeviceGetFieldValues: many readings in one driver call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

from exporter.driver.nvml.session import Target

Number = int | float

_ENTRY = Struct("=IIqqIIQ")
"""nvmlFieldValue_t: field, scope, timestamp µs, latency µs, type of the value, return code, value."""
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


@dataclass(frozen=True, slots=True)
class _Batch:
    """An array made once for these fields, and its bytes as they were before the driver wrote into it."""

    array: Any
    entries: memoryview
    """Of the array, without the one more."""
    blank: bytes
    count: int


def field_values(target: Target, fields: Sequence[tuple[int, int]]) -> tuple[Number | None, ...]:
    """One value per (field, scope); None where the device has none."""
    key = ("fields", tuple(fields))
    batch = target.buffers.get(key)
    if batch is None:
        batch = target.buffers[key] = _batch(fields)
    ctypes.memmove(batch.array, batch.blank, len(batch.blank))
    target.library.ask("nvmlDeviceGetFieldValues", target.handle, batch.count, batch.array)
    return tuple(
        [
            raw if type_ in _AS_THEY_ARE and time and not code else value(field, time, type_, code, raw)
            for field, _, time, _, type_, code, raw in _ENTRY.iter_unpack(batch.entries)
        ]
    )


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


def _batch(fields: Sequence[tuple[int, int]]) -> _Batch:
    # One entry more than asked: the driver reads past the last one in NVLink queries.
    blank = b"".join(_ENTRY.pack(field, scope, 0, 0, 0, 0, 0) for field, scope in (*fields, (0, 0)))
    array = ctypes.create_string_buffer(blank, len(blank))
    return _Batch(array, memoryview(array).cast("B")[: len(fields) * _ENTRY.size], blank, len(fields))
