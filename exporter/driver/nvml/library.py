"""Calls into the driver library: counted, their errors mapped, what it lacks remembered."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from exporter.driver.interface import DriverError, DriverGoneError, DriverMismatchError, UnsupportedError
from exporter.driver.nvml.binding import BINDING_ERRORS, LIBRARY_MISMATCH, SUCCESS, error_for, nvml, plain

log = logging.getLogger(__name__)

_MPS_VIEW = "NVML_MPS_DEVICE_ENUMERATION"
"""Variable of MPS. With it, NVML shows the devices as MPS clients see them, and most readings are not supported."""


class Library:
    """libnvidia-ml.so.1, which stays mapped for the life of the process once it was found."""

    def __init__(self) -> None:
        self._missing: set[str] = set()
        self._functions: dict[str, Callable[..., int]] = {}
        self.calls = 0
        """Driver calls that have returned."""

    def start(self) -> None:
        """Load and initialise. Raises DriverGoneError whatever the reason: without it there is nothing to read."""
        os.environ.pop(_MPS_VIEW, None)
        try:
            self.bound("nvmlInit")
        except (DriverGoneError, DriverMismatchError) as error:
            if error.code == "LIBRARY_NOT_FOUND":
                own = os.environ.get("LD_LIBRARY_PATH", "")
                raise DriverGoneError(
                    f"libnvidia-ml.so.1 was not found, neither in LD_LIBRARY_PATH ({own or 'not set'}) nor in the "
                    "linker's cache (ldconfig -p), /lib and /usr/lib: install NVIDIA's driver; a container gets it "
                    "from NVIDIA's container toolkit",
                    error.code,
                ) from None
            raise
        except DriverError as error:
            raise DriverGoneError(str(error), error.code) from error

    def stop(self) -> None:
        try:
            self.bound("nvmlShutdown")
        except DriverError as error:
            log.debug("shutdown: %s", error)

    def has(self, symbol: str) -> bool:
        """Return whether this driver exports the C function."""
        return symbol not in self._missing and hasattr(nvml.nvmlLib, symbol)

    def invoke(self, symbol: str, *args: Any) -> int:
        """Call a C function and give its return code. Raises UnsupportedError where this driver lacks it."""
        code = self.function(symbol)(*args)
        self.calls += 1
        return code

    def ask(self, symbol: str, *args: Any) -> None:
        """Call a C function. Raises the DriverError its return code stands for."""
        code = self.invoke(symbol, *args)
        if code != SUCCESS:
            raise error_for(code, symbol)

    def function(self, symbol: str) -> Callable[..., int]:
        """Return the C function, or one that raises where this driver lacks it: a failed look-up costs more."""
        known = self._functions.get(symbol)
        if known is not None:
            return known
        function: Callable[..., int] = partial(_raise_missing, symbol)
        if self.has(symbol):
            function = getattr(nvml.nvmlLib, symbol)
        else:
            self._missing.add(symbol)
        self._functions[symbol] = function
        return function

    def bound(self, function: str, *args: Any) -> Any:
        """The binding's own wrapper of a function, its answer as plain data."""
        return plain(self.handle(function, *args))

    def handle(self, function: str, *args: Any) -> Any:
        """Call like `bound` and return the binding's answer as it is: for handles."""
        if function in self._missing:
            raise _missing_function(function)
        self.calls += 1
        try:
            return getattr(nvml, function)(*args)
        except nvml.NVMLError as error:
            mapped = error_for(error.value, function)
            # Where the library has the C function behind the binding's wrapper, under any version, this was the
            # answer of one device at one moment, and the next may differ.
            if mapped.code == "FUNCTION_NOT_FOUND" and not any(
                hasattr(nvml.nvmlLib, f"{function}{suffix}") for suffix in ("", "_v1", "_v2", "_v3", "_v4")
            ):
                self._missing.add(function)
            raise mapped from None
        except LIBRARY_MISMATCH:
            self._missing.add(function)
            raise _missing_function(function) from None
        except UnicodeDecodeError as error:
            return error.object  # a text with odd bytes, for which `plain` has a sign
        except BINDING_ERRORS as error:
            raise self._binding_defect(function, error) from error

    def _binding_defect(self, function: str, error: Exception) -> UnsupportedError:
        if not hasattr(nvml, function):
            self._missing.add(function)
            return _missing_function(function)
        log.debug("nvidia-ml-py fails in %s", function, exc_info=error)
        return UnsupportedError(f"{function}: nvidia-ml-py fails: {error}", "BINDING")


def _missing_function(function: str) -> UnsupportedError:
    return UnsupportedError(f"{function}: not in this driver or its binding", "FUNCTION_NOT_FOUND")


def _raise_missing(symbol: str, *_args: object) -> NoReturn:
    raise _missing_function(symbol)
