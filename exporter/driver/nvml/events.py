"""XIDs as NVML reports them."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Any

from exporter.core.clock import MonotonicTime, monotonic_time, unix_time
from exporter.driver import constants as nvml
from exporter.driver.interface import DeviceLostError, DriverError, UnsupportedError, XidEvent
from exporter.driver.nvml.apart import Apart, HungError
from exporter.driver.nvml.binding import SUCCESS, TIMEOUT, error_for
from exporter.driver.nvml.library import Library

log = logging.getLogger(__name__)

_EVENT = Struct("=QQQII")
"""nvmlEventData_t: device, event type, data (the XID), GPU and compute instance."""
_SLICE_SECONDS = 0.5
"""Seconds of one wait: closing the driver must not take longer than that."""
_MAX_EVENTS = 256
"""Events given out at once: an error storm must not block the caller."""


class Feed:
    """One event set over all GPUs. Belongs to one thread, but for `free`."""

    def __init__(self, library: Library, inside: Callable[..., bool]) -> None:
        """`inside` makes a call on a thread that is noted to be inside the driver meanwhile."""
        self._library = library
        self._inside = inside
        self._apart = Apart()
        self._set: ctypes.c_void_p | None = None
        self._watched: dict[int, bool] = {}
        """Map of handle to whether the GPU reports XIDs."""
        self._names: dict[int, str] = {}
        """uuid by handle, of GPUs that have gone too: the XID that shows why comes as they go."""
        self._unheard: set[int] = set()
        """Handles of the GPUs that hung when they were to be registered."""
        self._buffer = ctypes.create_string_buffer(_EVENT.size)

    def wait(self, gpus: Mapping[int, str], timeout: float, closed: Callable[[], bool]) -> tuple[XidEvent, ...]:
        """Events of these GPUs (uuid by handle) now there, or the first to come within `timeout` seconds."""
        self._names.update(gpus)
        try:
            self._watch(gpus)
            return self._wait_events(monotonic_time() + timeout, closed)
        except UnsupportedError:
            raise
        except DriverError:
            self.free()  # the set may be of no use any more: the next call makes another
            raise

    def free(self) -> None:
        event_set, self._set = self._set, None
        self._watched.clear()
        self._names.clear()
        if event_set is not None and not self._apart.left:  # else a call that hangs still has it
            try:
                self._library.ask("nvmlEventSetFree", event_set)
            except DriverError:  # gone with the driver
                return

    def _watch(self, gpus: Mapping[int, str]) -> None:
        if self._set is None:
            event_set = ctypes.c_void_p()
            self._library.ask("nvmlEventSetCreate", ctypes.byref(event_set))
            self._set = event_set
        for handle in self._watched.keys() - gpus.keys():  # a GPU that is lost is registered anew when it returns
            del self._watched[handle]
        new = gpus.keys() - self._watched.keys()
        if new:
            self._meet_gpus({handle: gpus[handle] for handle in new}, self._set)
        if not any(self._watched.values()):
            raise UnsupportedError("nvmlDeviceRegisterEvents: no GPU reports XIDs", "NOT_SUPPORTED")

    def _meet_gpus(self, gpus: Mapping[int, str], event_set: ctypes.c_void_p) -> None:
        """Register them. One that hangs is registered once its call has returned; the others are heard meanwhile."""
        questions = {each: partial(self._inside, self._register_gpu, ctypes.c_void_p(each), event_set) for each in gpus}
        for handle, answer in self._apart.ask_all(questions).items():
            try:
                self._watched[handle] = answer()
            except HungError:
                if handle not in self._unheard:
                    log.warning("XIDs of GPU %s are not heard: nvmlDeviceRegisterEvents hangs", gpus[handle])
                self._unheard.add(handle)

    def _register_gpu(self, handle: Any, event_set: Any) -> bool:
        supported = ctypes.c_ulonglong()
        try:
            self._library.ask("nvmlDeviceGetSupportedEventTypes", handle, ctypes.byref(supported))
            wanted = supported.value & nvml.nvmlEventTypeXidCriticalError
            if wanted:
                self._library.ask("nvmlDeviceRegisterEvents", handle, ctypes.c_ulonglong(wanted), event_set)
        except (UnsupportedError, DeviceLostError):
            return False
        return bool(wanted)

    def _wait_events(self, deadline: MonotonicTime, closed: Callable[[], bool]) -> tuple[XidEvent, ...]:
        found: list[XidEvent] = []
        while len(found) < _MAX_EVENTS and not closed():
            started = monotonic_time()
            seconds = 0.0 if found else min(max(deadline - started, 0.0), _SLICE_SECONDS)
            code = self._library.invoke(
                "nvmlEventSetWait_v2", self._set, self._buffer, ctypes.c_uint(int(seconds * 1000))
            )
            if code == SUCCESS:
                device, type_, data, _, _ = _EVENT.unpack(self._buffer)
                if type_ == nvml.nvmlEventTypeXidCriticalError:
                    found.append(XidEvent(self._names.get(device, ""), data, unix_time()))
                continue
            if code != TIMEOUT:
                raise error_for(code, "nvmlEventSetWait_v2")
            if found or monotonic_time() >= deadline:
                break
            early = started + seconds - monotonic_time()
            time.sleep(min(max(early, 0.0), _SLICE_SECONDS))  # drivers may return before their time: do not spin
        return tuple(found)
