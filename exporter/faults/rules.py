# ruff: noqa: E501 - a table
"""Every rule of the health check, as data: what is wrong, how bad that is, what NVIDIA advises.

Sources: `nvml` the comments of nvml.h and the NVML reference; `xid` NVIDIA's Xid catalogue
(docs.nvidia.com/deploy/xid-errors); `sxid` NVIDIA's Fabric Manager user guide; `memory` NVIDIA's GPU memory error management guide
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt); `debug` NVIDIA's GPU debug guidelines
(docs.nvidia.com/deploy/gpu-debug-guidelines); `ours` a choice of this project, the same as that of the alert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.faults import findings, leftovers, reference
from exporter.faults.model import Kind
from exporter.faults.rule import Rule, Verdict, above, stated, unless_cleared

OK, DEGRADED, FAILED = Verdict.OK, Verdict.DEGRADED, Verdict.FAILED

RECOVERY: Mapping[str, tuple[Verdict, str]] = {
    "gpu_reset":       (FAILED,   "End what runs on the GPU and reset it: nvidia-smi --gpu-reset."),
    "node_reboot":     (FAILED,   "Drain the node and restart it."),
    "system_reboot":   (FAILED,   "Drain the node and restart it."),
    "bus_reset":       (FAILED,   "Drain the node and reset the PCIe bus of the GPU, or restart the node."),
    "drain_and_reset": (FAILED,   "Put no new work on the GPU; reset it when what runs has ended."),
    "drain_p2p":       (DEGRADED, "End the work that uses this GPU together with others; then reset it."),
    "recover_imex":    (DEGRADED, "Restart the IMEX service of the NVLink domain (nvidia-imex)."),
    "unknown":         (DEGRADED, "Read what it is (nvidia-smi -q, GPU Recovery Action): it is newer than this program."),
}  # fmt: skip
"""By the driver's advice, gpu_recovery_action."""


BY_HAND = frozenset(
    {
        *("fault", "xid_reset", "xid_restart", "nvswitch_fatal"),
        *("ecc_uncorrectable", "ecc_sram", "row_remap_failed", "leftover", "leaked"),
    }
)
"""Rules whose faults somebody has to fix. The end of the others is observed, by each check of the stage `periodic`."""

CONFIRMED = frozenset({"gpu_missing", "gpu_down"})
"""Rules that count only if a second look finds the same: a GPU reset takes seconds."""

SHORT: Mapping[str, str] = {
    "driver": "no driver",
    "driver_hangs": "driver hangs",
    "gpu_missing": "{driver} of {wanted} GPUs",
    "gpu_down": "lost",
    "gpu_lost": "{short}",
    "fault": "{short}",
    "fault_degraded": "{short}",
    "xid_reset": "XID {xid}",
    "xid_restart": "XID {xid}",
    "xid_workflow": "XID {xid}",
    "xid_support": "XID {xid}",
    "xid_unknown": "XID {xid}",
    "ecc_uncorrectable": "ECC error",
    "ecc_sram": "SRAM errors",
    "row_remap_failed": "no spare rows",
    "row_remap_pending": "remap pending",
    "page_pending": "page pending",
    "fabric_state": "fabric {state}",
    "fabric_join": "fabric not joined",
    "fabric_route": "fabric route",
    "fabric_configuration": "fabric config",
    "fabric_bandwidth": "fabric slow",
    "fabric_recovery": "fabric recovery",
    "fabric_timeout": "fabric time-out",
    "fabric_cliques": "other clique",
    "nvswitch_fatal": "NVSwitch SXID {sxid}",
    "nvswitch_error": "NVSwitch SXID {sxid}",
    "port_degraded": "port {port}",
    "nvlink_down": "NVLink down",
    "reference": "{name} {value}",
    "limited": "{what} low",
    "nvlink_errors": "NVLink errors",
    "leftover": "{count} leftover",
    "leaked": "leaked {size} GiB",
    "pcie_width": "PCIe x{width}",
    "power_brake": "power brake",
    "hw_thermal": "heat",
    "temperature": "hot",
    "fan": "fan {fan} stands",
    "reading": "no {collector}",
}
"""What Slurm's `sinfo -R` has room for, behind `GPU3`: 20 characters by default."""


_ADVICE: Mapping[str, str] = {"unknown": "something that is not known here"}


def _recovery(action: str) -> Rule:
    verdict, what = RECOVERY[action]
    return Rule(
        name=f"recovery_{action}",
        verdict=verdict,
        text="the driver advises: " + _ADVICE.get(action, action.replace("_", " ")),
        action=what,
        source="nvml",
        find=stated("gpu_recovery_action", "action", [action]),
        short="unknown advice" if action in _ADVICE else action.replace("_", " "),
    )


def _row(name: str, verdict: Verdict, find: object, text: str, action: str, source: str) -> Rule:
    return Rule(
        name=name,
        verdict=verdict,
        text=text,
        action=action,
        source=source,
        find=find,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        short=SHORT[name],
        hands=name in BY_HAND,
        confirm=name in CONFIRMED,
    )


# fmt: off
RULES: tuple[Rule, ...] = (
    _row("driver",              FAILED,   findings.driver_error,
         "the driver is not available: {error}",                          "Load the driver (modprobe nvidia), or restart the node after a driver update.", "nvml"),
    _row("driver_hangs",        FAILED,   findings.driver_hangs,
         "the driver, or one of its GPUs, hangs",                         "Look for XIDs in the kernel log; drain the node and restart it.", "xid"),
    _row("gpu_missing",         FAILED,   findings.missing,
         "the driver shows {driver} of {wanted} GPUs {by}",               "Restart the node; if the GPU stays away, power it off and on and reseat the card.", "xid"),
    _row("gpu_down",            FAILED,   findings.down,
         "does not answer its driver",                                    "Look for XIDs in the kernel log; drain the node and restart it.", "xid"),
    _row("gpu_lost",            FAILED,   findings.lost,
         "{fault}, {age} ago, not mended since",                          "{mends}", "xid"),
    _row("fault",               FAILED,   findings.faults("reset", "restart", "replace"),
         "{fault}, {age} ago, not mended since",                          "{mends}", "xid"),
    _row("fault_degraded",      DEGRADED, findings.faults("reset_when_idle", "procedure", "vendor", "inspect"),
         "{fault}, {age} ago, not mended since",                          "{mends}", "xid"),
    *(_recovery(action) for action in RECOVERY),
    _row("xid_reset",           FAILED,   findings.xids("reset_gpu"),
         "XID {xid}, {minutes} min ago",                                  "End what runs on the GPU and reset it.", "xid"),
    _row("xid_restart",         FAILED,   findings.xids("restart_bm"),
         "XID {xid}, {minutes} min ago",                                  "Drain the node and restart it.", "xid"),
    _row("xid_workflow",        DEGRADED, findings.xids("workflow"),
         "XID {xid}, {minutes} min ago",                                  "Follow NVIDIA's procedure for this XID (docs.nvidia.com/deploy/xid-errors).", "xid"),
    _row("xid_support",         DEGRADED, findings.xids("contact_support"),
         "XID {xid}, {minutes} min ago",                                  "Keep the report of nvidia-bug-report.sh and ask the vendor.", "xid"),
    _row("xid_unknown",         DEGRADED, findings.xids("unknown"),
         "XID {xid}, {minutes} min ago, which is not known here",         "Look it up (docs.nvidia.com/deploy/xid-errors), and look at the kernel log.", "ours"),
    _row("ecc_uncorrectable",   FAILED,   findings.uncorrectable,
         "{value} uncorrectable memory errors since the driver was loaded", "Put no new work on the GPU and reset it; doubt the results of what ran.", "ours"),
    _row("ecc_sram",            FAILED,   unless_cleared(above("gpu_ecc_sram_threshold_exceeded"), Kind.SRAM),
         "on-chip memory has failed past NVIDIA's threshold",             "Replace the board (RMA).", "nvml"),
    _row("row_remap_failed",    FAILED,   unless_cleared(above("gpu_row_remap_failed"), Kind.REMAP),
         "a memory row could not be remapped",                            "Run NVIDIA's field diagnostics; replace the board (RMA).", "memory"),
    _row("row_remap_pending",   DEGRADED, above("gpu_row_remap_pending"),
         "a memory row waits to be remapped",                             "Reset the GPU when what runs has ended.", "memory"),
    _row("page_pending",        DEGRADED, above("gpu_retired_pages_pending"),
         "a memory page waits to be retired",                             "Reset the GPU, or reload the driver, when what runs has ended.", "memory"),
    _row("fabric_state",        FAILED,   stated("gpu_fabric_state", "state", ["not_started", "in_progress"]),
         "has not joined the NVLink fabric: {state}",                     "Look at the fabric manager: systemctl status nvidia-fabricmanager.", "nvml"),
    _row("fabric_join",         FAILED,   above("gpu_fabric_unhealthy", check="join_failed"),
         "has failed to join the NVLink fabric",                          "Look at the fabric manager's log; restart it with no jobs on the node, or reset the GPU.", "nvml"),
    _row("fabric_route",        FAILED,   above("gpu_fabric_unhealthy", check="route_unhealthy"),
         "the NVLink fabric has an unhealthy route",                      "Look at the fabric manager's log; reset the GPU.", "nvml"),
    _row("fabric_configuration", FAILED,  above("gpu_fabric_unhealthy", check="incorrect_configuration"),
         "the NVLink fabric is configured wrongly",                       "Look at the fabric manager's configuration and log.", "nvml"),
    _row("fabric_bandwidth",    DEGRADED, above("gpu_fabric_unhealthy", check="degraded_bandwidth"),
         "the NVLink fabric runs at degraded bandwidth",                  "Look for links that are down (nvidia-smi nvlink -s); drain and reset the GPU.", "nvml"),
    _row("fabric_recovery",     DEGRADED, above("gpu_fabric_unhealthy", check="route_recovery"),
         "the NVLink fabric recovers a route",                            "Wait for it; if it stays, drain and reset the GPU.", "nvml"),
    _row("fabric_timeout",      DEGRADED, above("gpu_fabric_unhealthy", check="access_timeout_recovery"),
         "the NVLink fabric recovers from an access time-out",            "Wait for it; if it stays, drain and reset the GPU.", "nvml"),
    _row("fabric_cliques",      DEGRADED, findings.cliques,
         "its NVLink clique is {clique}, that of most GPUs here {most}",  "Look at the fabric manager's partitions and log; reset the GPU.", "ours"),
    _row("nvswitch_fatal",      FAILED,   findings.sxids("fatal"),
         "NVSwitch {switch}: fatal SXID {sxid}, {minutes} min ago",       "Drain the node; reset all GPUs and NVSwitches together, or restart it.", "sxid"),
    _row("nvswitch_error",      DEGRADED, findings.sxids("non_fatal"),
         "NVSwitch {switch}: SXID {sxid}, {minutes} min ago",             "Look at the fabric manager's log; if it comes again, run field diagnostics.", "sxid"),
    _row("port_degraded",       DEGRADED, findings.ports,
         "network port {port} is {what}",                                 "Look at cable, optics and switch port (ibstat, ethtool); compare gpu_rdma_port_speed_bytes.", "ours"),
    _row("nvlink_down",         DEGRADED, findings.links_down,
         "NVLink {links} of {count} down",                                "Reset the GPU; if they stay down, run field diagnostics on GPU, bridge or baseboard.", "debug"),
    _row("reference",           DEGRADED, reference.unlike_reference,
         "{name} is {value}, not {wanted} as in --check.reference",       "Bring it in line with the other nodes: firmware, driver, or nvidia-smi -e, -pm, -pl.", "ours"),
    _row("limited",             DEGRADED, reference.limited,
         "the {what} is {value} of {most}",                               "Look for limits that were set and forgotten (nvidia-smi -q -d POWER,CLOCK), and for a power cable.", "ours"),
    _row("nvlink_errors",       DEGRADED, leftovers.nvlink_errors,
         "NVLink repeated {count} transfers since the driver was loaded", "Reset the GPU; if they come again, look at bridges, cables and seating.", "debug"),
    _row("leftover",            FAILED,   leftovers.leftover,
         "{count} process(es) are left on it with {size} GiB: {processes}", "End them; with state D, restart the node.", "ours"),
    _row("leaked",              FAILED,   leftovers.leaked,
         "{size} GiB in use that no process owns",                        "Reset the GPU: nvidia-smi --gpu-reset.", "ours"),
    _row("pcie_width",          DEGRADED, findings.narrow,
         "the PCIe link runs on {width} of {best} lanes",                 "Reseat the card and its riser; look for PCIe errors in the kernel log.", "ours"),
    _row("power_brake",         DEGRADED, above("gpu_throttle_active", reason="hw_power_brake"),
         "the power brake holds the clocks down",                         "Check power supplies, cables and the rack's power budget.", "nvml"),
    _row("hw_thermal",          DEGRADED, above("gpu_throttle_active", reason="hw_thermal"),
         "heat holds the clocks down",                                    "Check fans, air flow and inlet temperature.", "nvml"),
    _row("temperature",         DEGRADED, findings.hot,
         "{margin} degrees left before it slows down (at {celsius} °C)",  "Check fans, air flow and inlet temperature.", "ours"),
    _row("fan",                 DEGRADED, findings.fan_stands,
         "fan {fan} stands still at {celsius} °C",                        "Replace the fan or the card.", "ours"),
    _row("reading",             DEGRADED, findings.collector_failed,
         "the driver fails to answer for {collector}",                    "Look at the log of the check or of the exporter (--log.level debug).", "ours"),
)
# fmt: on

NAMES = tuple(rule.name for rule in RULES)


AFTER_A_JOB = frozenset({"leftover", "leaked"})
"""What is no fault while a job runs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`budget` are seconds for all of it; rules of a lesser verdict than `least` are not asked."""

    budget: float
    least: Verdict = Verdict.DEGRADED
    emptied: bool = False
    """Whether the GPUs looked at must be empty."""
    resumes: bool = False
    """Whether finding nothing counts as a good check of a drained node: a stage that asks little proves little."""
    program: bool = False
    """Whether the site's own program runs, where one is given."""

    @property
    def left_out(self) -> frozenset[str]:
        """Names of the rules that are not asked."""
        late: frozenset[str] = frozenset() if self.emptied else AFTER_A_JOB
        return late | {rule.name for rule in RULES if rule.verdict < self.least}


STAGES: Mapping[str, Stage] = {
    "prolog": Stage(10.0, Verdict.FAILED),
    "epilog": Stage(20.0, Verdict.FAILED, emptied=True),
    "periodic": Stage(30.0, resumes=True),
    "full": Stage(600.0, emptied=True, resumes=True, program=True),
}


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
