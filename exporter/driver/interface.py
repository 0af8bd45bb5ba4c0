"""The seam between the program and whatever answers for the GPUs.

A driver answers by NVML function name with *plain data*: int, float, str, None, tuples of these, and `Record`s
whose attributes carry NVIDIA's own field names. The real driver (`nvml.py`), the simulator and a replayed
capture all stand behind this seam, so everything above it runs the same on each of them.

A few NVML calls are composite in C (versioned structs, sample buffers, GPM). Behind the seam they are one call:

| function | arguments | answer |
|---|---|---|
| nvmlDeviceGetFieldValues | ((field, scope), …) | one int, float or None (unsupported) per entry |
| nvmlDeviceGetSamples | type, last timestamp µs | ((timestamp µs, value), …), oldest first, newer than the given one |
| nvmlDeviceGetProcessUtilization | last timestamp µs | Records pid, timeStamp, smUtil, memUtil, encUtil, decUtil |
| nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses | | Records pid, usedGpuMemory (None: not known) |
| nvmlGpmMetricsGet | (metric, …) | {metric: value} since the call before this one, and GPM_SECONDS; {} on the first |
| nvmlDeviceGetGpuFabricInfoV, …MemoryInfo (v2), …PlatformInfo | | the struct as a Record |
| nvmlDeviceGetSramEccErrorStatus, …TemperatureV | | the struct as a Record |
| nvmlSystemGetDriverVersion | | a Device answers it too, as the Driver does |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from exporter.core.clock import UnixTime
from exporter.core.units import Fraction

Call = Callable[..., Any]
CURSORS = frozenset({"nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"})
"""Functions whose last argument is where to read on from: another one with each call."""
_NOTHING = nullcontext()


class DriverError(Exception):
    """The driver could not answer: the reading is lost and its collector has failed."""

    code = "UNKNOWN"

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code


class UnsupportedError(DriverError):
    """The device has no such reading: the sample is absent and nothing failed."""

    code = "NOT_SUPPORTED"


class DeviceLostError(DriverError):
    """This one device answers no more (fell off the bus, wants a reset)."""

    code = "GPU_IS_LOST"


class DriverGoneError(DriverError):
    """No library, no kernel module, or the driver was unloaded: drop every handle, open again later."""

    code = "DRIVER_NOT_LOADED"


class DriverMismatchError(DriverGoneError):
    """Library and kernel module differ: only a new process can load the new library."""

    code = "LIB_RM_VERSION_MISMATCH"


GPM_SECONDS = 0
"""Key of the seconds that an answer of GPM covers, where they are known. It is no metric."""


class Record(SimpleNamespace):
    """A driver struct as plain data, fields named as in NVML."""


@dataclass(frozen=True, slots=True)
class Mig:
    """A MIG instance: `share` is its fraction of the GPU's compute slices, 0 to 1."""

    gpu_instance: int
    compute_instance: int
    profile: str
    share: Fraction


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One XID the driver reported. `uuid` is empty where the event names no device."""

    uuid: str
    xid: int
    timestamp: UnixTime
    class_: str = ""
    """Class that the report itself states; empty if it has the number alone."""


class Device(ABC):
    """One GPU, or one MIG instance of a GPU; every read about it goes through `call` or `get`."""

    index: int
    """NVML index of the GPU; an instance carries its parent's."""
    uuid: str
    pci_bus_id: str
    """Address as sysfs writes it: `0000:1a:00.0`."""
    minor: int | None
    """N of /dev/nvidiaN."""
    parent_uuid: str = ""
    """Empty for a GPU."""
    mig: Mig | None = None
    instances: tuple[Device, ...] = ()
    system_memory: int | None = None
    """Bytes of the machine around it; None where that is not this machine."""

    @abstractmethod
    def call(self, function: str, *args: Any) -> Any:
        """The driver's answer as plain data.

        Raises UnsupportedError where the device has no such reading, another DriverError where the driver failed.
        """

    def get(self, function: str, *args: Any) -> Any:
        """Call like `call`, but return None where the device has no such reading."""
        try:
            return self.call(function, *args)
        except UnsupportedError:
            return None

    def reading(self) -> AbstractContextManager[object]:
        """Around the prepared calls of one read, all by one thread; outside of it they must not be made."""
        return _NOTHING

    def prepared(self, function: str, *args: Any) -> Call:
        """`call` made ready, to be made in many reads. An argument that changes (see CURSORS) is given each time."""
        return partial(self.call, function, *args)


class Driver(ABC):
    """Whatever answers for the GPUs of this node."""

    simulated: bool = False
    refused: tuple[tuple[int, str], ...] = ()
    """Index and error code of the GPUs the last `devices()` counted and got no handle for: lost ones."""

    @property
    def calls(self) -> int:
        """Calls made to the driver library since the start; 0 where none is behind."""
        return 0

    @abstractmethod
    def open(self) -> None:
        """Make ready to answer. Raises DriverGoneError; may be called again after `close`."""

    @abstractmethod
    def close(self) -> None:
        """Drop every handle. Never raises; harmless when not open."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """The GPUs the driver shows now, in index order, MIG instances inside. Lost ones are left out."""

    @abstractmethod
    def call(self, function: str, *args: Any) -> Any:
        """A system-wide call (`nvmlSystem…`), as `Device.call`."""

    @abstractmethod
    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        """XIDs since the last call, waiting up to `timeout` seconds for one; for a thread of its own.

        Raises UnsupportedError where the driver reports no events, another DriverError where it failed.
        """
