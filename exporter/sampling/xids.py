"""XIDs as they come, from the driver's events and from the kernel log."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from exporter.collectors import sxid
from exporter.collectors.sxid import SxidCounts
from exporter.collectors.xid import FACILITIES, RECORD, XidCounts, XidReport, add_xids, count_xid, parse_xid, shift_xids
from exporter.collectors.xid_catalogue import DECODED
from exporter.core.clock import EPOCH, MonotonicClock, MonotonicTime, UnixTime, boot_time, clock_step, monotonic_time
from exporter.driver.interface import Driver, DriverError, UnsupportedError, XidEvent

_MAX_RECORD_BYTES = 8192
"""The longest record of the kernel."""
_MAX_RECORDS = 1000
"""Records taken in one go."""


class KernelLog:
    """A context manager. Raises OSError where the log cannot be opened."""

    def __init__(self, path: Path) -> None:
        """Begin with the oldest record that is still there."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = ""

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
"""Seconds between two checks whether the driver is open: an XID before that is lost."""
_DRIVER_LOADED = "NVRM: loading NVIDIA UNIX"
"""The kernel's words when the driver is loaded. That resets all GPUs."""
_RESET = re.compile(r"154, GPU recovery action changed from 0x1 .* to 0x0 ")
"""A reset was needed, and is not any more."""
_OF_PROGRAM = re.compile(r"NVRM: Xid \([^)]*\): (?P<xid>13|31), pid='?(?P<pid>\d{1,9})\b")
"""XIDs that a program causes, unless many programs have them on one GPU."""
_PROGRAM_SECONDS, _MAX_PROGRAMS = 6 * 3600.0, 64
"""Seconds that a failed program counts, and the number kept for each GPU."""
_MAX_GPUS = 256
"""GPUs, from which on no XID is kept of another one that the driver does not show."""
_NONE = XidCounts()


class XidLog:
    """The XIDs of each GPU since the start, counted by the threads that hear of them, read by the sampler.

    Those of a GPU that the driver does not show are kept by its PCI bus id, until it is shown.
    """

    def __init__(self, clock: MonotonicClock = monotonic_time, site: Mapping[int, str] | None = None) -> None:
        """`site` is the site's own list of classes, by XID."""
        self._site = site
        self._lock = threading.Lock()
        self._clock = clock
        self._counts: dict[str, XidCounts] = {}
        """The XIDs of each GPU, keyed by UUID or bus id."""
        self._programs: dict[str, dict[tuple[int, str], UnixTime]] = {}
        """Time of the last failure of a program, by XID and pid, keyed by UUID or bus id."""
        self._resets: dict[str, UnixTime] = {}
        """Time of the last reset in the kernel log, keyed by UUID or bus id."""
        self._loaded = EPOCH
        """Time of the last driver load in the kernel log."""
        self._booted = EPOCH
        """Wall-clock time at which the monotonic clock began; EPOCH before the first record."""
        self._sources: dict[str, bool] = {}
        self._asked: dict[str, MonotonicTime] = {}
        """Time since which each source that has not answered yet is asked."""
        self.switches = SxidCounts()
        """Those of NVSwitches. Replaced, never changed in place."""

    def add(self, event: XidEvent, source: str, booted: UnixTime = EPOCH, *, past: bool = False) -> None:
        """Count an event; `booted` as in `set_clock`. What was `past` before the start has a time, and no count.

        Where the kernel log is followed, its line states more than the driver's event.
        """
        if event.xid in DECODED and source == "nvml" and self._sources.get("kmsg"):
            return
        event = replace(event, timestamp=event.timestamp + (self._by_my_clock(booted) - booted))
        log.warning("XID %d on %s (%s)", event.xid, event.uuid or "an unknown GPU", source)
        with self._lock:
            before = self._counts.get(event.uuid, _NONE)
            after = count_xid(before, event, source, self._site)
            if not _is_bus_id(event.uuid) or event.uuid in self._counts or len(self._counts) < _MAX_GPUS:
                self._counts[event.uuid] = replace(after, by_source=before.by_source) if past else after

    def claim(self, uuids: Mapping[str, str]) -> None:
        """Give what was heard of a GPU by its bus id to the GPU that is shown there."""
        with self._lock:
            for bus in uuids.keys() & self._counts.keys():
                self._counts[uuids[bus]] = add_xids(self._counts.get(uuids[bus], _NONE), self._counts.pop(bus))
            for bus in uuids.keys() & self._resets.keys():
                self._resets[uuids[bus]] = self._resets.pop(bus)
            for bus in uuids.keys() & self._programs.keys():
                self._programs.setdefault(uuids[bus], {}).update(self._programs.pop(bus))

    @property
    def unclaimed(self) -> Mapping[str, Mapping[int, XidReport]]:
        """The XIDs that ask for something of GPUs that are not shown, by bus id and XID."""
        with self._lock:
            return {name: counts.standing for name, counts in self._counts.items() if _is_bus_id(name)}

    def reset(self, uuid: str) -> UnixTime:
        """Return when the kernel log last showed a reset of the GPU or a load of the driver."""
        return max(self._loaded, self._resets.get(uuid, EPOCH))

    def programs(self, uuid: str, now: UnixTime) -> Mapping[int, list[UnixTime]]:
        """Return when XIDs last hit each of the programs that they hit lately, by XID."""
        found: dict[int, list[UnixTime]] = {}
        with self._lock:
            for (xid, _), time in self._programs.get(uuid, {}).items():
                if now - time <= _PROGRAM_SECONDS:
                    found.setdefault(xid, []).append(time)
        return found

    def read(self, record: str, booted: UnixTime, uuids: Mapping[str, str], *, past: bool = False) -> None:
        """Take what one record of the kernel log reports, if anything: XID, SXID, reset, load of the driver."""
        booted = self._by_my_clock(booted)
        event, head = parse_xid(record, booted, uuids), RECORD.match(record)
        by_kernel = head is not None and int(head["priority"]) < FACILITIES
        if event:
            self.add(event, "kmsg", past=past)
        if event and by_kernel:
            self._note(record, event)
        elif head and by_kernel and head["text"].startswith(_DRIVER_LOADED):
            with self._lock:
                self._loaded = booted + int(head["microseconds"]) / 1e6
                self._counts = {name: counts for name, counts in self._counts.items() if not _is_bus_id(name)}
        switch = sxid.parse_sxid(record, booted)
        if switch:
            log.warning("SXID %s on NVSwitch %s (%s)", switch[0].sxid, switch[0].switch, switch[0].kind)
            with self._lock:
                self.switches = sxid.count_sxid(self.switches, *switch, more=0 if past else 1)

    def _note(self, record: str, event: XidEvent) -> None:
        """Keep what the record says beyond the XID: a reset that was done, a program that failed."""
        program = _OF_PROGRAM.search(record)
        with self._lock:
            if _RESET.search(record):
                self._resets[event.uuid] = event.timestamp
            if program:
                kept = self._programs.pop(event.uuid, {}) | {(event.xid, program["pid"]): event.timestamp}
                self._programs[event.uuid] = dict(sorted(kept.items(), key=lambda each: each[1])[-_MAX_PROGRAMS:])

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

    def set_clock(self, booted: UnixTime) -> None:
        """Move all times where the wall clock was set: `booted` is when the monotonic clock began to count, by it."""
        with self._lock:
            step, self._booted = clock_step(self._booted, booted), booted
            if not step:
                return
            self.switches = sxid.shift_sxids(self.switches, step)
            self._loaded = self._loaded + step if self._loaded > EPOCH else EPOCH
            self._resets = {uuid: time + step for uuid, time in self._resets.items()}
            self._counts = {uuid: shift_xids(counts, step) for uuid, counts in self._counts.items()}
            for failed in self._programs.values():
                failed.update({key: time + step for key, time in failed.items()})

    def _by_my_clock(self, booted: UnixTime) -> UnixTime:
        """Return `booted`, or what it was before the clock was set and `set_clock` was told."""
        self._booted = max(self._booted, booted) if self._booted == EPOCH else self._booted
        return booted + -clock_step(self._booted, booted)

    def counts(self, uuid: str) -> XidCounts:
        return self._counts.get(uuid, _NONE)


def _is_bus_id(name: str) -> bool:
    return ":" in name


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
                found.add(event, "nvml", boot_time())
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
    """Read kernel messages until stopped, those since the boot first; returns at once where the log cannot be opened.

    `uuids` gives the GPUs by PCI bus id. Runs on a thread of its own.
    """
    try:
        records = KernelLog(path)
    except OSError as error:
        found.set_source("kmsg", up=False)
        log.info("XIDs come from the driver alone: %s: %s", path, error.strerror)
        return
    with records:
        past_records(records, found, uuids())
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


def past_records(records: KernelLog, found: XidLog, uuids: Mapping[str, str]) -> None:
    """Take what the kernel log has of before: an exporter that was down missed it."""
    booted = boot_time()
    while messages := records.read():
        for message in messages:
            found.read(message, booted, uuids, past=True)


def past_xids(path: Path, found: XidLog) -> None:
    """Take what the kernel log has; nothing if it cannot be read."""
    with contextlib.suppress(OSError), KernelLog(path) as records:  # not root, or no such file
        past_records(records, found, {})
