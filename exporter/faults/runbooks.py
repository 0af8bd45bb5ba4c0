"""Which runbook belongs to a rule of the check: that of the alert on the same thing."""

from __future__ import annotations

from collections.abc import Mapping

RUNBOOK: Mapping[str, str] = {
    "driver": "gpudriverunavailable",
    "driver_hangs": "gpudriverunavailable",
    "gpu_lost": "gpulost",
    "fault": "gpurecoveryactionneeded",
    "fault_degraded": "gpurecoveryactionneeded",
    "gpu_missing": "gpulost",
    "gpu_down": "gpulost",
    "xid_reset": "gpuxidhardware",
    "xid_restart": "gpuxidhardware",
    "xid_workflow": "gpuxidworkflow",
    "xid_support": "gpuxidhardware",
    "xid_unknown": "gpuxidhardware",
    "ecc_uncorrectable": "gpueccuncorrectable",
    "ecc_sram": "gpueccsramthreshold",
    "row_remap_failed": "gpurowremapfailed",
    "row_remap_pending": "gpurowremappending",
    "page_pending": "gpurowremappending",
    "nvlink_down": "gpunvlinkdown",
    "fabric_cliques": "gpufabricunhealthy",
    "nvswitch_fatal": "gpunvswitcherror",
    "nvswitch_error": "gpunvswitcherror",
    "port_degraded": "gpunetworkportdegraded",
    "pcie_width": "gpupciedegraded",
    "power_brake": "gpupowerbrake",
    "hw_thermal": "gputhermalthrottling",
    "temperature": "gputemperaturemarginlow",
    "fan": "gpufanfailed",
    "reading": "gpucollectorfailing",
    "reference": "gpudriverskew",
    "limited": "gpuperformancelimited",
    "nvlink_errors": "gpunvlinkerrors",
    "leftover": "gpumemoryleaked",
    "leaked": "gpumemoryleaked",
}


def runbook(rule: str) -> str:
    """Name of the runbook; empty where there is none."""
    for start, name in (("recovery_", "gpurecoveryactionneeded"), ("fabric_", "gpufabricunhealthy")):
        if rule.startswith(start):
            return name
    return RUNBOOK.get(rule, "")
