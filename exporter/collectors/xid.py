"""XIDs: the errors the driver reports of a GPU, counted by code, with what NVIDIA advises.

They come as events, not as readings: the thread that waits for them advances one `XidCounts` per GPU. The kernel log is
read too: a lost GPU often sends no event, and its last report is there.
Classes follow the column "immediate action" of NVIDIA's Xid catalogue
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); codes without one are `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from exporter.core.clock import EPOCH, UnixTime
from exporter.core.families import Family, Sample, Shown, Unit, counters, gauges
from exporter.core.record import record
from exporter.driver.interface import XidEvent

_CLASSES: Mapping[str, tuple[int | range, ...]] = {
    "reset_gpu": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "restart_bm": (79,),
    # a procedure of its own: preemptive removal, double-bit ECC, power cable, NVLink, vGPU start, NVLink 5, …
    "workflow": (45, 48, 54, 74, 78, range(144, 152), 154, 159),
    "restart_app": (
        *(8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80),
        *(82, 83, 84, 85, 86, 88, 89, 94, range(96, 106), range(126, 136), 139),
    ),
    "ignore": (14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161),
    # not used since Ampere; older GPUs do report some of them
    "contact_support": (
        *(range(1, 8), 9, 10, 12, range(15, 25), range(26, 31), range(33, 37), 42, 47, range(49, 54)),
        *(range(55, 60), 61, 65, 73, 81, 87, 90, 91, range(111, 119), range(122, 126), 138, 142),
    ),
}


def _codes(entries: Iterable[int | range]) -> Iterable[int]:
    for entry in entries:
        yield from entry if isinstance(entry, range) else (entry,)


CATALOGUE: Mapping[int, str] = {code: class_ for class_, entries in _CLASSES.items() for code in _codes(entries)}
"""Class by XID."""

HARDWARE = (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158)
"""Codes of a GPU that needs someone's hands, counted from 0 so that `increase()` sees the first one. The others have a
series from their first event on: every code on every GPU would be half of all series there are."""


RECOVERY_CHANGED = 154
"""The driver advises another recovery than before; none, too. What it advises now is in `gpu_recovery_action`."""


def class_of(xid: int) -> str:
    return CATALOGUE.get(xid, "unknown")


@record
class XidCounts:
    """The XIDs of one GPU since the exporter started.

    The driver's events and the kernel log report the same XIDs, and each misses some: sources are counted apart,
    and a code's count is the highest of them.
    """

    by_source: Mapping[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    last: Mapping[int, UnixTime] = field(default_factory=dict[int, UnixTime])
    """When the latest was, by XID."""

    @property
    def counts(self) -> Mapping[int, int]:
        counts = dict.fromkeys(HARDWARE, 0)
        for (xid, _), count in self.by_source.items():
            counts[xid] = max(counts.get(xid, 0), count)
        return dict(sorted(counts.items()))


def counted(before: XidCounts, event: XidEvent, source: str) -> XidCounts:
    """`before` and one event more; `source` is who reported it (`nvml`, `kmsg`)."""
    key = (event.xid, source)
    return XidCounts(
        {**before.by_source, key: before.by_source.get(key, 0) + 1},
        {**before.last, event.xid: max(event.timestamp, before.last.get(event.xid, EPOCH))},
    )


def _last(xids: XidCounts) -> Iterable[Sample]:
    return (Sample(float(time), (str(xid), class_of(xid))) for xid, time in sorted(xids.last.items()))


XID_FAMILIES: tuple[Family[XidCounts], ...] = (
    counters("gpu_xid_errors_total", "XIDs since the exporter started; class is the immediate action in NVIDIA's catalogue.", Unit.NONE, lambda x: (Sample(count, (str(xid), class_of(xid))) for xid, count in x.counts.items()), ("xid", "class"), shown=Shown.NONZERO),
    gauges("gpu_xid_last_timestamp_seconds", "When the XID was last reported, Unix time.", Unit.SECONDS, _last, ("xid", "class")),
)  # fmt: skip


RECORD = re.compile(r"\d+,\d+,(?P<microseconds>\d+),[^;]*;(?P<text>.*)", re.DOTALL)
"""One record of /dev/kmsg."""
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]+)(?: GPU-I:\d{1,9})?(?: GPU-CI:\d{1,9})?\):"
    r"\s*(?P<xid>\d{1,9})(?!\d)"
)
"""With MIG the address is followed by the instances the error is of."""
_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)


def parse(record: str, boot: UnixTime, uuids: Mapping[str, str]) -> XidEvent | None:
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
    return XidEvent(uuid, int(found["xid"]), boot + int(head["microseconds"]) / 1e6)


def pci_bus_id(address: str) -> str:
    """`0000:3b:00.0` from the driver's ways to write it (`0000:3b:00`, `00000000:3B:00.0`, `3b:00.0`); else empty."""
    match = _ADDRESS.fullmatch(address)
    if not match:
        return ""
    domain, bus, device = (int(match[part] or "0", 16) for part in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match['function'] or '0'}"
