"""From the collectors' readings of a GPU to what the latch looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.collectors.ecc import Ecc, RemappedRows
from exporter.collectors.health import NO_ACTION, Health
from exporter.collectors.info import Info
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.power import Power
from exporter.collectors.xid import RECOVERY_CHANGED
from exporter.core.clock import UnixTime
from exporter.driver.interface import Device
from exporter.faults.model import ObservedGpu


def seen(
    device: Device, readings: Mapping[str, Any], xids: Mapping[int, UnixTime], *, up: bool | None, failure: str
) -> ObservedGpu:
    """`readings` are the last good ones, by collector; what a GPU or an option leaves out is not known."""
    info, power, ecc = readings.get("info"), readings.get("power"), readings.get("ecc")
    nvlink, rows = readings.get("nvlink"), readings.get("remapped_rows")
    return ObservedGpu(
        uuid=device.uuid,
        index=device.index,
        serial=info.serial if isinstance(info, Info) else "",
        bus=device.pci_bus_id,
        up=up,
        failure=failure,
        joules=power.joules if isinstance(power, Power) else None,
        uncorrected=ecc.since_load.get("uncorrected") if isinstance(ecc, Ecc) else None,
        links=_links(nvlink, info),
        remap_failed=rows.failed if isinstance(rows, RemappedRows) else None,
        sram_exceeded=ecc.sram_threshold_exceeded if isinstance(ecc, Ecc) else None,
        xids=_of_faults(xids, readings.get("health")),
    )


def _links(nvlink: object, info: object) -> int | None:
    """How many are up; not known where all are down on an A100 that is split, since that takes them down on purpose."""
    up = nvlink.links_up if isinstance(nvlink, Nvlink) else None
    split = isinstance(info, Info) and info.mig == 1
    return None if split and not up else up


def _of_faults(xids: Mapping[int, UnixTime], health: object) -> Mapping[int, UnixTime]:
    """Without the one that tells of another recovery where the driver advises none."""
    if RECOVERY_CHANGED not in xids or not isinstance(health, Health) or health.action != NO_ACTION:
        return xids
    return {xid: time for xid, time in xids.items() if xid != RECOVERY_CHANGED}
