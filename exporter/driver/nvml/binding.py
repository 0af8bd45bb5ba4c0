"""nvidia-ml-py: loaded, its return codes as our errors, and its answers as plain data.

It imports `find_library` of `ctypes.util`, which brings tempfile, shutil and their compressors: 1 MiB of memory. So it
is loaded without.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any, Final, cast

from exporter.core.printable import printable
from exporter.driver.interface import (
    DeviceLostError,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    Record,
    UnsupportedError,
)

_UNUSED = "ctypes.util"


def _load_binding() -> ModuleType:
    if _UNUSED in sys.modules:
        return importlib.import_module("pynvml")
    stand_in = ModuleType(_UNUSED)
    vars(stand_in)["find_library"] = _find_library
    sys.modules[_UNUSED] = stand_in
    try:
        return importlib.import_module("pynvml")
    finally:
        del sys.modules[_UNUSED]


def _find_library(name: str) -> str | None:
    """The real one, should a release of the binding call it."""
    found: str | None = importlib.import_module(_UNUSED).find_library(name)
    return found


# The binding ships no types; every use of it goes through this name.
nvml: Final[Any] = _load_binding()

SUCCESS = 0
UNINITIALIZED = 1
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
ARGUMENT_VERSION_MISMATCH = 25

_KINDS: Mapping[str, type[DriverError]] = {
    "UNINITIALIZED":             DriverGoneError,
    "DRIVER_NOT_LOADED":         DriverGoneError,
    "LIBRARY_NOT_FOUND":         DriverGoneError,
    "LIB_RM_VERSION_MISMATCH":   DriverMismatchError,
    "GPU_IS_LOST":               DeviceLostError,
    "RESET_REQUIRED":            DeviceLostError,
    "GPU_NOT_FOUND":             DeviceLostError,
    "NOT_SUPPORTED":             UnsupportedError,
    "VGPU_ECC_NOT_SUPPORTED":    UnsupportedError,
    "FREQ_NOT_SUPPORTED":        UnsupportedError,
    "FUNCTION_NOT_FOUND":        UnsupportedError,   # an older driver
    "ARGUMENT_VERSION_MISMATCH": UnsupportedError,   # an older driver, which knows no such struct
    "DEPRECATED":                UnsupportedError,   # a newer driver
    "INVALID_ARGUMENT":          UnsupportedError,   # an enumerator or index this device or driver has not
    "NO_PERMISSION":             UnsupportedError,   # some readings are for root alone
    "NOT_FOUND":                 UnsupportedError,
    "NO_DATA":                   UnsupportedError,
}  # fmt: skip

_PREFIX = "NVML_ERROR_"
_exported = cast("Mapping[str, object]", vars(nvml))
_NAMES: Mapping[int, str] = {
    value: name.removeprefix(_PREFIX)
    for name, value in _exported.items()
    if name.startswith(_PREFIX) and isinstance(value, int)
}

LIBRARY_MISMATCH: type[Exception] = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
"""The binding's word for a function too new for this driver. No NVMLError, and not in the oldest bindings."""

BINDING_ERRORS = (AttributeError, TypeError, ValueError)
"""Errors of the binding itself, where it has a bug, or lacks a function that a newer release has."""


def code_name(code: int) -> str:
    """NVIDIA's name of a return code; codes younger than the binding get their number."""
    return _NAMES.get(code, f"ERROR_{code}")


def error_for(code: int, function: str) -> DriverError:
    name = code_name(code)
    return _KINDS.get(name, DriverError)(f"{function}: {name}", name)


def plain(answer: Any) -> Any:
    """int, float, str, None, tuples of these, and Records for structs."""
    if answer is None or type(answer) in _PLAIN:
        return answer
    if type(answer) is str:
        return printable(answer)
    for kind, convert in _CONVERTERS.items():
        if isinstance(answer, kind):
            return convert(answer)
    return plain(getattr(answer, "value", None))  # c_uint and its like; a pointer means nothing outside of C


def _decode_text(answer: bytes) -> str:
    return printable(answer.rstrip(b"\0").decode(errors="replace"))


def _convert_sequence(answer: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(plain(item) for item in answer)


def _convert_struct(answer: Any) -> Record:
    field = partial(object.__getattribute__, answer)  # the binding's own fails at a text with odd bytes
    return Record(**{name: plain(field(name)) for name in _field_names(answer.__class__)})


@cache
def _field_names(struct: Any) -> tuple[str, ...]:
    return tuple(entry[0] for entry in struct._fields_)


def _friendly_struct(answer: Any) -> Record:
    values: dict[str, Any] = answer.__dict__
    return Record(**{name: plain(value) for name, value in values.items()})


_PLAIN = frozenset({int, float})
_CONVERTERS: Mapping[type[Any], Callable[[Any], Any]] = {
    bool:                    int,
    int:                     int,
    bytes:                   _decode_text,
    list:                    _convert_sequence,
    tuple:                   _convert_sequence,
    ctypes.Array:            _convert_sequence,
    ctypes.Structure:        _convert_struct,
    ctypes.Union:            _convert_struct,
    nvml.nvmlFriendlyObject: _friendly_struct,
}  # fmt: skip
