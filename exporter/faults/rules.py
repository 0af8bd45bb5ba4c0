# ruff: noqa: E501 - a table
"""Every rule of the health check, as data, and the verdict that they give on a node.

Sources: `nvml` the comments of nvml.h and the NVML reference; `xid` NVIDIA's Xid catalogue
(docs.nvidia.com/deploy/xid-errors); `sxid` NVIDIA's Fabric Manager user guide; `memory` NVIDIA's GPU memory error management guide
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt); `debug` NVIDIA's GPU debug guidelines
(docs.nvidia.com/deploy/gpu-debug-guidelines); `ours` a choice of this project, the same as that of the alert.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.core.clock import UnixTime
from exporter.faults import findings, reference
from exporter.faults.findings import NO_DRIVER, REFUSED, expected_gpus, gpu_less
from exporter.faults.model import FaultKind
from exporter.faults.rule import Facts, Finding, Limits, Rule, Verdict, above, stated, unless_cleared

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


def _recovery(action: str) -> Rule:
    verdict, what = RECOVERY[action]
    find, words = stated("gpu_recovery_action", "action", [action]), action.replace("_", " ")
    text, short = f"the driver advises: {words}", words
    if action == "unknown":
        text, short = "the driver advises: something that is not known here", "unknown advice"
    return Rule(f"recovery_{action}", verdict, find, short, "gpurecoveryactionneeded", text, what, "nvml")


# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("driver", FAILED, findings.driver_error, "no driver", "gpudriverunavailable",
         "the driver is not available: {error}", "Load the driver (modprobe nvidia), or restart the node after a driver update.", "nvml"),
    Rule("driver_hangs", FAILED, findings.driver_hangs, "driver hangs", "gpudriverunavailable",
         "the driver, or one of its GPUs, hangs", "Look for XIDs in the kernel log; drain the node and restart it.", "xid"),
    Rule("gpu_missing", FAILED, findings.missing, "{driver} of {wanted} GPUs", "gpulost",
         "the driver shows {driver} of {wanted} GPUs {by}", "Restart the node; if the GPU stays away, power it off and on and reseat the card.", "xid", confirm=True),
    Rule("gpu_down", FAILED, findings.down, "lost", "gpulost",
         "does not answer its driver", "Look for XIDs in the kernel log; drain the node and restart it.", "xid", confirm=True),
    Rule("gpu_lost", FAILED, findings.lost, "{short}", "gpulost",
         "{fault}, {age} ago, not mended since", "{mends}", "xid"),
    Rule("fault", FAILED, findings.faults("reset", "restart", "replace", "page"), "{short}", "gpurecoveryactionneeded",
         "{fault}, {age} ago, not mended since", "{mends}", "xid", hands=True),
    Rule("fault_degraded", DEGRADED, findings.faults("reset_when_idle", "procedure", "vendor", "inspect"), "{short}", "gpurecoveryactionneeded",
         "{fault}, {age} ago, not mended since", "{mends}", "xid"),
    *(_recovery(action) for action in RECOVERY),
    Rule("xid_reset", FAILED, findings.xids("reset_gpu"), "XID {xid}", "gpurecoveryactionneeded",
         "XID {xid}, {minutes} min ago", "End what runs on the GPU and reset it.", "xid", hands=True),
    Rule("xid_restart", FAILED, findings.xids("restart_bm"), "XID {xid}", "gpulost",
         "XID {xid}, {minutes} min ago", "Drain the node and restart it.", "xid", hands=True),
    Rule("xid_workflow", DEGRADED, findings.xids("workflow"), "XID {xid}", "gpuxidworkflow",
         "XID {xid}, {minutes} min ago", "Follow NVIDIA's procedure for this XID (docs.nvidia.com/deploy/xid-errors).", "xid"),
    Rule("xid_support", DEGRADED, findings.xids("contact_support"), "XID {xid}", "gpuxidworkflow",
         "XID {xid}, {minutes} min ago", "Keep the report of nvidia-bug-report.sh and ask the vendor.", "xid"),
    Rule("xid_unknown", DEGRADED, findings.xids("unknown"), "XID {xid}", "gpuxidworkflow",
         "XID {xid}, {minutes} min ago, which is not known here", "Look it up (docs.nvidia.com/deploy/xid-errors), and look at the kernel log.", "ours"),
    Rule("ecc_uncorrectable", FAILED, findings.uncorrectable, "ECC error", "gpurecoveryactionneeded",
         "{value} uncorrectable memory errors since the driver was loaded", "Put no new work on the GPU and reset it; doubt the results of what ran.", "ours", hands=True),
    Rule("ecc_sram", FAILED, unless_cleared(above("gpu_ecc_sram_threshold_exceeded"), FaultKind.SRAM), "SRAM errors", "gpurecoveryactionneeded",
         "on-chip memory has failed past NVIDIA's threshold", "Replace the board (RMA).", "nvml", hands=True),
    Rule("row_remap_failed", FAILED, unless_cleared(above("gpu_row_remap_failed"), FaultKind.REMAP), "no spare rows", "gpurecoveryactionneeded",
         "a memory row could not be remapped", "Run NVIDIA's field diagnostics; replace the board (RMA).", "memory", hands=True),
    Rule("row_remap_pending", DEGRADED, above("gpu_row_remap_pending"), "remap pending", "gpuresetpending",
         "a memory row waits to be remapped", "Reset the GPU when what runs has ended.", "memory"),
    Rule("page_pending", DEGRADED, above("gpu_retired_pages_pending"), "page pending", "gpuresetpending",
         "a memory page waits to be retired", "Reset the GPU, or reload the driver, when what runs has ended.", "memory"),
    Rule("fabric_state", FAILED, stated("gpu_fabric_state", "state", ["not_started", "in_progress"]), "fabric {state}", "gpunvlinkdegraded",
         "has not joined the NVLink fabric: {state}", "Look at the fabric manager: systemctl status nvidia-fabricmanager.", "nvml"),
    Rule("fabric_join", FAILED, above("gpu_fabric_unhealthy", check="join_failed"), "fabric not joined", "gpunvlinkdegraded",
         "has failed to join the NVLink fabric", "Look at the fabric manager's log; restart it with no jobs on the node, or reset the GPU.", "nvml"),
    Rule("fabric_route", FAILED, above("gpu_fabric_unhealthy", check="route_unhealthy"), "fabric route", "gpunvlinkdegraded",
         "the NVLink fabric has an unhealthy route", "Look at the fabric manager's log; reset the GPU.", "nvml"),
    Rule("fabric_configuration", FAILED, above("gpu_fabric_unhealthy", check="incorrect_configuration"), "fabric config", "gpunvlinkdegraded",
         "the NVLink fabric is configured wrongly", "Look at the fabric manager's configuration and log.", "nvml"),
    Rule("fabric_bandwidth", DEGRADED, above("gpu_fabric_unhealthy", check="degraded_bandwidth"), "fabric slow", "gpunvlinkdegraded",
         "the NVLink fabric runs at degraded bandwidth", "Look for links that are down (nvidia-smi nvlink -s); drain and reset the GPU.", "nvml"),
    Rule("fabric_recovery", DEGRADED, above("gpu_fabric_unhealthy", check="route_recovery"), "fabric recovery", "gpunvlinkdegraded",
         "the NVLink fabric recovers a route", "Wait for it; if it stays, drain and reset the GPU.", "nvml"),
    Rule("fabric_timeout", DEGRADED, above("gpu_fabric_unhealthy", check="access_timeout_recovery"), "fabric time-out", "gpunvlinkdegraded",
         "the NVLink fabric recovers from an access time-out", "Wait for it; if it stays, drain and reset the GPU.", "nvml"),
    Rule("fabric_cliques", DEGRADED, findings.cliques, "other clique", "gpunvlinkdegraded",
         "its NVLink clique is {clique}, that of most GPUs here {most}", "Look at the fabric manager's partitions and log; reset the GPU.", "ours"),
    Rule("nvswitch_fatal", FAILED, findings.sxids("fatal"), "NVSwitch SXID {sxid}", "gpunvswitcherror",
         "NVSwitch {switch}: fatal SXID {sxid}, {minutes} min ago", "Drain the node; reset all GPUs and NVSwitches together, or restart it.", "sxid", hands=True),
    Rule("nvswitch_error", DEGRADED, findings.sxids("non_fatal"), "NVSwitch SXID {sxid}", "gpunvswitcherror",
         "NVSwitch {switch}: SXID {sxid}, {minutes} min ago", "Look at the fabric manager's log; if it comes again, run field diagnostics.", "sxid"),
    Rule("port_degraded", DEGRADED, findings.ports, "port {port}", "gpunetworkportdegraded",
         "network port {port} is {what}", "Look at cable, optics and switch port (ibstat, ethtool); compare gpu_rdma_port_speed_bytes.", "ours"),
    Rule("nvlink_down", DEGRADED, findings.links_down, "NVLink down", "gpunvlinkdegraded",
         "NVLink {links} of {count} down", "Reset the GPU; if they stay down, run field diagnostics on GPU, bridge or baseboard.", "debug"),
    Rule("reference", DEGRADED, reference.unlike_reference, "{name} {value}", "gpudriverskew",
         "{name} is {value}, not {wanted} as in --check.reference", "Bring it in line with the other nodes: firmware, driver, or nvidia-smi -e, -pm, -pl.", "ours"),
    Rule("limited", DEGRADED, reference.limited, "{what} low", "gpuperformancelimited",
         "the {what} is {value} of {most}", "Look for limits that were set and forgotten (nvidia-smi -q -d POWER,CLOCK), and for a power cable.", "ours"),
    Rule("nvlink_errors", DEGRADED, findings.nvlink_errors, "NVLink errors", "gpunvlinkdegraded",
         "NVLink repeated {count} transfers since the driver was loaded", "Reset the GPU; if they come again, look at bridges, cables and seating.", "debug"),
    Rule("leftover", FAILED, findings.leftover, "{count} leftover", "gpumemoryleaked",
         "{count} process(es) are left on it with {size} GiB: {processes}", "End them; with state D, restart the node.", "ours", hands=True),
    Rule("leaked", FAILED, findings.leaked, "leaked {size} GiB", "gpumemoryleaked",
         "{size} GiB in use that no process owns", "Reset the GPU: nvidia-smi --gpu-reset.", "ours", hands=True),
    Rule("pcie_width", DEGRADED, findings.narrow, "PCIe x{width}", "gpupciedegraded",
         "the PCIe link runs on {width} of {best} lanes", "Reseat the card and its riser; look for PCIe errors in the kernel log.", "ours"),
    Rule("power_brake", DEGRADED, above("gpu_throttle_active", reason="hw_power_brake"), "power brake", "gpupowerbrake",
         "the power brake holds the clocks down", "Check power supplies, cables and the rack's power budget.", "nvml"),
    Rule("hw_thermal", DEGRADED, above("gpu_throttle_active", reason="hw_thermal"), "heat", "gputhermalthrottling",
         "heat holds the clocks down", "Check fans, air flow and inlet temperature.", "nvml"),
    Rule("temperature", DEGRADED, findings.hot, "hot", "gputhermalthrottling",
         "{margin} degrees left before it slows down (at {celsius} °C)", "Check fans, air flow and inlet temperature.", "ours"),
    Rule("fan", DEGRADED, findings.fan_stands, "fan {fan} stands", "gputhermalthrottling",
         "fan {fan} stands still at {celsius} °C", "Replace the fan or the card.", "ours"),
    Rule("owners", OK, findings.silent_sources, "no {source}", "gpusourcefailing",
         "owners may be missing: source {source} fails ({reason})", "Look at the exporter's log; the GPUs themselves are not affected.", "ours"),
    Rule("reading", DEGRADED, findings.collector_failed, "no {collector}", "gpusourcefailing",
         "the driver fails to answer for {collector}", "Look at the log of the check or of the exporter (--log.level debug).", "ours"),
)
# fmt: on

NAMES = tuple(rule.name for rule in RULES)


AFTER_A_JOB = frozenset({"leftover", "leaked"})
"""What is no fault while a job runs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`budget` are seconds for all of it; rules of a lesser verdict than `least` are not asked."""

    budget: float
    least: Verdict = Verdict.OK
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


def runbook(rule: str) -> str:
    """Return the name of a rule's runbook; empty if there is none."""
    return next((each.runbook for each in RULES if each.name == rule), "")


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one node."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    gpus: int
    """GPUs that answer."""
    models: tuple[str, ...]
    simulated: bool = False
    remark: str = ""
    """Why the verdict is unknown, or ok without a GPU."""
    confirmed: bool = True
    """False if losses of GPUs were found by one look alone."""

    @property
    def losses(self) -> frozenset[str]:
        """Indices of the GPUs whose loss a second look must confirm; empty for those of the node."""
        return frozenset(finding.gpu for finding in self.findings if finding.confirm)

    def proven(self) -> Report:
        """Return the report without losses that no second look confirmed: a node is not drained for them."""
        kept = tuple(finding for finding in self.findings if self.confirmed or not finding.confirm)
        return replace(self, findings=kept, verdict=max((each.verdict for each in kept), default=Verdict.OK))

    def with_finding(self, finding: Finding) -> Report:
        """The same with one thing more that is wrong."""
        if self.verdict is Verdict.UNKNOWN:
            return self
        found = tuple(sorted((*self.findings, finding), key=lambda each: (-each.verdict, int(each.gpu or -1))))
        return replace(self, verdict=max(self.verdict, finding.verdict), findings=found)


def unknown(remark: str) -> Report:
    return Report(Verdict.UNKNOWN, (), 0, (), remark=remark)


def judge(facts: Facts, limits: Limits, ignored: Collection[str] = (), rules: Sequence[Rule] = RULES) -> Report:
    """The verdict on what is known. `ignored` are names of rules that are not asked."""
    remark = _not_judged(facts, limits)
    if remark:
        return unknown(remark)
    found = tuple(_findings(facts, limits, (rule for rule in rules if rule.name not in ignored)))
    report = Report(
        verdict=max((finding.verdict for finding in found), default=Verdict.OK),
        findings=tuple(sorted(found, key=lambda f: (-f.verdict, int(f.gpu or -1)))),
        gpus=sum(series.value == 1 for series in facts.of("gpu_up")),
        models=facts.models,
        simulated=bool(facts.value("gpu_exporter_simulated")),
        remark="no NVIDIA GPU in this node" if gpu_less(facts, limits) else "",
    )
    if not facts.of("gpu_up") and not report.findings and not report.remark:
        return unknown("no GPU is shown, and no reason for it is known")
    causes = sorted(series.labels["cause"] for series in facts.of("gpu_exporter_faults_incomplete"))
    if causes and report.verdict is not Verdict.FAILED:
        return unknown(f"known faults may be missing: the state file was not understood ({', '.join(causes)})")
    return report


def _not_judged(facts: Facts, limits: Limits) -> str:
    if not facts.of("gpu_exporter_build_info"):
        return "not the metrics of gpu-exporter"
    sampled = facts.value("gpu_exporter_last_sample_timestamp_seconds")
    if sampled is not None and facts.time - UnixTime(sampled) > limits.stale:
        return f"the exporter's last sample is {facts.time - UnixTime(sampled):.0f} s old"
    pci, error = facts.value("gpu_devices", source="pci"), facts.of("gpu_exporter_driver_error")
    if error and error[0].labels.get("error") in NO_DRIVER and pci is None and not expected_gpus(facts, limits)[0]:
        return f"the driver is not available ({error[0].labels.get('error')}), and the PCI bus cannot be read"
    if error and error[0].labels.get("error") == REFUSED:
        return f"the driver may not be asked ({REFUSED}): run this as a user who may open /dev/nvidiactl"
    return ""


def _findings(facts: Facts, limits: Limits, rules: Iterable[Rule]) -> Iterable[Finding]:
    shown = sorted(facts.of("gpu_up"), key=lambda series: series.value)
    uuids = {series.gpu: series.labels.get("uuid", "") for series in shown}
    for rule in rules:
        for gpu, values in rule.find(facts, limits):
            reason = rule.text.format(**values)
            action, short = rule.action.format(**values), rule.short.format(**values)
            uuid = str(values.get("uuid", uuids.get(gpu, "")))
            yield Finding(rule.name, rule.verdict, gpu, uuid, reason, action, short, rule.hands, rule.confirm)
