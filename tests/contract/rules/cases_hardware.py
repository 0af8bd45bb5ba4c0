"""Cases of the alerts about errors of a GPU, and about one that is gone."""

from __future__ import annotations

from tests.contract.rules.case import NODE, OTHER, OWNER, Case, fires, silent
from tests.contract.rules.series import HELD, gauge, twice, xid

XID = (
    fires(
        "GpuXidHardware",
        "the first of a counter made at 0",
        "22m",
        xid(79, "restart_bm", "0x20 1x30", "_x20 1200x30") | HELD,
    ),
    fires("GpuXidHardware", "a counter born at 1", "22m", xid(95, "reset_gpu", "_x20 1x30", "_x20 1200x30") | HELD),
    fires(
        "GpuXidHardware",
        "the node's clock is an hour behind",
        "82m",
        xid(64, "reset_gpu", "0x80 1x30", "_x80 0x30") | gauge("gpu_up", "1x120"),
    ),
    fires(
        "GpuXidHardware",
        "again, the node's clock is an hour behind",
        "82m",
        xid(64, "reset_gpu", "1x80 2x30", "-7200x80 0x30"),
    ),
    fires(
        "GpuXidHardware", "the exporter restarts after it", "32m", xid(79, "restart_bm", "0x20 1x5 0x30", "_x20 1200x5")
    ),
    silent("GpuXidHardware", "of a program", "22m", xid(31, "restart_app", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidHardware", "that may be ignored", "22m", xid(43, "ignore", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidHardware", "hours ago", "95m", xid(79, "restart_bm", "0x20 1x90", "_x20 1200x90")),
    silent(
        "GpuXidHardware",
        "the exporter restarts and counts from 0",
        "32m",
        xid(79, "restart_bm", "3x30 0x30", "-7200x30 _x30") | gauge("gpu_up", "1x90"),
    ),
    silent(
        "GpuXidHardware",
        "a node that comes back with an old error on its counter",
        "182m",
        xid(79, "restart_bm", "1x20 _x160 1x30", "0x20 _x160 0x30") | gauge("gpu_up", "1x20 _x160 1x30"),
    ),
    silent(
        "GpuXidHardware",
        "Prometheus is new and the error old",
        "2m",
        xid(79, "restart_bm", "1x30", "-7200x30") | gauge("gpu_up", "1x30"),
    ),
    fires("GpuXidWorkflow", "NVLink", "22m", xid(74, "workflow", "_x20 1x30", "_x20 1200x30") | HELD),
    fires(
        "GpuXidWorkflow",
        "one that needs the vendor",
        "22m",
        xid(61, "contact_support", "_x20 1x30", "_x20 1200x30"),
    ),
    silent("GpuXidWorkflow", "a program was killed", "22m", xid(45, "workflow", "0x20 1x30", "_x20 1200x30")),
    fires("GpuXidWorkflow", "not in the catalogue", "22m", xid(999, "unknown", "_x20 1x30", "_x20 1200x30")),
    silent("GpuXidWorkflow", "of the hardware", "22m", xid(79, "restart_bm", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidWorkflow", "hours ago", "95m", xid(74, "workflow", "_x20 1x90", "_x20 1200x90")),
)
_UNCORRECTED, _CORRECTED = ',type="uncorrected"', ',type="corrected"'
BANKS = gauge("gpu_row_remap_banks", "3x50", more=',availability="none"')
MEMORY = (
    fires("GpuEccUncorrectable", "one", "22m", gauge("gpu_ecc_errors_total", "0x20 1x30", more=_UNCORRECTED) | HELD),
    fires(
        "GpuEccUncorrectable", "there before Prometheus", "2m", gauge("gpu_ecc_errors_total", "2x30", more=_UNCORRECTED)
    ),
    silent("GpuEccUncorrectable", "corrected ones", "22m", gauge("gpu_ecc_errors_total", "0+5x30", more=_CORRECTED)),
    silent(
        "GpuEccUncorrectable",
        "gone after a reset",
        "25m",
        gauge("gpu_ecc_errors_total", "1x20 0x30", more=_UNCORRECTED),
    ),
    silent(
        "GpuEccUncorrectable",
        "in an earlier life of the card",
        "22m",
        gauge("gpu_ecc_lifetime_errors_total", "7x30", more=_UNCORRECTED)
        | gauge("gpu_ecc_errors_total", "0x30", more=_UNCORRECTED),
    ),
    fires("GpuEccSramThreshold", "over", "20m", gauge("gpu_ecc_sram_threshold_exceeded", "0x10 1x30")),
    silent("GpuEccSramThreshold", "not over", "20m", gauge("gpu_ecc_sram_threshold_exceeded", "0x30")),
    fires("GpuRowRemapPending", "rows", "40m", gauge("gpu_row_remap_pending", "0x10 1x50") | HELD),
    fires("GpuRowRemapPending", "pages of an older card", "40m", gauge("gpu_retired_pages_pending", "0x10 1x50")),
    silent("GpuRowRemapPending", "done by a reset at once", "14m 30m", gauge("gpu_row_remap_pending", "0x10 1x5 0x50")),
    silent(
        "GpuRowRemapPending",
        "rows remapped long ago",
        "40m",
        gauge("gpu_remapped_rows_total", "3x50") | gauge("gpu_row_remap_pending", "0x50"),
    ),
    fires("GpuRowRemapFailed", "failed", "20m", gauge("gpu_row_remap_failed", "0x10 1x30")),
    silent(
        "GpuRowRemapFailed",
        "pending only",
        "20m",
        gauge("gpu_row_remap_failed", "0x30") | gauge("gpu_row_remap_pending", "1x30"),
    ),
    fires(
        "GpuRowRemapPending",
        "the driver advises to drain and reset: no page",
        "40m",
        gauge("gpu_recovery_action", "1x50", more=',action="drain_and_reset"'),
    ),
    fires("GpuMemoryWearing", "three banks without spare rows", "40m", BANKS | HELD),
    fires(
        "GpuMemoryWearing",
        "5,000 corrected errors a minute",
        "40m",
        gauge("gpu_ecc_errors_total", "0+5000x50", more=_CORRECTED),
    ),
    silent(
        "GpuMemoryWearing",
        "one corrected error now and then",
        "40m",
        gauge("gpu_ecc_errors_total", "0x10 1x10 2x30", more=_CORRECTED)
        | gauge("gpu_row_remap_banks", "0x50", more=',availability="none"'),
    ),
    fires(
        "GpuEccDisabled",
        "on one of three GPUs",
        "50m",
        gauge("gpu_ecc_mode_enabled", "0x60")
        | gauge("gpu_ecc_mode_enabled", "1x60", OTHER)
        | gauge("gpu_ecc_mode_enabled", "1x60", OTHER.replace("4", "5")),
    ),
    silent("GpuEccDisabled", "on all of them", "50m", gauge("gpu_ecc_mode_enabled", "0x60")),
    fires("GpuMemoryLeaked", "twenty GiB", "40m", gauge("gpu_memory_unattributed_bytes", "0x10 21474836480x50")),
    silent("GpuMemoryLeaked", "the driver's own", "40m", gauge("gpu_memory_unattributed_bytes", "600000000x50")),
    silent(
        "GpuMemoryLeaked",
        "a process that is just ending",
        "14m 25m",
        gauge("gpu_memory_unattributed_bytes", "0x10 21474836480x5 0x50"),
    ),
)
RECOVERY = (
    fires(
        "GpuRecoveryActionNeeded",
        "a reset",
        "20m",
        gauge("gpu_recovery_action", "1x10 _x20", more=',action="none"')
        | gauge("gpu_recovery_action", "_x10 1x20", more=',action="gpu_reset"')
        | HELD,
    ),
    silent(
        "GpuRecoveryActionNeeded",
        "to drain and reset when it can be done",
        "20m 60m",
        gauge("gpu_recovery_action", "1x70", more=',action="drain_and_reset"'),
    ),
    silent("GpuRecoveryActionNeeded", "none", "20m", gauge("gpu_recovery_action", "1x30", more=',action="none"')),
)


def devices(driver: str, pci: str) -> dict[str, str]:
    return {f'gpu_devices{{{NODE},source="driver"}}': driver, f'gpu_devices{{{NODE},source="pci"}}': pci}


LOST = (
    fires(
        "GpuLost",
        "one that was there does not answer",
        "20m",
        gauge("gpu_up", "1x10 0x20") | gauge("gpu_up", "1x30", OTHER) | devices("2x10 1x20", "2x30") | HELD,
    ),
    fires(
        "GpuLost",
        "the driver never saw it",
        "20m",
        gauge("gpu_up", "1x30") | devices("7x30", "8x30") | {f"gpu_workload_gpus{{{NODE},{OWNER}}}": "4x30"},
    ),
    fires("GpuLost", "gone from the bus after a restart", "40m", devices("8x10 _x10 7x30", "8x10 _x10 7x30")),
    fires("GpuLost", "all of them", "20m", devices("8x10 0x20", "8x30")),
    silent(
        "GpuLost",
        "the driver itself is gone",
        "20m",
        gauge("gpu_up", "1x10 0x20")
        | devices("8x10 _x20", "8x30")
        | {f'gpu_exporter_driver_error{{{NODE},error="DRIVER_NOT_LOADED"}}': "_x10 1x20"},
    ),
    silent("GpuLost", "all there, scraped by two jobs", "20m", twice(devices("8x30", "8x30"))),
    silent("GpuLost", "all there", "20m", gauge("gpu_up", "1x30") | devices("8x30", "8x30")),
    silent("GpuLost", "a reset of two minutes", "11m 14m 25m", gauge("gpu_up", "1x10 0x2 1x20")),
    silent(
        "GpuLost",
        "the node restarts whole",
        "15m 30m",
        gauge("gpu_up", "1x10 _x8 1x20") | devices("8x10 _x8 8x20", "8x10 _x8 8x20"),
    ),
    silent("GpuLost", "a GPU was added", "30m", devices("7x10 8x30", "7x10 8x30")),
    silent("GpuLost", "taken out for good, yesterday", "400m", devices("8x10 7x400", "8x10 7x400")),
)


CASES: tuple[Case, ...] = (*XID, *MEMORY, *RECOVERY, *LOST)
