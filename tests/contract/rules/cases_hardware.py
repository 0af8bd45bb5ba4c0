"""Cases of the alerts about errors of a GPU, and about one that is gone."""

from __future__ import annotations

from tests.contract.rules.case import DEV, NODE, OWNER, Case, fires, silent
from tests.contract.rules.series import ALLOCATED, finding, gauge, twice, xid


def fault(kind: str, evidence: str, action: str, values: str, dev: str = DEV) -> dict[str, str]:
    return gauge("gpu_fault_timestamp_seconds", values, dev, f',fault="{kind}",evidence="{evidence}",action="{action}"')


XID = (
    fires(
        "GpuRecoveryActionNeeded",
        "a GSP error ten days ago",
        "22m",
        fault("xid", "XID 119", "reset", "-864000x30") | ALLOCATED,
    ),
    fires(
        "GpuRecoveryActionNeeded",
        "still there after hours",
        "395m",
        fault("xid", "XID 119", "reset", "_x20 1200x400") | ALLOCATED,
    ),
    fires("GpuLost", "fallen off the bus", "22m", fault("lost", "XID 79", "restart", "_x20 1200x30")),
    silent(
        "GpuRecoveryActionNeeded", "a reset has ended it", "32m", fault("xid", "XID 119", "reset", "_x20 1200x5 stale")
    ),
    silent(
        "GpuRecoveryActionNeeded", "an XID of a program", "22m", xid(31, "restart_app", "0x20 1x30", "_x20 1200x30")
    ),
    fires("GpuXidWorkflow", "NVLink", "395m", fault("xid", "XID 74", "procedure", "_x20 1200x400") | ALLOCATED),
    fires("GpuXidWorkflow", "one that needs the vendor", "22m", fault("xid", "XID 61", "vendor", "1200x30")),
    fires("GpuXidWorkflow", "not in the catalogue", "22m", fault("xid", "XID 999", "inspect", "1200x30")),
    fires("GpuXidWorkflow", "a pattern", "22m", fault("xid_pattern", "XID 31 of many programs", "inspect", "1200x30")),
    silent("GpuXidWorkflow", "of the hardware", "22m", fault("xid", "XID 154", "restart", "1200x30")),
    silent("GpuLost", "the driver advises a reboot", "22m", fault("xid", "XID 154", "restart", "1200x30")),
    fires(
        "GpuRecoveryActionNeeded", "the driver advises a reboot", "22m", fault("xid", "XID 154", "restart", "1200x30")
    ),
    fires("GpuLost", "the driver requires a reset", "22m", fault("lost", "RESET_REQUIRED", "reset", "1200x30")),
)
ONE = "1 uncorrectable error"
_UNCORRECTED, _CORRECTED = ',type="uncorrected"', ',type="corrected"'


def ecc_modes(*modes: str, of: str = "") -> dict[str, str]:
    """GPUs of one node by index, of these models."""
    found: dict[str, str] = {}
    models = of.split() or ["H200"] * len(modes)
    for index, (mode, model) in enumerate(zip(modes, models, strict=True)):
        dev = f'{NODE},gpu="{index}",uuid="GPU-{index}"'
        found |= gauge("gpu_ecc_mode_enabled", f"{mode}x60", dev) | gauge("gpu_info", "1x60", dev, f',model="{model}"')
    return found


BANKS = gauge("gpu_row_remap_banks", "3x50", more=',availability="none"')
MEMORY = (
    fires(
        "GpuRecoveryActionNeeded",
        "an uncorrectable error",
        "22m",
        fault("ecc_uncorrectable", ONE, "reset", "1200x30") | ALLOCATED,
    ),
    silent(
        "GpuRecoveryActionNeeded",
        "GPU reset since: the published total stays, the fault does not",
        "25m 600m",
        gauge("gpu_ecc_errors_total", "1x700", more=_UNCORRECTED)
        | fault("ecc_uncorrectable", ONE, "reset", "1200x20 stale"),
    ),
    silent(
        "GpuRecoveryActionNeeded",
        "contained, ten days ago",
        "22m",
        fault("ecc_uncorrectable", f"{ONE}, contained", "reset_when_idle", "-864000x30"),
    ),
    silent(
        "GpuRecoveryActionNeeded", "corrected ones", "22m", gauge("gpu_ecc_errors_total", "0+5x30", more=_CORRECTED)
    ),
    fires(
        "GpuRecoveryActionNeeded",
        "SRAM errors over the threshold",
        "20m",
        fault("ecc_sram_threshold", "over NVIDIA's threshold", "replace", "600x30"),
    ),
    silent(
        "GpuRecoveryActionNeeded", "SRAM errors not over it", "20m", gauge("gpu_ecc_sram_threshold_exceeded", "0x30")
    ),
    fires(
        "GpuResetPending",
        "an error that was contained",
        "40m",
        fault("ecc_uncorrectable", f"{ONE}, contained", "reset_when_idle", "600x50"),
    ),
    fires("GpuResetPending", "rows", "40m", gauge("gpu_row_remap_pending", "0x10 1x50") | ALLOCATED),
    fires(
        "GpuResetPending",
        "one workload on two MIG instances of the GPU is named once",
        "40m",
        gauge("gpu_row_remap_pending", "0x10 1x50")
        | {
            f'gpu_mig_allocation_ratio{{{DEV.replace("GPU-3", f"MIG-{number}")},parent_uuid="GPU-3",{OWNER}}}': "1x60"
            for number in range(2)
        },
    ),
    fires("GpuResetPending", "pages of an older card", "40m", gauge("gpu_retired_pages_pending", "0x10 1x50")),
    silent("GpuResetPending", "done by a reset at once", "14m 30m", gauge("gpu_row_remap_pending", "0x10 1x5 0x50")),
    silent(
        "GpuResetPending",
        "rows remapped long ago",
        "40m",
        gauge("gpu_remapped_rows_total", "3x50") | gauge("gpu_row_remap_pending", "0x50"),
    ),
    fires(
        "GpuRecoveryActionNeeded",
        "a row that was not remapped",
        "20m",
        fault("row_remap_failed", "no spare rows", "replace", "600x30"),
    ),
    silent(
        "GpuRecoveryActionNeeded",
        "pending only",
        "20m",
        gauge("gpu_row_remap_failed", "0x30") | gauge("gpu_row_remap_pending", "1x30"),
    ),
    fires(
        "GpuResetPending",
        "the driver advises to drain and reset: no page",
        "40m",
        gauge("gpu_recovery_action", "1x50", more=',action="drain_and_reset"'),
    ),
    fires("GpuMemoryWearing", "three banks without spare rows", "40m", BANKS | ALLOCATED),
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
    fires("GpuEccDisabled", "on one of three GPUs of a model", "50m", ecc_modes("0", "1", "1")),
    fires("GpuEccDisabled", "on one of three, on a node that two jobs scrape", "50m", twice(ecc_modes("0", "1", "1"))),
    silent("GpuEccDisabled", "on all of a model", "50m", ecc_modes("0", "0", "1", "1", "1", of="L4 L4 H200 H200 H200")),
    silent("GpuEccDisabled", "on all of them", "50m", ecc_modes("0", "0", "0")),
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
        | ALLOCATED,
    ),
    silent(
        "GpuRecoveryActionNeeded",
        "to drain and reset when it can be done",
        "20m 60m",
        gauge("gpu_recovery_action", "1x70", more=',action="drain_and_reset"'),
    ),
    fires(
        "GpuRecoveryActionNeeded",
        "a reset for links that are down",
        "11m",
        fault("nvlink_down", "2 of 18 links down", "inspect", "600x30")
        | gauge("gpu_recovery_action", "_x10 1x20", more=',action="gpu_reset"'),
    ),
    fires(
        "GpuRecoveryActionNeeded",
        "a reboot for an XID that a reset would end",
        "20m",
        fault("xid", "XID 119", "reset", "600x30") | gauge("gpu_recovery_action", "1x30", more=',action="node_reboot"'),
    ),
    silent(
        "GpuRecoveryActionNeeded", "IMEX", "20m", gauge("gpu_recovery_action", "1x30", more=',action="recover_imex"')
    ),
    fires("GpuResetPending", "IMEX", "40m", gauge("gpu_recovery_action", "1x50", more=',action="recover_imex"')),
    silent("GpuRecoveryActionNeeded", "none", "20m", gauge("gpu_recovery_action", "1x30", more=',action="none"')),
)


def missing(values: str) -> dict[str, str]:
    """One of the GPUs that there should be is not shown, and nothing is known of which."""
    return finding("gpu_missing", values, f'{NODE},gpu="",uuid=""', "failed")


LOST = (
    fires(
        "GpuLost",
        "one does not answer, for a week",
        "1500m",
        fault("lost", "GPU_IS_LOST", "restart", "600x1500") | ALLOCATED,
    ),
    fires(
        "GpuLost",
        "the driver never saw it, for a week",
        "1500m",
        gauge("gpu_up", "1x1500") | missing("1x1500") | {f"gpu_workload_allocated_gpus{{{NODE},{OWNER}}}": "4x1500"},
    ),
    silent(
        "GpuLost",
        "the driver itself is gone",
        "20m",
        fault("lost", "HUNG", "restart", "600x30")
        | missing("1x30")
        | {f'gpu_exporter_driver_error{{{NODE},error="DRIVER_NOT_LOADED"}}': "_x10 1x20"},
    ),
    fires("GpuLost", "missed, scraped by two jobs", "20m", twice(missing("1x30"))),
    silent(
        "GpuLost", "a reset of two minutes", "11m 14m 25m", fault("lost", "no answer", "restart", "_x10 600x2 stale")
    ),
    silent("GpuLost", "missed while the node restarts", "15m 30m", missing("_x10 1x3 stale")),
)


CASES: tuple[Case, ...] = (*XID, *MEMORY, *RECOVERY, *LOST)
