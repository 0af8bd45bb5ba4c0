"""What the latch looks at comes from the collectors' readings, each from its own; what one leaves out is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.collectors.base import Fields, Paced
from exporter.collectors.ecc import Ecc, RemappedRows
from exporter.collectors.health import Health
from exporter.collectors.info import Info
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.power import Power, PowerLimits
from exporter.collectors.xid import XidReport
from exporter.core.clock import UnixTime
from exporter.core.counters import NO_COUNTS
from exporter.faults.model import ObservedGpu
from exporter.faults.watch import observed_gpu
from tests.unit.collectors.answers import FakeDevice

NO_FIELDS = Fields((), {}, 0.0)
INFO = Info("H200", "0000:1a:00.0", "S1", "", "", "", "", "", None, None, None, None)
POWER = Power(400.0, 5e6, Paced(PowerLimits(None, None, None, None), 0.0))
ECC = Ecc(
    {"corrected": 7.0, "uncorrected": 2.0},
    {"uncorrected": 9.0},
    {},
    sram_threshold_exceeded=True,
    fields=NO_FIELDS,
    read_at=UnixTime(90.0),
)
NVLINK = Nvlink({0: True, 1: False, 2: True}, {}, NO_COUNTS, None, 3, NO_FIELDS, NO_FIELDS, ())
ROWS = RemappedRows(0, 1, pending=False, failed=True, banks={})
FALLEN_OFF = {79: XidReport("restart_bm", UnixTime(100.0))}
REPORTS = {31: XidReport("restart_app", UnixTime(1.0)), 154: XidReport("workflow", UnixTime(2.0))}
WHOLE = {"info": INFO, "power": POWER, "ecc": ECC, "nvlink": NVLINK, "remapped_rows": ROWS}


def test_each_part_is_of_its_own_reading() -> None:
    assert observed_gpu(FakeDevice(), WHOLE, FALLEN_OFF, up=False, failure="GPU_IS_LOST") == ObservedGpu(
        uuid="GPU-1",
        index=0,
        serial="S1",
        bus="0000:1a:00.0",
        up=False,
        failure="GPU_IS_LOST",
        joules=5e6,
        uncorrected=2.0,
        uncorrected_at=UnixTime(90.0),
        model="H200",
        links=2,
        remap_failed=True,
        sram_exceeded=True,
        xids={79: UnixTime(100.0)},
        xid_classes={79: "restart_bm"},
    )


def test_what_was_never_read_is_not_known() -> None:
    assert observed_gpu(FakeDevice(), {}, {}, up=True, failure="") == ObservedGpu(
        "GPU-1", 0, "", "0000:1a:00.0", up=True
    )


def test_gpu_without_links_and_without_counts_reports_none_of_them() -> None:
    readings = {"nvlink": replace(NVLINK, up={}), "ecc": replace(ECC, since_load={}, sram_threshold_exceeded=None)}

    found = observed_gpu(FakeDevice(), readings, {}, up=True, failure="")

    assert (found.links, found.uncorrected, found.sram_exceeded) == (None, None, None)


@pytest.mark.parametrize(
    ("mig", "up", "links"),
    [(1, {0: False, 1: False}, None), (1, {0: True, 1: False}, 1), (0, {0: False, 1: False}, 0), (None, {0: False}, 0)],
)
def test_links_that_the_fabric_manager_takes_down_for_mig_are_not_missing(
    mig: int | None, up: dict[int, bool], links: int | None
) -> None:
    """A100 have all of them down while they are split; later GPUs keep them, of which one that is down is a fault."""
    readings = {"nvlink": replace(NVLINK, up=up), "info": replace(INFO, mig=mig)}

    assert observed_gpu(FakeDevice(), readings, {}, up=True, failure="").links == links


@pytest.mark.parametrize(("action", "xids"), [("none", {31}), ("gpu_reset", {31, 154}), ("", {31, 154})])
def test_xid_on_the_advised_recovery_is_no_fault_while_none_is_advised(action: str, xids: set[int]) -> None:
    """It comes when one is advised, and when none is any more; drivers that do not tell which have the XID alone."""
    readings: dict[str, Any] = {"health": Health(action, NO_FIELDS)} if action else {}

    found = observed_gpu(
        FakeDevice(),
        readings,
        REPORTS,
        up=True,
        failure="",
    )

    assert set(found.xids) == xids
