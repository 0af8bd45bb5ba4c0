"""The GPUs and MIG instances the driver shows."""

from __future__ import annotations

import ctypes
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from exporter.core.units import Fraction
from exporter.driver.interface import (
    CURSORS,
    Call,
    Device,
    DeviceLostError,
    DriverError,
    DriverGoneError,
    Mig,
    UnsupportedError,
)
from exporter.driver.nvml import structs
from exporter.driver.nvml.apart import Apart, HungError
from exporter.driver.nvml.calls import prepare
from exporter.driver.nvml.gpm import Meter
from exporter.driver.nvml.session import DeviceHandle, Session

log = logging.getLogger(__name__)

_MAX_GPUS, _MAX_INSTANCES = 256, 64
"""Limits for a node, and for a GPU: more is garbage, and each would be asked for its handle."""
DEVICES = Path("/dev")
_NODE = re.compile(r"nvidia\d+")
_PROFILE = re.compile(r"(?:(?P<compute>\d+)c\.)?(?P<gpu>\d+)g\.\d+gb\S*")


class NvmlDevice(Device):
    """A GPU or MIG instance of one session."""

    system_memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def __init__(self, session: Session, target: DeviceHandle, index: int, uuid: str) -> None:
        self._session = session
        self.target = target
        self.index = index
        self.uuid = uuid
        self.pci_bus_id = ""
        self.minor = None

    def call(self, function: str, *args: Any) -> Any:
        fixed = len(args) - (function in CURSORS)
        with self.reading():
            return self.prepared(function, *args[:fixed])(*args[fixed:])

    def told(self, function: str) -> Any:
        """Return what describes it, None where it has none. Where the driver fails for a moment: its last answer."""
        target = self.target
        try:
            target.told[function] = self._session.library.bound(function, target.handle)
        except UnsupportedError:
            target.told[function] = None
        except DriverError as error:
            if _ends_all(self._session, error):
                raise
            log.debug("%s of %s: %s", function, self.uuid, error)
        return target.told.get(function)

    def reading(self) -> AbstractContextManager[object]:
        return self._session.inside(self.target)

    def prepared(self, function: str, *args: Any) -> Call:
        calls, key = self.target.calls, (function, args)
        known = calls.get(key)
        if known is None:
            known = calls[key] = prepare(self.target, function, args)
        return known


def enumerate_devices(session: Session, apart: Apart) -> tuple[Device, ...]:
    """All GPUs that give a handle, in index order, MIG instances inside.

    A lost GPU gives none, nor does one that this process may not use: the others are shown all the same. One that hangs
    is shown as it was: whoever reads it finds out.
    """
    found: list[NvmlDevice] = []
    failures: list[tuple[int, DriverError]] = []
    count = session.library.bound("nvmlDeviceGetCount")
    if count > _MAX_GPUS:
        raise DriverError(f"nvmlDeviceGetCount: {count} GPUs, which is implausible", "IMPLAUSIBLE")
    claimed: dict[str, int] = {}
    questions = {index: partial(session.run, None, _open_gpu, session, index, claimed) for index in range(count)}
    for index, answer in apart.ask_all(questions).items():
        try:
            found.append(_answer_or_shown(session, index, answer, claimed))
        except DriverGoneError:
            raise
        except DriverError as error:
            log.debug("GPU %d gives no handle: %s", index, error)
            failures.append((index, error))
    unknown = [error for _, error in failures if type(error) is DriverError]
    if unknown and not found:  # as in a container that lost its devices
        raise DriverGoneError(str(unknown[0]), unknown[0].code)
    session.shown = {gpu.index: gpu for gpu in found}
    session.gpus = {gpu.target.handle.value: gpu.uuid for gpu in found}
    session.refused = _lost_gpus(failures, count) if failures else ()
    session.retire({device.uuid for gpu in found for device in (gpu, *gpu.instances)})
    return tuple(found)


def _answer_or_shown(
    session: Session, index: int, answer: Callable[[], NvmlDevice], claimed: Mapping[str, int]
) -> NvmlDevice:
    """Return the GPU; one that hangs as it was shown last."""
    try:
        return answer()
    except HungError:
        known: NvmlDevice | None = session.shown.get(index)
        if known is None or claimed.get(known.uuid, index) != index:
            raise
        return known


def _lost_gpus(failures: Sequence[tuple[int, DriverError]], count: int) -> tuple[tuple[int, str], ...]:
    """Return index and code of the GPUs that are lost, without those that this process may not use.

    The driver says UNKNOWN of both: it is a loss where this process has device files of as many GPUs as there are.
    """
    try:
        all_given = sum(_NODE.fullmatch(each.name) is not None for each in DEVICES.iterdir()) >= count
    except OSError:
        all_given = False
    lost = [(index, error.code) for index, error in failures if not isinstance(error, UnsupportedError)]
    return tuple([(index, code) for index, code in lost if all_given or code != "UNKNOWN"])


def sysfs_address(bus_id: str) -> str:
    """`00000000:1A:00.0`, as NVML writes a PCI address, in the form of sysfs: `0000:1a:00.0`."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        return f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return bus_id.lower()


def compute_slices(profile: str) -> int | None:
    """Compute slices of an instance by its profile: 3 of `3g.40gb`, 1 of `1c.3g.40gb`."""
    match = _PROFILE.fullmatch(profile)
    return None if match is None else int(match["compute"] or match["gpu"])


def _open_gpu(session: Session, index: int, claimed: dict[str, int]) -> NvmlDevice:
    """A handle and a UUID make a GPU. What else describes it may be missing: it is read all the same."""
    library = session.library
    handle = _handle_address(library.handle("nvmlDeviceGetHandleByIndex", index))
    uuid = library.bound("nvmlDeviceGetUUID", handle)
    if not uuid or claimed.setdefault(uuid, index) != index:  # series, owners and faults go by UUID
        uuid = f"{uuid}@{index}"
    gpu = NvmlDevice(session, _device_handle(session, uuid, handle), index, uuid)
    gpu.pci_bus_id = sysfs_address(getattr(gpu.told("nvmlDeviceGetPciInfo"), "busId", None) or "")
    gpu.minor = gpu.told("nvmlDeviceGetMinorNumber")
    mode = gpu.told("nvmlDeviceGetMigMode")
    if mode and mode[0]:
        gpu.instances = tuple(_open_instances(session, gpu))
    else:
        gpu.target.instances.clear()
    return gpu


def _open_instances(session: Session, gpu: NvmlDevice) -> Iterator[NvmlDevice]:
    slots = gpu.told("nvmlDeviceGetMaxMigDeviceCount") or 0
    if slots > _MAX_INSTANCES:
        log.warning("nvmlDeviceGetMaxMigDeviceCount: %d for %s, which is implausible", slots, gpu.uuid)
        return
    for place in range(slots):
        instance = _at_place(session, gpu, place, slots)
        if instance is not None:
            yield instance


def _at_place(session: Session, gpu: NvmlDevice, place: int, slots: int) -> NvmlDevice | None:
    """The instance there; None where none is. Where the driver fails for a moment, the one that was there before."""
    known = gpu.target.instances
    try:
        handle = _handle_address(
            session.library.handle("nvmlDeviceGetMigDeviceHandleByIndex", gpu.target.handle, place)
        )
        found = known[place] = _open_instance(session, gpu, handle, slots)
    except UnsupportedError:  # a place where no instance is, or one destroyed just now
        known.pop(place, None)
        return None
    except DriverError as error:
        if _ends_all(session, error):
            raise
        log.debug("MIG instance %d of %s: %s", place, gpu.uuid, error)
        return known.get(place)
    return found


def _open_instance(session: Session, gpu: NvmlDevice, handle: ctypes.c_void_p, slots: int) -> NvmlDevice:
    library = session.library
    uuid = library.bound("nvmlDeviceGetUUID", handle)
    if not uuid:
        raise DriverError("nvmlDeviceGetUUID: none of a MIG instance", "IMPLAUSIBLE")
    gpu_instance = library.bound("nvmlDeviceGetGpuInstanceId", handle)
    compute_instance = library.bound("nvmlDeviceGetComputeInstanceId", handle)
    target = _device_handle(session, uuid, handle, (gpu.target.handle, gpu_instance))
    device = NvmlDevice(session, target, gpu.index, uuid)
    try:
        attributes = structs.record(target, structs.ATTRIBUTES)()
    except UnsupportedError:
        attributes = None
    name = device.told("nvmlDeviceGetName") or ""
    profile = name.rpartition("MIG ")[2] if "MIG " in name else ""
    slices = attributes.computeInstanceSliceCount if attributes else compute_slices(profile)
    if not profile and attributes:
        profile = f"{attributes.gpuInstanceSliceCount}g.{round(attributes.memorySizeMB / 1024)}gb"
    device.pci_bus_id, device.minor, device.parent_uuid = gpu.pci_bus_id, gpu.minor, gpu.uuid
    device.mig = Mig(gpu_instance, compute_instance, profile, Fraction(min(1.0, (slices or 1) / slots)))
    return device


def _device_handle(
    session: Session, uuid: str, handle: ctypes.c_void_p, instance_of: tuple[Any, int] | None = None
) -> DeviceHandle:
    """The device as it was met before in this session, with its buffers, or as a new one."""
    known = session.targets.get(uuid)
    if known is not None and known.handle.value == handle.value:
        return known
    if known is not None:
        session.retire(session.targets.keys() - {uuid})
    if instance_of is None:
        meter = Meter(session.library, session.gate, handle)
    else:
        meter = Meter(session.library, session.gate, instance_of[0], (handle, instance_of[1]))
    target = session.targets[uuid] = DeviceHandle(session, handle, meter)
    return target


def _handle_address(handle: Any) -> ctypes.c_void_p:
    return ctypes.cast(handle, ctypes.c_void_p)


def _ends_all(session: Session, error: DriverError) -> bool:
    """Return whether the GPU or the driver has gone, rather than one call failed."""
    return isinstance(session.confirmed(error), DeviceLostError | DriverGoneError)
