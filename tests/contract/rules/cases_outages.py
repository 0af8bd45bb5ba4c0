"""Cases of a fault whose node cannot be scraped: only its cure ends the alert."""

from __future__ import annotations

from tests.contract.rules.case import NODE, Case, fires, silent
from tests.contract.rules.cases_hardware import fault
from tests.contract.rules.series import gauge

_XID = fault("xid", "XID 79", "restart", "1200x20 stale")
"""Gone after 20 minutes: cured, or its node does not answer."""


def _up(values: str, dev: str = NODE) -> dict[str, str]:
    return gauge("up", values, dev)


CASES: tuple[Case, ...] = (
    fires("GpuXidHardware", "the scrape after it fails", "21m", _XID | _up("1x20 0 1x30")),
    fires("GpuXidHardware", "the node is down since", "600m", _XID | _up("1x20 0x600")),
    silent("GpuXidHardware", "the node came back without it", "32m", _XID | _up("1x20 0x10 1x30")),
    silent("GpuXidHardware", "the node is no target any more", "32m", _XID | _up("1x20 0x5 stale")),
    silent("GpuXidHardware", "cured, and down an hour later", "90m", _XID | _up("1x80 0x30")),
    silent(
        "GpuXidHardware",
        "cured, on a node that another job cannot scrape",
        "40m",
        _XID | _up("1x60") | _up("0x60", NODE.replace('job="gpu-exporter"', 'job="also-gpu-exporter"')),
    ),
)
