"""Calls that fill an array of structs: processes, their utilization, and the driver's own samples.

The array of the call before is offered again, so that one call does; it grows when the driver finds it too small.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Any

from exporter.driver.interface import Record, UnsupportedError
from exporter.driver.nvml.errors import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, error_for
from exporter.driver.nvml.session import Target

_ROOM = 32
_LARGEST = 1 << 20
"""Bytes of one array: 40,000 processes. A driver that asks for more answers garbage."""
_TRIES = 5
_NOT_KNOWN = 0xFFFFFFFFFFFFFFFF
_NO_INSTANCE = 0xFFFFFFFF

_PROCESS_V1 = Struct("=I4xQ")
_PROCESS_V2 = Struct("=I4xQII")
_PROCESS_WIDE = Struct("=I4xQIIQ")
_PROCESS_UTILIZATION = Struct("=I4xQIIII")
_SAMPLE = {0: "d", 1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x"}
_SAMPLES: Mapping[int, Struct] = {type_: Struct(f"=Q{form}") for type_, form in _SAMPLE.items()}
_SAMPLE_SIZE = 16
_PERCENT = 100

Ask = Callable[[Any, Any], int]
"""(array, pointer to its length) -> return code."""


def processes(target: Target, function: str) -> tuple[Record, ...]:
    """The processes of one kind on the device. `usedGpuMemory` is None where the driver does not know it."""
    for symbol, form in _process_calls(target, function):
        try:
            return tuple(_process(*entry) for entry in _filled(target, symbol, form))
        except UnsupportedError as error:
            if error.code not in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH"):
                raise
    raise UnsupportedError(f"{function}: not in this driver or its binding", "FUNCTION_NOT_FOUND")


def _process_calls(target: Target, function: str) -> Iterator[tuple[str, Struct]]:
    # Early R535 drivers gave the struct of _v3 one more field. What tells them: they export the first of these
    # two functions and not yet the second.
    library = target.library
    wide = library.has("nvmlDeviceGetConfComputeMemSizeInfo") and not library.has(
        "nvmlDeviceGetRunningProcessDetailList"
    )
    yield f"{function}_v3", _PROCESS_WIDE if wide else _PROCESS_V2
    yield f"{function}_v2", _PROCESS_V2
    yield function, _PROCESS_V1


def _process(pid: int, memory: int, gpu: int = _NO_INSTANCE, compute: int = _NO_INSTANCE, *_rest: int) -> Record:
    return Record(
        pid=pid,
        usedGpuMemory=None if memory == _NOT_KNOWN else memory,
        gpuInstanceId=None if gpu == _NO_INSTANCE else gpu,
        computeInstanceId=None if compute == _NO_INSTANCE else compute,
    )


def process_utilization(target: Target, last: int) -> tuple[Record, ...]:
    """What each process used since `last` (µs), less the old samples and the nonsense some drivers add."""

    def ask(array: Any, count: Any) -> int:
        return target.library.invoke(
            "nvmlDeviceGetProcessUtilization", target.handle, array, count, ctypes.c_ulonglong(last)
        )

    found = _array(target, "nvmlDeviceGetProcessUtilization", _PROCESS_UTILIZATION.size, ask)
    return tuple(
        [
            Record(pid=pid, timeStamp=time, smUtil=sm, memUtil=memory, encUtil=encoder, decUtil=decoder)
            for pid, time, sm, memory, encoder, decoder in _PROCESS_UTILIZATION.iter_unpack(found)
            if time > last and max(sm, memory, encoder, decoder) <= _PERCENT
        ]
    )


def samples(target: Target, type_: int, last: int) -> tuple[tuple[int, int | float], ...]:
    """(timestamp µs, value) newer than `last`, oldest first."""
    value_type = ctypes.c_uint()

    def ask(array: Any, count: Any) -> int:
        kind, newer, out = ctypes.c_int(type_), ctypes.c_ulonglong(last), ctypes.byref(value_type)
        return target.library.invoke("nvmlDeviceGetSamples", target.handle, kind, newer, out, count, array)

    key = ("samples", type_)
    if key not in target.buffers:
        target.buffers[key] = _sized(ask)
    found = _array(target, key, _SAMPLE_SIZE, ask)
    form = _SAMPLES.get(value_type.value)
    if form is None:
        raise UnsupportedError(f"nvmlDeviceGetSamples: value type {value_type.value}", "NOT_SUPPORTED")
    return tuple(sorted([(time, value) for time, value in form.iter_unpack(found) if time > last]))


def _sized(ask: Ask) -> Any:
    """An array as long as the driver's sample buffer, which a call without one tells."""
    count = ctypes.c_uint()
    code = ask(None, ctypes.byref(count))
    if code not in (SUCCESS, INSUFFICIENT_SIZE, NOT_FOUND):
        raise error_for(code, "nvmlDeviceGetSamples")
    return ctypes.create_string_buffer(min(max(count.value, _ROOM) * _SAMPLE_SIZE, _LARGEST))


def _filled(target: Target, symbol: str, form: Struct) -> Iterator[tuple[int, ...]]:
    def ask(array: Any, count: Any) -> int:
        return target.library.invoke(symbol, target.handle, count, array)

    return form.iter_unpack(_array(target, symbol, form.size, ask))


def _array(target: Target, key: object, size: int, ask: Ask) -> memoryview:
    """The bytes of the entries the driver wrote; none where it found none."""
    for _ in range(_TRIES):
        buffer = target.buffers.get(key)
        if buffer is None:
            buffer = target.buffers[key] = ctypes.create_string_buffer(_ROOM * size)
        room = len(buffer) // size
        count = ctypes.c_uint(room)
        code = ask(buffer, ctypes.byref(count))
        if code == SUCCESS:
            return memoryview(buffer).cast("B")[: min(count.value, room) * size]
        if code == NOT_FOUND:
            return memoryview(b"")
        if code != INSUFFICIENT_SIZE:
            raise error_for(code, str(key))
        # Somewhat more than asked for, since processes may start in between.
        wanted = (max(count.value, room) * 2 + 5) * size
        if wanted > _LARGEST:
            break
        target.buffers[key] = ctypes.create_string_buffer(wanted)
    raise error_for(INSUFFICIENT_SIZE, str(key))
