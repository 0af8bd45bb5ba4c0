"""XIDs as they come, from the driver's events and from the kernel log."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from exporter.collectors import sxid
from exporter.collectors.sxid import SxidCounts
from exporter.collectors.xid import XidCounts, counted, not_after, parse
from exporter.collectors.xid_catalogue import DECODED
from exporter.core.clock import MonotonicClock, MonotonicTime, UnixTime, boot_time, monotonic_time
from exporter.driver.interface import Driver, DriverError, UnsupportedError, XidEvent

_MAX_RECORD_BYTES = 8192
"""The longest record of the kernel."""
_MAX_RECORDS = 1000
"""Records taken in one go."""


class KernelLog:
    """A context manager. Raises OSError where the log cannot be opened."""

    def __init__(self, path: Path, *, past: bool) -> None:
        """`past`: from the oldest record that is still there; otherwise only what comes from now on."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = ""
        if not past:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def __enter__(self) -> KernelLog:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def wait(self, seconds: float) -> bool:
        """Return whether there is something to read within `seconds`. A plain file at its end reports it too."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self) -> list[str]:
        """The records there now: /dev/kmsg gives one a read, and EAGAIN after the last."""
        found: list[str] = []
        while len(found) < _MAX_RECORDS:
            try:
                data = os.read(self._descriptor, _MAX_RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before they were read: go on with the next
                continue
            if not data:
                break
            *lines, rest = (self._rest + data.decode(errors="replace")).split("\n")
            self._rest = rest[-_MAX_RECORD_BYTES:]
            found += lines
        return found


log = logging.getLogger(__name__)

_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_HANG_SECONDS = 10.0
"""Seconds after which a wait of one second counts as hung."""
_OPEN_POLL_SECONDS = 0.1
"""Seconds between two looks at whether the driver is open: an XID before that is lost."""
_DRIVER_LOADED = "NVRM: loading NVIDIA UNIX"
"""The kernel's words when the driver is loaded. That resets all GPUs."""
_NONE = XidCounts()


class XidLog:
    """The XIDs of each GPU since the start, counted by the threads that hear of them, read by the sampler."""

    def __init__(self, clock: MonotonicClock = monotonic_time, site: Mapping[int, str] | None = None) -> None:
        """`site` is the site's own list of classes, by XID."""
        self._site = site
        self._lock = threading.Lock()
        self._clock = clock
        self._counts: dict[str, XidCounts] = {}
        self._sources: dict[str, bool] = {}
        self._asked: dict[str, MonotonicTime] = {}
        """Since when a source is being asked that has not answered yet."""
        self.switches = SxidCounts()
        """Those of NVSwitches. Replaced, never changed in place."""

    def add(self, event: XidEvent, source: str) -> None:
        """Count an event. Where the kernel log is followed, its line states more than the driver's event."""
        if event.xid in DECODED and source == "nvml" and self._sources.get("kmsg"):
            return
        log.warning("XID %d on %s (%s)", event.xid, event.uuid or "an unknown GPU", source)
        with self._lock:
            self._counts[event.uuid] = counted(self._counts.get(event.uuid, _NONE), event, source, self._site)

    def read(self, record: str, booted: UnixTime, uuids: Mapping[str, str]) -> None:
        """Take the XID or SXID that one record of the kernel log reports, if any."""
        event = parse(record, booted, uuids)
        if event:
            self.add(event, "kmsg")
        switch = sxid.parse(record, booted)
        if switch:
            log.warning("SXID %s on NVSwitch %s (%s)", switch[0].sxid, switch[0].switch, switch[0].kind)
            with self._lock:
                self.switches = sxid.counted(self.switches, *switch)

    def set_source(self, source: str, up: bool) -> None:  # noqa: FBT001 - what is reported
        """Return whether `source` is being followed."""
        with self._lock:
            self._sources[source] = up
            self._asked.pop(source, None)

    def asks(self, source: str) -> None:
        """Note that the source is asked now; `set_source` follows."""
        with self._lock:
            self._asked[source] = self._clock()

    def sources(self) -> Mapping[str, bool]:
        """Return whether each is being followed: not one that hangs, whatever it was before."""
        now = self._clock()
        with self._lock:
            return self._sources | {name: False for name, since in self._asked.items() if now - since > _HANG_SECONDS}

    def set_back(self, now: UnixTime) -> None:
        """Limit all times to `now`: later ones are of a clock that was set back since then."""
        with self._lock:
            self.switches = sxid.not_after(self.switches, now)
            self._counts = {uuid: not_after(counts, now) for uuid, counts in self._counts.items()}

    def counts(self, uuid: str) -> XidCounts:
        return self._counts.get(uuid, _NONE)


def follow_driver(driver: Driver, found: XidLog, stopped: threading.Event, open_: Callable[[], bool]) -> None:
    """Wait for the driver's XID events until stopped, whenever the driver is open. Runs on its own thread."""
    failed = ""
    while not stopped.is_set():
        if not open_():
            stopped.wait(_OPEN_POLL_SECONDS)
            continue
        found.asks("nvml")
        try:
            for event in driver.events(_WAIT_SECONDS):
                found.add(event, "nvml")
            found.set_source("nvml", up=True)
            failed = ""
        except DriverError as error:
            found.set_source("nvml", up=False)
            if str(error) != failed:
                level = logging.INFO if isinstance(error, UnsupportedError) else logging.WARNING
                log.log(level, "no XID events from the driver: %s", error)
            failed = str(error)
            stopped.wait(_RETRY_SECONDS)


def follow_kernel_log(
    path: Path, found: XidLog, uuids: Callable[[], Mapping[str, str]], stopped: threading.Event
) -> None:
    """Read new kernel messages until stopped; returns at once where the log cannot be opened.

    `uuids` gives the GPUs by PCI bus id. Runs on a thread of its own.
    """
    try:
        records = KernelLog(path, past=False)
    except OSError as error:
        found.set_source("kmsg", up=False)
        log.info("XIDs come from the driver alone: %s: %s", path, error.strerror)
        return
    with records:
        found.set_source("kmsg", up=True)
        try:
            while not stopped.is_set():
                messages = records.read() if records.wait(_WAIT_SECONDS) else None
                for message in messages or ():
                    found.read(message, boot_time(), uuids())
                if messages == []:
                    stopped.wait(_WAIT_SECONDS)  # a plain file is always ready to be read, also at its end
        finally:
            found.set_source("kmsg", up=False)


def past_xids(path: Path, found: XidLog, uuids: Mapping[str, str]) -> None:
    """Add the XIDs that the kernel log has since the driver was last loaded; none if it cannot be read."""
    booted = boot_time()
    kept: list[str] = []
    with contextlib.suppress(OSError), KernelLog(path, past=True) as records:  # not root, or no such file
        while messages := records.read():
            kept += messages
    loads = [place for place, message in enumerate(kept) if _DRIVER_LOADED in message]
    for message in kept[loads[-1] if loads else 0 :]:
        found.read(message, booted, uuids)
