"""Calls that fill an array of structs: processes, their utilization, and the driver's own samples.

The array of the call before is offered again, so that one call does; it grows when the driver finds it too small.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

from exporter.driver.interface import Call, Record, UnsupportedError
from exporter.driver.nvml.binding import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, error_for
from exporter.driver.nvml.session import DeviceHandle

_ROOM = 32
_MAX_ARRAY_BYTES = 1 << 20
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
_SAMPLES_OF, _UTILIZATION = "nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"
_PERCENT = 100

Arguments = Callable[["_Array"], Sequence[Any]]
"""Arguments of the function after the device's handle."""


class _Array:
    """An array of structs that is offered to one function again and again, with the arguments beside it."""

    def __init__(self, target: DeviceHandle, symbol: str, size: int, room: int, arguments: Arguments) -> None:
        self._target = target
        self._symbol = symbol
        self._size = size
        self._arguments = arguments
        self.count = ctypes.c_uint()
        self.count_pointer = ctypes.byref(self.count)
        self.since = ctypes.c_ulonglong()
        self.type = ctypes.c_uint()
        self.type_pointer = ctypes.byref(self.type)
        self._make_room(room)

    def filled(self) -> memoryview:
        """The bytes of the entries the driver wrote; none where it found none."""
        for _ in range(_TRIES):
            self.count.value = self.room
            code = self._target.library.invoke(*self._call)
            if code == SUCCESS:
                return self._bytes[: min(self.count.value, self.room) * self._size]
            if code == NOT_FOUND:
                return self._bytes[:0]
            if code != INSUFFICIENT_SIZE:
                raise error_for(code, self._symbol)
            # Somewhat more than asked for, since processes may start in between.
            wanted = max(self.count.value, self.room) * 2 + 5
            if wanted * self._size > _MAX_ARRAY_BYTES:
                break
            self._make_room(wanted)
        raise error_for(INSUFFICIENT_SIZE, self._symbol)

    def __len__(self) -> int:
        """Bytes."""
        return len(self.buffer)

    def _make_room(self, room: int) -> None:
        self.room = room
        self.buffer = ctypes.create_string_buffer(room * self._size)
        self._bytes = memoryview(self.buffer).cast("B")
        self._call = (self._symbol, self._target.handle, *self._arguments(self))


def processes(target: DeviceHandle, function: str) -> Call:
    """The processes of one kind on the device. `usedGpuMemory` is None where the driver does not know it."""
    lists = [
        (form, _kept_array(target, symbol, form.size, _list_entries))
        for symbol, form in _process_calls(target, function)
    ]

    def call() -> tuple[Record, ...]:
        for form, array in lists:
            try:
                return tuple([_process_record(*entry) for entry in form.iter_unpack(array.filled())])
            except UnsupportedError as error:
                if error.code not in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH"):
                    raise
        raise UnsupportedError(f"{function}: not in this driver or its binding", "FUNCTION_NOT_FOUND")

    return call


def _list_entries(array: _Array) -> Sequence[Any]:
    return array.count_pointer, array.buffer


def _process_calls(target: DeviceHandle, function: str) -> Iterator[tuple[str, Struct]]:
    # Early R535 drivers gave the struct of _v3 one more field. What shows them: they export the first of these
    # two functions and not yet the second.
    library = target.library
    wide = library.has("nvmlDeviceGetConfComputeMemSizeInfo") and not library.has(
        "nvmlDeviceGetRunningProcessDetailList"
    )
    yield f"{function}_v3", _PROCESS_WIDE if wide else _PROCESS_V2
    yield f"{function}_v2", _PROCESS_V2
    yield function, _PROCESS_V1


def _process_record(pid: int, memory: int, gpu: int = _NO_INSTANCE, compute: int = _NO_INSTANCE, *_rest: int) -> Record:
    return Record(
        pid=pid,
        usedGpuMemory=None if memory == _NOT_KNOWN else memory,
        gpuInstanceId=None if gpu == _NO_INSTANCE else gpu,
        computeInstanceId=None if compute == _NO_INSTANCE else compute,
    )


def process_utilization(target: DeviceHandle) -> Call:
    """Return the use of each process since a timestamp (µs), less the old samples and the nonsense some drivers add."""

    def arguments(array: _Array) -> Sequence[Any]:
        return array.buffer, array.count_pointer, array.since

    array = _kept_array(target, _UTILIZATION, _PROCESS_UTILIZATION.size, arguments)

    def call(last: int) -> tuple[Record, ...]:
        array.since.value = last
        return tuple(
            [
                Record(pid=pid, timeStamp=time, smUtil=sm, memUtil=memory, encUtil=encoder, decUtil=decoder)
                for pid, time, sm, memory, encoder, decoder in _PROCESS_UTILIZATION.iter_unpack(array.filled())
                if time > last and max(sm, memory, encoder, decoder) <= _PERCENT
            ]
        )

    return call


def samples(target: DeviceHandle, type_: int) -> Call:
    """(timestamp µs, value) newer than a timestamp, oldest first."""

    def arguments(array: _Array) -> Sequence[Any]:
        return type_, array.since, array.type_pointer, array.count_pointer, array.buffer

    def call(last: int) -> tuple[tuple[int, int | float], ...]:
        array: _Array | None = target.buffers.get((_SAMPLES_OF, type_))
        if array is None:
            room = _sample_depth(target, type_, last)
            array = _Array(target, _SAMPLES_OF, _SAMPLE_SIZE, room, arguments)
            target.buffers[_SAMPLES_OF, type_] = array
        array.since.value = last
        found = array.filled()
        form = _SAMPLES.get(array.type.value)
        if form is None:
            raise UnsupportedError(f"{_SAMPLES_OF}: value type {array.type.value}", "NOT_SUPPORTED")
        return tuple(sorted([sample for sample in form.iter_unpack(found) if sample[0] > last]))

    return call


def _sample_depth(target: DeviceHandle, type_: int, last: int) -> int:
    """Return how many samples the driver's buffer has room for, which a call without an array reports."""
    value_type, count, since = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong(last)
    out, found = ctypes.byref(value_type), ctypes.byref(count)
    code = target.library.invoke(_SAMPLES_OF, target.handle, type_, since, out, found, None)
    if code not in (SUCCESS, INSUFFICIENT_SIZE, NOT_FOUND):
        raise error_for(code, _SAMPLES_OF)
    return min(max(count.value, _ROOM), _MAX_ARRAY_BYTES // _SAMPLE_SIZE)


def _kept_array(target: DeviceHandle, symbol: str, size: int, arguments: Arguments) -> _Array:
    array: _Array | None = target.buffers.get(symbol)
    if array is None:
        array = target.buffers[symbol] = _Array(target, symbol, size, _ROOM, arguments)
    return array
