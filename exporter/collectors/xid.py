"""XIDs: the errors the driver reports of a GPU, counted by code, with what NVIDIA advises.

They come as events, not as readings: the thread that waits for them advances one `XidCounts` per GPU. The kernel log is
read too: a lost GPU often sends no event, and its last report is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from exporter.collectors.xid_catalogue import (
    HARDWARE,
    IGNORE,
    INJECTED,
    NVLINK5,
    RECOVERY_CHANGED,
    REENGAGED,
    RESET,
    class_of,
    decode_class,
)
from exporter.core.clock import EPOCH, UnixTime
from exporter.core.families import Family, Sample, Shown, Unit, counters, gauges
from exporter.core.record import record
from exporter.driver.interface import XidEvent


class XidReport(NamedTuple):
    """The latest report of one XID."""

    class_: str
    time: UnixTime


@record
class XidCounts:
    """The XIDs of one GPU since the exporter started.

    The driver's events and the kernel log report the same XIDs, and each misses some: sources are counted apart,
    and a code's count is the highest of them.
    """

    by_source: Mapping[tuple[int, str, str], int] = field(default_factory=dict[tuple[int, str, str], int])
    """Counts, keyed by XID, class and source."""
    last: Mapping[tuple[int, str], UnixTime] = field(default_factory=dict[tuple[int, str], UnixTime])
    """Time of the latest, keyed by XID and class, without those that a later XID has ended."""
    standing: Mapping[int, XidReport] = field(default_factory=dict[int, XidReport])
    """The latest that asks for something, by XID; of class `ignore` where a later one has ended it."""

    @property
    def counts(self) -> Mapping[tuple[int, str], int]:
        """Return the counts by XID and class."""
        counts = {(xid, RESET if xid in NVLINK5 else class_of(xid)): 0 for xid in HARDWARE}
        for (xid, class_, _), count in self.by_source.items():
            counts[xid, class_] = max(counts.get((xid, class_), 0), count)
        return dict(sorted(counts.items()))


def count_xid(before: XidCounts, event: XidEvent, source: str, site: Mapping[int, str] | None = None) -> XidCounts:
    """`before` and one event more; `source` is who reported it (`nvml`, `kmsg`), `site` are the site's own classes."""
    class_ = event.class_ or class_of(event.xid)
    if class_ != INJECTED:
        class_ = (site or {}).get(event.xid, class_)
    key = (event.xid, class_)
    ended = REENGAGED.get(event.xid, RECOVERY_CHANGED if key == (RECOVERY_CHANGED, IGNORE) else None)
    standing = dict(before.standing)
    if ended is not None:
        standing[ended] = XidReport(IGNORE, event.timestamp)
    elif class_ not in (IGNORE, INJECTED):
        last = standing.get(event.xid, XidReport("", EPOCH)).time
        standing[event.xid] = XidReport(class_, max(event.timestamp, last))
    return XidCounts(
        {**before.by_source, (*key, source): before.by_source.get((*key, source), 0) + 1},
        {
            **{each: time for each, time in before.last.items() if each[0] != ended},
            key: max(event.timestamp, before.last.get(key, EPOCH)),
        },
        standing,
    )


def add_xids(one: XidCounts, other: XidCounts) -> XidCounts:
    """Return what was heard of one GPU under two names."""
    standing = dict(sorted((*one.standing.items(), *other.standing.items()), key=lambda each: each[1].time))
    ended = {xid: report.time for xid, report in standing.items() if report.class_ == IGNORE}
    last = dict(sorted((*one.last.items(), *other.last.items()), key=lambda each: each[1]))
    last = {key: time for key, time in last.items() if time >= ended.get(key[0], EPOCH)}
    return XidCounts(Counter(one.by_source) + Counter(other.by_source), last, standing)


def shift_xids(xids: XidCounts, seconds: float) -> XidCounts:
    """Return the same at times that are so much later."""
    last = {key: time + seconds for key, time in xids.last.items()}
    standing = {xid: XidReport(each.class_, each.time + seconds) for xid, each in xids.standing.items()}
    return XidCounts(xids.by_source, last, standing)


def _count_samples(xids: XidCounts) -> Iterable[Sample]:
    return (Sample(count, (str(xid), class_)) for (xid, class_), count in xids.counts.items())


def _time_samples(xids: XidCounts) -> Iterable[Sample]:
    return (Sample(float(time), (str(xid), class_)) for (xid, class_), time in sorted(xids.last.items()))


XID_FAMILIES: tuple[Family[XidCounts], ...] = (
    counters("gpu_xid_errors_total", "XIDs since the exporter started; class is the immediate action: by the line in the kernel log, the site's list or NVIDIA's catalogue.", Unit.NONE, _count_samples, ("xid", "class"), shown=Shown.NONZERO),
    gauges("gpu_xid_last_timestamp_seconds", "When the XID was last reported, Unix time; absent once another XID has ended it.", Unit.SECONDS, _time_samples, ("xid", "class")),
)  # fmt: skip


RECORD = re.compile(r"(?P<priority>\d{1,9}),\d+,(?P<microseconds>\d+),[^;]*;(?P<text>.*)", re.DOTALL)
"""One record of /dev/kmsg."""
FACILITIES = 8
"""Priorities from here on are of user space: the kernel lets no program write as itself."""
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]+)(?: GPU-I:\d{1,9})?(?: GPU-CI:\d{1,9})?\):"
    r"\s*(?P<xid>\d{1,9})(?!\d)"
)
"""Pattern of the kernel's line. With MIG the address is followed by the instances the error is of."""
_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)


def parse_xid(record: str, boot: UnixTime, uuids: Mapping[str, str]) -> XidEvent | None:
    """The XID in one record of /dev/kmsg, or None where it reports none.

    `boot` is when the record's clock started, `uuids` maps PCI bus ids as sysfs writes them; the
    event of a GPU that is not among them carries its bus id in place of the uuid.
    """
    head = RECORD.match(record)
    found = head and _XID.match(head["text"])
    if not head or not found:
        return None
    bus = pci_bus_id(found["address"])
    uuid = uuids.get(bus, bus)
    xid, line = int(found["xid"]), head["text"].partition("\n")[0]
    class_ = decode_class(xid, line) if int(head["priority"]) < FACILITIES else INJECTED
    return XidEvent(uuid, xid, boot + int(head["microseconds"]) / 1e6, class_)


def pci_bus_id(address: str) -> str:
    """`0000:3b:00.0` from the driver's ways to write it (`0000:3b:00`, `00000000:3B:00.0`, `3b:00.0`); else empty."""
    match = _ADDRESS.fullmatch(address)
    if not match:
        return ""
    domain, bus, device = (int(match[part] or "0", 16) for part in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match['function'] or '0'}"
