# ruff: noqa: E501 - a table
"""Every rule of the health check, as data.

Sources: `nvml` the comments of nvml.h and the NVML reference; `xid` NVIDIA's Xid catalogue
(docs.nvidia.com/deploy/xid-errors); `sxid` NVIDIA's Fabric Manager user guide; `memory` NVIDIA's GPU memory error management guide
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt); `debug` NVIDIA's GPU debug guidelines
(docs.nvidia.com/deploy/gpu-debug-guidelines); `ours` a choice of this project, the same as that of the alert.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.faults import findings, reference
from exporter.faults.model import REPAIRS_BY_STRENGTH, FaultKind
from exporter.faults.rule import Rule, Verdict, series_above, series_labelled

OK, DEGRADED, FAILED = Verdict.OK, Verdict.DEGRADED, Verdict.FAILED

_BUS_RESET = "Drain the node and reset the PCIe bus of the GPU, or restart the node."
_OF_REPAIRS = [findings.REPAIRS[repair][2] for repair in REPAIRS_BY_STRENGTH]
_RESTARTS = _OF_REPAIRS.index(findings.RESTART)
ACTIONS_BY_STRENGTH = (*_OF_REPAIRS[:_RESTARTS], _BUS_RESET, *_OF_REPAIRS[_RESTARTS:])
"""Actions of faults and of the driver's advice, the weakest first. The driver alone advises a reset of the bus."""
RECOVERY: Mapping[str, tuple[Verdict, str]] = {
    "gpu_reset":       (FAILED,   findings.RESET),
    "node_reboot":     (FAILED,   findings.RESTART),
    "system_reboot":   (FAILED,   findings.RESTART),
    "bus_reset":       (FAILED,   _BUS_RESET),
    "drain_and_reset": (FAILED,   findings.RESET_WHEN_IDLE),
    "drain_p2p":       (DEGRADED, findings.RESET_WHEN_IDLE),
    "recover_imex":    (DEGRADED, "Restart the IMEX service (nvidia-imex)."),
    "unknown":         (DEGRADED, "Read the GPU Recovery Action (nvidia-smi -q): it is newer than this program."),
}  # fmt: skip
"""Verdict and action by the driver's advice, gpu_recovery_action."""


def is_urgent(action: str) -> bool:
    """Return whether the driver's advice cannot wait for the work on the GPU."""
    verdict, what = RECOVERY[action]
    return verdict is FAILED and what != findings.RESET_WHEN_IDLE


def _recovery_rule(action: str) -> Rule:
    verdict, what = RECOVERY[action]
    find, words = series_labelled("gpu_recovery_action", "action", [action]), action.replace("_", " ")
    text, short = f"the driver advises: {words}", words
    if action == "unknown":
        text, short = "the driver advises: something that is not known here", "unknown advice"
    page = "gpurecoveryactionneeded" if is_urgent(action) else "gpuresetpending"
    return Rule(f"recovery_{action}", verdict, find, short, page, text, what, "nvml")


_RETURN = "Drain the node and restart it; if the GPU stays away, power the node off and on, then reseat the card."
_RESEAT = "Drain the node and restart it; if the link stays degraded, reseat the card and its riser."
_WAIT = "Drain the node and reset its GPUs together; do nothing if it ends by itself."


def _fault_rule(  # noqa: PLR0913, PLR0917 - a row
    kind: FaultKind,
    verdict: Verdict,
    short: str,
    page: str = "{page}",
    text: str = "{evidence}, {since}",
    action: str = "{repair}",
    source: str = "xid",
) -> Rule:
    """Return the row of a kind of fault. What fails the node by it needs somebody's hands, but for a loss."""
    hands = verdict is FAILED and kind is not FaultKind.LOST
    return Rule(kind.value, verdict, findings.faults_of_kind(kind), short, page, text, action, source, hands)


# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("driver", FAILED, findings.driver_error, "no driver", "gpudriverunavailable",
         "the driver is not available: {error}", "{repair}", "nvml"),
    Rule("driver_hangs", FAILED, findings.driver_hangs, "driver hangs", "gpudriverunavailable",
         "the driver, or one of its GPUs, hangs", "Drain the node and restart it; look for XIDs in the kernel log.", "xid", confirm=True),
    Rule("gpu_missing", FAILED, findings.find_missing, "{driver} of {wanted} GPUs", "gpulost",
         "the driver shows {driver} of {wanted} GPUs {by}", _RETURN, "xid", confirm=True),
    Rule("gpu_down", FAILED, findings.find_unreachable, "lost", "gpulost",
         "lost, its driver gets no answer from it", _RETURN, "xid", confirm=True),
    _fault_rule(FaultKind.LOST, FAILED, "{short}", "gpulost", "lost ({evidence}), {since}"),
    _fault_rule(FaultKind.SLOW, DEGRADED, "slow", "gpusamplestale", "its readings are stale, {since}", "Run timeout 10 nvidia-smi -i GPU; if it hangs, drain the node and restart it.", "ours"),
    _fault_rule(FaultKind.XID, FAILED, "{evidence}"),
    _fault_rule(FaultKind.PATTERN, DEGRADED, "XID pattern", "gpuxidworkflow", "{evidence} on this GPU alone, {since}", "Run field diagnostics on the GPU when it is free.", "ours"),
    _fault_rule(FaultKind.ECC, FAILED, "ECC error", action="{repair} Doubt the results of what ran."),
    _fault_rule(FaultKind.SRAM, FAILED, "SRAM errors", text="on-chip memory has failed {evidence}, {since}", source="nvml"),
    _fault_rule(FaultKind.REMAP, FAILED, "no spare rows", text="a memory row could not be remapped ({evidence}), {since}", source="memory"),
    _fault_rule(FaultKind.NVLINK, DEGRADED, "NVLink down", "gpunvlinkfabricdegraded", action="Drain the node and reset its GPUs together; if they stay down, run field diagnostics on GPU, bridge or baseboard.", source="debug"),
    _fault_rule(FaultKind.PCIE_WIDTH, DEGRADED, "PCIe width", "gpupciedegraded", action=_RESEAT, source="ours"),
    _fault_rule(FaultKind.PCIE_GENERATION, DEGRADED, "PCIe generation", "gpupciedegraded", action=_RESEAT, source="ours"),
    _fault_rule(FaultKind.NVSWITCH, FAILED, "NVSwitch SXID", "gpunvswitcherror", action="Drain the node and reset its GPUs and NVSwitches together, or restart it.", source="sxid"),
    Rule("inventory", DEGRADED, findings.find_inventory_conflict, "GPUs not known", "gpusourcefailing",
         "how many GPUs there should be is not known: {slurm} by gres.conf, {kubernetes} by Kubernetes", "Correct the wrong one, or set --expect.gpus.", "ours"),
    *(_recovery_rule(action) for action in RECOVERY),
    Rule("row_remap_pending", DEGRADED, series_above("gpu_row_remap_pending"), "remap pending", "gpuresetpending",
         "a memory row waits to be remapped", findings.RESET_WHEN_IDLE, "memory"),
    Rule("page_pending", DEGRADED, series_above("gpu_retired_pages_pending"), "page pending", "gpuresetpending",
         "a memory page waits to be retired", findings.RESET_WHEN_IDLE, "memory"),
    Rule("fabric_state", FAILED, series_labelled("gpu_fabric_state", "state", ["not_started", "in_progress"]), "fabric {state}", "gpunvlinkfabricdegraded",
         "has not joined the NVLink fabric: {state}", "Read the fabric manager's log; start it if it does not run (systemctl status nvidia-fabricmanager).", "nvml"),
    Rule("fabric_join", FAILED, series_above("gpu_fabric_unhealthy", check="join_failed"), "fabric not joined", "gpunvlinkfabricdegraded",
         "has failed to join the NVLink fabric", "Drain the node and reset its GPUs together; or restart nvidia-fabricmanager with no jobs on the node.", "nvml"),
    Rule("fabric_route", FAILED, series_above("gpu_fabric_unhealthy", check="route_unhealthy"), "fabric route", "gpunvlinkfabricdegraded",
         "the NVLink fabric has an unhealthy route", "Drain the node and reset its GPUs together; read the fabric manager's log.", "nvml"),
    Rule("fabric_configuration", FAILED, series_above("gpu_fabric_unhealthy", check="incorrect_configuration"), "fabric config", "gpunvlinkfabricdegraded",
         "the NVLink fabric is configured wrongly", "Read the fabric manager's log; correct its configuration.", "nvml"),
    Rule("fabric_bandwidth", DEGRADED, series_above("gpu_fabric_unhealthy", check="degraded_bandwidth"), "fabric slow", "gpunvlinkfabricdegraded",
         "the NVLink fabric runs at degraded bandwidth", "Drain the node and reset its GPUs together; look for links that are down (nvidia-smi nvlink -s).", "nvml"),
    Rule("fabric_recovery", DEGRADED, series_above("gpu_fabric_unhealthy", check="route_recovery"), "fabric recovery", "gpunvlinkfabricdegraded",
         "the NVLink fabric recovers a route", _WAIT, "nvml"),
    Rule("fabric_timeout", DEGRADED, series_above("gpu_fabric_unhealthy", check="access_timeout_recovery"), "fabric time-out", "gpunvlinkfabricdegraded",
         "the NVLink fabric recovers from an access time-out", _WAIT, "nvml"),
    Rule("fabric_cliques", DEGRADED, findings.find_split_cliques, "other clique", "gpunvlinkfabricdegraded",
         "its NVLink clique is {clique}, that of most GPUs here {most}", "Drain the node and reset its GPUs together; read the fabric manager's log, and compare its partitions.", "ours"),
    Rule("nvswitch_error", OK, findings.find_sxids, "NVSwitch SXID {sxid}", "gpunvswitcherror",
         "NVSwitch {switch}: SXID {sxid}, {minutes} min ago", "Read the fabric manager's log; if it comes again, run field diagnostics.", "sxid"),
    Rule("port_degraded", DEGRADED, findings.find_degraded_ports, "port {port}", "gpunetworkportdegraded",
         "network port {port} is {what}", "Check cable, optics and switch port; compare ibstat, ethtool and gpu_rdma_port_speed_bytes.", "ours"),
    Rule("reference", DEGRADED, reference.unlike_reference, "{name} {value}", "gpusourcefailing",
         "{name} is {value}, not {wanted} as in --expect.reference", "Bring it in line with the other nodes; firmware and driver by an update, the rest by nvidia-smi -e, -pm, -pl.", "ours"),
    Rule("power_limit", DEGRADED, reference.find_low_power_limits, "power limit low", "gpuperformancelimited",
         "the power limit is {value} of {most} W", "Restore the power limit (nvidia-smi -i GPU -pl WATTS).", "ours"),
    Rule("limited", DEGRADED, reference.find_limited, "SM clock low", "gpuperformancelimited",
         "the SM clock is {value} of {most} MHz", "Restore the clocks (nvidia-smi -i GPU -rgc); at 345 MHz with no limit set, reseat the power cable.", "ours"),
    Rule("nvlink_errors", DEGRADED, findings.nvlink_errors, "NVLink errors", "gpunvlinkfabricdegraded",
         "NVLink repeated {count} transfers since the driver was loaded", "Drain the node and reset its GPUs together; if they come again, look at bridges, cables and seating.", "debug"),
    Rule("leftover", FAILED, findings.find_leftover, "{count} leftover", "gpumemoryleaked",
         "{size} GiB of processes that ended jobs left on it: {processes}", "End these processes; with state D, restart the node.", "ours", hands=True),
    Rule("leaked", FAILED, findings.find_leaked, "leaked {size} GiB", "gpumemoryleaked",
         "{size} GiB in use that no process owns", "End the processes that have the device open (fuser -v /dev/nvidia*); then reset the GPU.", "ours", hands=True),
    Rule("hw_slowdown", DEGRADED, findings.find_slowed, "HW slowdown", "gpuperformancelimited",
         "the hardware lowers the clocks (HW slowdown)", "Check power supplies and cables; ask whether the chassis supports the card.", "nvml"),
    Rule("power_brake", DEGRADED, series_above("gpu_throttle_active", reason="hw_power_brake"), "power brake", "gpupowerbrake",
         "the power brake lowers the clocks", "Check power supplies, cables and the power budget of the rack.", "nvml"),
    Rule("hw_thermal", DEGRADED, series_above("gpu_throttle_active", reason="hw_thermal"), "heat", "gputhermalthrottling",
         "heat lowers the clocks", "Check fans, air flow and inlet temperature.", "nvml"),
    Rule("temperature", DEGRADED, findings.find_hot, "hot", "gputhermalthrottling",
         "{margin} degrees left before it slows down (at {celsius} °C)", "Check fans, air flow and inlet temperature.", "ours"),
    Rule("fan", DEGRADED, findings.fan_stands, "fan {fan} stands", "gputhermalthrottling",
         "fan {fan} stands still at {celsius} °C", "Replace the fan or the card.", "ours"),
    Rule("utilization_stuck", DEGRADED, series_above("gpu_utilization_stuck"), "utilization stuck", "gpusourcefailing",
         "reports full use in an idle performance state, without a process", "Reload the driver or reset the GPU when it is free; until then its utilization means nothing.", "ours"),
    Rule("fault_state", OK, findings.unsaved_faults, "faults not saved", "gpusourcefailing",
         "the exporter forgets faults when it restarts: it cannot write its state file", "Make --state.dir writable; the exporter's log says why it is not.", "ours"),
    Rule("owners", OK, findings.silent_sources, "no {source}", "gpusourcefailing",
         "owners may be missing: source {source} fails ({reason})", "Read the exporter's log; the GPUs themselves are not affected.", "ours"),
    Rule("reading", DEGRADED, findings.collector_failed, "no {collector}", "gpusourcefailing",
         "the driver fails to answer for {collector}", "Read the exporter's log; without an exporter, run the check with --log.level debug.", "ours"),
)
# fmt: on

NAMES = tuple(rule.name for rule in RULES)


def runbooks_of(rule: str) -> frozenset[str]:
    """Return the runbooks that a rule's findings can lead to: of a fault, those of its repairs."""
    found = {each.runbook for each in RULES if each.name == rule}
    return frozenset(page for _, page, _ in findings.REPAIRS.values()) if found == {"{page}"} else frozenset(found)
