"""SXIDs: what the driver of the NVSwitches reports in the kernel log, counted by switch and code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.collectors.xid import FACILITIES, RECORD, pci_bus_id
from exporter.collectors.xid_catalogue import INJECTED
from exporter.core.clock import EPOCH, UnixTime
from exporter.core.families import NODE, Family, Sample, Unit, counters, gauges

_SXID = re.compile(
    r"nvidia-nvswitch(?P<switch>\d{1,4}): SXid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]+)\):\s*(?P<sxid>\d{1,9}),\s*"
    r"(?P<severity>Fatal|Non-fatal|Non-Fatal),?\s*(?:Link (?P<link>\d{1,4}))?"
)
"""The first line of each; lines with its data and instance follow, and are not counted again."""
FATAL = "fatal"
_MAX_KINDS = 256
"""Kinds that are kept apart: a broken switch must not make series without end."""


class Sxid(NamedTuple):
    """One kind of event. `link` is empty where it is not about one."""

    switch: str
    pci_bus_id: str
    sxid: str
    kind: str
    """`fatal`: the fabric has to be reset; `non_fatal`: it goes on; `injected`: a program wrote the line, as a test."""
    link: str


@dataclass(frozen=True, slots=True)
class SxidCounts:
    """Counts since the exporter started, with the Unix time of the latest."""

    seen: Mapping[Sxid, tuple[int, UnixTime]] = field(default_factory=dict[Sxid, "tuple[int, UnixTime]"])


def parse_sxid(record: str, boot_time: UnixTime) -> tuple[Sxid, UnixTime] | None:
    """The SXID in one record of /dev/kmsg and its Unix time, or None where it reports none."""
    head = RECORD.match(record)
    found = head and _SXID.match(head["text"])
    if not head or not found:
        return None
    by_kernel, severity = int(head["priority"]) < FACILITIES, found["severity"].lower().replace("-", "_")
    kind = Sxid(
        found["switch"],
        pci_bus_id(found["address"]),
        str(int(found["sxid"])),
        severity if by_kernel else INJECTED,
        found["link"] or "",
    )
    return kind, boot_time + int(head["microseconds"]) / 1e6


def count_sxid(before: SxidCounts, kind: Sxid, time: UnixTime, more: int = 1) -> SxidCounts:
    """`before` and one `more`; of a kind beyond the limit without its link, and then not at all."""
    if kind not in before.seen and len(before.seen) >= _MAX_KINDS:
        kind = kind._replace(link="")
        if kind not in before.seen and len(before.seen) >= 2 * _MAX_KINDS:
            return before
    count, last = before.seen.get(kind, (0, EPOCH))
    return SxidCounts({**before.seen, kind: (count + more, max(last, time))})


def last_fatal(sxids: SxidCounts) -> Mapping[tuple[str, str], UnixTime]:
    """Return the time of the last fatal one by switch and SXID, whatever its link."""
    last: dict[tuple[str, str], UnixTime] = {}
    for kind, (_, time) in sxids.seen.items():
        if kind.kind == FATAL:
            last[kind.switch, kind.sxid] = max(time, last.get((kind.switch, kind.sxid), time))
    return last


def shift_sxids(sxids: SxidCounts, seconds: float) -> SxidCounts:
    """Return the same at times that are so much later."""
    return SxidCounts({kind: (count, time + seconds) for kind, (count, time) in sxids.seen.items()})


SXID_FAMILIES: tuple[Family[SxidCounts], ...] = (
    counters("gpu_nvswitch_sxid_errors_total", "SXIDs of the node's NVSwitches since the exporter started, by the kernel log; absent until the first.", Unit.NONE, lambda s: (Sample(count, tuple(kind)) for kind, (count, _) in s.seen.items()), ("switch", "pci_bus_id", "sxid", "class", "link"), NODE),
    gauges("gpu_nvswitch_sxid_last_timestamp_seconds", "When the SXID was last reported, Unix time.", Unit.SECONDS, lambda s: (Sample(float(last), tuple(kind)) for kind, (_, last) in s.seen.items()), ("switch", "pci_bus_id", "sxid", "class", "link"), NODE),
)  # fmt: skip
