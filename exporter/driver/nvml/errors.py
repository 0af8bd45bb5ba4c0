"""What each NVML return code means to us, stated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from exporter.driver.interface import (
    DeviceLostError,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    UnsupportedError,
)
from exporter.driver.nvml.binding import nvml

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
"""What the binding itself raises where it has a bug, or lacks a function that a newer release has."""


def code_name(code: int) -> str:
    """NVIDIA's name of a return code; codes younger than the binding get their number."""
    return _NAMES.get(code, f"ERROR_{code}")


def error_for(code: int, function: str) -> DriverError:
    name = code_name(code)
    return _KINDS.get(name, DriverError)(f"{function}: {name}", name)
