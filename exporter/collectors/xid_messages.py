"""XIDs from the kernel log: a lost GPU often sends no event, and what it reports last is there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exporter.core.clock import UnixTime
from exporter.driver.interface import XidEvent

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
    event of a GPU that is not among them has an empty uuid.
    """
    head = RECORD.match(record)
    found = head and _XID.match(head["text"])
    if not head or not found:
        return None
    uuid = uuids.get(pci_bus_id(found["address"]), "")
    return XidEvent(uuid, int(found["xid"]), boot + int(head["microseconds"]) / 1e6)


def pci_bus_id(address: str) -> str:
    """`0000:3b:00.0` from the driver's ways to write it (`0000:3b:00`, `00000000:3B:00.0`, `3b:00.0`); else empty."""
    match = _ADDRESS.fullmatch(address)
    if not match:
        return ""
    domain, bus, device = (int(match[part] or "0", 16) for part in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match['function'] or '0'}"
