"""The finds that need more than one series: counts, links, temperatures, XIDs, and what an ended job left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from exporter.attribution.devices import DeviceName
from exporter.core.clock import UnixTime
from exporter.faults.model import XID_EVIDENCE, FaultKind
from exporter.faults.rule import Cause, Facts, Find, Limits, Series, Verdict

NO_DRIVER = frozenset({"LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED"})
"""So it is where there is no GPU, too."""
REFUSED = "NO_PERMISSION"
"""NVML's answer to a user who may not open `/dev/nvidiactl`. This is not a GPU fault."""
RELEASED = "RELEASED"
"""The exporter has let go of the driver, as somebody asked it to."""


def gpu_less(facts: Facts, limits: Limits) -> bool:
    """Return whether this node has no GPU and should have none: no driver, and none on the PCI bus."""
    return _none_found(facts) and not expected_gpus(facts, limits)[0]


def expected_gpus(facts: Facts, limits: Limits) -> tuple[int, str]:
    """Return how many GPUs this node should have, and by which source; (0, "") if it is not known.

    The option is right. Else it is the largest number, unless gres.conf and Kubernetes contradict each other.
    """
    counts = {s.labels["source"]: int(s.value) for s in facts.of("gpu_expected_devices") if s.value}
    option = limits.gpus or counts.get("option", 0)
    if option:
        return option, "option"
    if find_contradiction(facts, limits):
        return counts.get("history", 0), "history"
    return max(((count, source) for source, count in counts.items()), default=(0, ""))


def find_contradiction(facts: Facts, limits: Limits) -> tuple[int, int] | None:
    """Return the numbers of gres.conf and of Kubernetes, if they differ and no option states the right one."""
    slurm, kubernetes, option = (
        facts.value("gpu_expected_devices", source=source) for source in ("slurm", "kubernetes", "option")
    )
    if not slurm or not kubernetes or slurm == kubernetes or option or limits.gpus:
        return None
    return int(slurm), int(kubernetes)


def find_inventory_conflict(facts: Facts, limits: Limits) -> Iterable[Cause]:
    found = find_contradiction(facts, limits)
    if found:
        yield "", {"slurm": found[0], "kubernetes": found[1]}


def _none_found(facts: Facts) -> bool:
    """Return whether the PCI bus is empty and the driver is not loaded."""
    errors = {series.labels.get("error", "") for series in facts.of("gpu_exporter_driver_error")}
    return facts.value("gpu_devices", source="pci") == 0 and bool(errors & NO_DRIVER)


MISMATCH = "LIB_RM_VERSION_MISMATCH"
LOAD, RELOAD = (
    "Load the driver (modprobe nvidia), or restart the node.",
    "Drain the node, then reload the module or restart.",
)
"""Repair of a driver that does not open, and of one that differs in version from its library."""
_ERRORS = {"LIBRARY_NOT_FOUND": "LIBRARY_NOT_FOUND (libnvidia-ml.so.1 is not where the dynamic linker looks)"}

_HANGS = "NOT_OPENED"
"""The driver was asked to open and has not answered yet."""


def driver_error(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """Report the driver's error. Without any GPU on the PCI bus, the error follows from that: see `missing`."""
    if _none_found(facts):
        return
    for series in facts.of("gpu_exporter_driver_error"):
        if series.value and series.labels["error"] != _HANGS:
            code = series.labels["error"]
            yield "", {"error": _ERRORS.get(code, code), "repair": RELOAD if code == MISMATCH else LOAD}


def silent_sources(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """Report the sources of owners that fail. The GPUs are not to blame."""
    for series in facts.of("gpu_exporter_attribution_error"):
        yield "", {"source": series.labels["source"], "reason": series.labels["reason"].replace("_", " ")}


def unsaved_faults(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    if facts.value("gpu_exporter_fault_state_saved") == 0:
        yield "", {}


def driver_hangs(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    if any(series.value for series in facts.of("gpu_exporter_driver_error", error=_HANGS)):
        yield "", {}


_SOURCES = {
    "pci": "on the PCI bus",
    "enumerated": "that it counts itself",
    "option": "expected",
    "slurm": "in gres.conf",
    "kubernetes": "in the node's capacity",
    "history": "that were here before",
}


def find_missing(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Compare the GPUs that have a handle with the largest number that any source states.

    Other lost GPUs are reported by their fault. Those that somebody acknowledged are not missed on the bus.
    """
    accepted = len(facts.of("gpu_fault_acknowledged", fault="lost"))
    driver = 0.0 if _none_found(facts) else facts.value("gpu_devices", source="driver")
    shown = [(int(s.value), s.labels["source"]) for s in facts.of("gpu_devices") if s.labels["source"] != "driver"]
    found = [(count - accepted, source) for count, source in shown]
    wanted, source = max([*found, expected_gpus(facts, limits)], key=lambda count: count[0])
    if driver is not None and driver + _lost_without_handle(facts, driver) < wanted:
        yield "", {"driver": f"{driver:g}", "wanted": wanted, "by": _SOURCES.get(source, "expected")}


def _lost_without_handle(facts: Facts, handles: float) -> float:
    """Return how many of the lost GPUs have no handle: not those that answer, nor as many as other GPUs cannot have."""
    found = facts.of("gpu_fault_timestamp_seconds", fault="lost")
    up = {series.labels.get("uuid") for series in facts.of("gpu_up") if series.value}
    lost = {series.labels.get("uuid") or (series.gpu, series.labels["evidence"]) for series in found} - up
    others = {series.labels.get("uuid") for series in facts.of("gpu_up")} - lost
    return max(0.0, len(lost) - max(0.0, handles - len(others)))


RESET = "Drain the node, then reset the GPU: nvidia-smi --gpu-reset -i GPU."
RESET_WHEN_IDLE = "Put no new work on the GPU, and reset it when what runs has ended."
RESTART = "Drain the node and restart it."
_NOW, _XID = "gpurecoveryactionneeded", "gpuxidworkflow"
REPAIRS: Mapping[str, tuple[Verdict, str, str]] = {
    "reset":           (Verdict.FAILED,   _NOW, RESET),
    "reset_when_idle": (Verdict.DEGRADED, "gpuresetpending", RESET_WHEN_IDLE),
    "restart":         (Verdict.FAILED,   _NOW, RESTART),
    "replace":         (Verdict.FAILED,   _NOW, "Drain the node, run field diagnostics, have the GPU replaced (RMA)."),
    "procedure":       (Verdict.DEGRADED, _XID, "Follow NVIDIA's procedure (docs.nvidia.com/deploy/xid-errors)."),
    "vendor":          (Verdict.DEGRADED, _XID, "Keep a bug report (nvidia-bug-report.sh) and ask the vendor."),
    "page":            (Verdict.FAILED,   _NOW, "Drain the node, then read the kernel log."),
    "inspect":         (Verdict.DEGRADED, _XID, "Read the kernel log; run field diagnostics."),
}  # fmt: skip
"""Verdict, runbook and action of a fault, by the repair that it needs. Alerts and runbooks use the same words."""


def format_age(seconds: float) -> str:
    """Return an age as people write it: 40 s, 6 min, 5 h, 3 d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def faults_of_kind(kind: FaultKind) -> Find:
    """Faults of this kind, which stand until a repair is proven or somebody acknowledges them."""

    def find(facts: Facts, _limits: Limits) -> Iterable[Cause]:
        for series in facts.of("gpu_fault_timestamp_seconds", fault=kind.value):
            uuid, evidence = series.labels.get("uuid", ""), series.labels["evidence"]
            others = (up.labels.get("uuid") for up in facts.of("gpu_up", gpu=series.gpu) if up.value)
            if uuid and any(other != uuid for other in others):
                evidence = f"{evidence}; it was {uuid}"  # another GPU has its index now
            verdict, page, repair = REPAIRS.get(series.labels["action"], REPAIRS["inspect"])
            ago = format_age(facts.time - UnixTime(series.value))
            yield (
                series.gpu,
                {
                    "uuid": uuid,
                    "verdict": verdict,
                    "evidence": evidence,
                    "repair": repair,
                    "page": page,
                    "short": f"lost ({evidence})" if evidence.startswith(XID_EVIDENCE) else "lost",
                    "since": f"{ago} ago, not repaired since",
                },
            )

    return find


def find_unreachable(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """GPUs that are unreachable, before that is a fault. Without a driver all are: one finding, of the node."""
    if facts.of("gpu_exporter_driver_error"):
        return
    faults = (*(s for kind in ("lost", "gpu_slow") for s in facts.of("gpu_fault_timestamp_seconds", fault=kind)),)
    known = {s.labels.get("uuid") for s in (*faults, *facts.of("gpu_fault_acknowledged", fault="lost"))}
    for series in facts.of("gpu_up"):
        uuid = series.labels.get("uuid", "")
        if series.value == 0 and uuid not in known:
            yield series.gpu, {"uuid": uuid}


def find_slowed(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """HW slowdown without heat or the power brake as its reason: chassis or power supply ask for it."""
    for series in facts.of("gpu_throttle_active", reason="hw_slowdown"):
        uuid = series.labels.get("uuid", "")
        named = [facts.value("gpu_throttle_active", uuid=uuid, reason=why) for why in ("hw_thermal", "hw_power_brake")]
        if series.value and not any(named):
            yield series.gpu, {"uuid": uuid}


def find_hot(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Find hot GPUs by the margin where the driver reports it, else by the slowdown temperature."""
    celsius = {series.labels["uuid"]: series for series in facts.of("gpu_temperature_celsius", sensor="gpu")}
    margins = {series.labels["uuid"]: series for series in facts.of("gpu_temperature_margin_celsius")}
    for uuid, series in {**celsius, **margins}.items():
        margin: float | None = series.value
        if uuid not in margins:
            slowdown = facts.value("gpu_temperature_threshold_celsius", uuid=uuid, threshold="slowdown")
            margin = None if slowdown is None else slowdown - series.value
        if margin is not None and margin < limits.margin:
            at = f"{celsius[uuid].value:g}" if uuid in celsius else "an unknown number of"
            yield series.gpu, {"margin": f"{margin:g}", "celsius": at, "limit": f"{limits.margin:g}"}


def fan_stands(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Cards stop their fans when cool, so a fan that stands counts only on a warm GPU."""
    for series in facts.of("gpu_temperature_celsius", sensor="gpu"):
        if series.value > limits.hot:
            uuid = series.labels["uuid"]
            shown = (*facts.of("gpu_fan_speed_ratio", uuid=uuid), *facts.of("gpu_fan_speed_rpm", uuid=uuid))
            speeds = {fan.labels["fan"]: fan.value for fan in shown}  # of one with both, how it turns
            for name, speed in speeds.items():
                if speed == 0:
                    yield series.gpu, {"fan": name, "celsius": f"{series.value:g}"}


_SXID_SECONDS = 3600.0
"""Seconds an SXID counts for that is not fatal."""


def find_sxids(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """SXIDs that are not fatal, each switch and code once. Fatal ones are faults."""
    latest: dict[tuple[str, str], float] = {}
    for series in facts.of("gpu_nvswitch_sxid_last_timestamp_seconds", **{"class": "non_fatal"}):
        key = (series.labels["switch"], series.labels["sxid"])
        latest[key] = max(series.value, latest.get(key, 0.0))
    for (switch, sxid), last in latest.items():
        ago = facts.time - UnixTime(last)
        if ago <= _SXID_SECONDS:
            yield "", {"switch": switch, "sxid": sxid, "minutes": f"{max(0.0, ago) / 60:.0f}"}


_PORT_TROUBLES = {"down": "down", "slow": "slower than it or its like were", "errors": "counting errors"}


def find_degraded_ports(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """InfiniBand and RoCE ports in trouble, reported of the GPU they are nearest to; of several, of the node."""
    for series in facts.of("gpu_rdma_port_degraded"):
        if series.value:
            device, port = series.labels["device"], series.labels["port"]
            near = {s.gpu for s in facts.of("gpu_rdma_port_nearest_gpu_info", device=device, port=port)}
            what = _PORT_TROUBLES.get(series.labels["reason"], series.labels["reason"])
            yield (near.pop() if len(near) == 1 else ""), {"port": f"{device}/{port}", "what": what}


def find_split_cliques(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """GPUs of one node that reach each other over NVLink are in one clique of one cluster."""
    found = {s.gpu: (s.labels["cluster_uuid"], s.labels["clique_id"]) for s in facts.of("gpu_fabric_info")}
    places = {gpu: place for gpu, place in found.items() if place[0]}
    if not places:
        return
    usual, _ = Counter(places.values()).most_common(1)[0]
    for gpu, place in places.items():
        if place != usual:
            yield gpu, {"clique": place[1], "most": usual[1]}


def collector_failed(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """Find failed collectors, but not while the driver or a GPU is unreachable: they follow from that."""
    if facts.of("gpu_exporter_driver_error") or any(series.value == 0 for series in facts.of("gpu_up")):
        return
    for series in facts.of("gpu_scrape_collector_success"):
        if series.value == 0:
            yield "", {"collector": series.labels["collector"]}


_GIB = 2**30
_LEAKED = 1 * _GIB
"""Bytes that no process accounts for; the same as the alert's."""
_BRIEF = 3
"""Processes that are named."""
_MEMORY = "gpu_process_memory_bytes"
_OF_PROCESSES = (_MEMORY, "gpu_process_utilization_ratio", "gpu_process_start_time_seconds")
"""Series that show that a process is there: the driver does not always know its memory, nor the host the process."""
_REPEATED = ("replay", "recovery", "link_recovery")


def _emptied_gpus(facts: Facts, limits: Limits) -> frozenset[str] | None:
    """Indices of the GPUs that must be empty; None: all."""
    if limits.emptied is None:
        return None
    shown = (series for family in _OF_PROCESSES for series in facts.of(family))
    shared = {series.gpu for series in shown if series.labels.get("slurm_job", "") not in ("", limits.job)}
    split = any(True for _ in facts.of("gpu_mig_info"))  # Slurm counts instances then, in an order of its own
    wanted = {name for name in limits.emptied if name.driver_index is None or not split}
    return frozenset(
        series.gpu for series in facts.of("gpu_info") if series.gpu not in shared and wanted & _device_names(series)
    )


def _device_names(series: Series) -> frozenset[DeviceName]:
    found = {DeviceName(uuid=series.labels.get("uuid", ""))}
    minor = series.labels.get("minor_number") or series.gpu
    found |= {DeviceName(minor=int(minor))} if minor.isdecimal() else set()
    found |= {DeviceName(driver_index=int(series.gpu))} if series.gpu.isdecimal() else set()
    return frozenset(found)


def find_leftover(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Processes on GPUs that should be empty. Services of the site may stay."""
    wanted, by_gpu = _emptied_gpus(facts, limits), dict[str, dict[str, tuple[str, float | None]]]()
    for family in _OF_PROCESSES:
        for series in facts.of(family):
            command = series.labels.get("command", "")
            if (wanted is None or series.gpu in wanted) and not (command and command.startswith(limits.allowed)):
                memory = series.value if family == _MEMORY else None
                by_gpu.setdefault(series.gpu, {}).setdefault(series.labels["pid"], (command, memory))
    for gpu, processes in by_gpu.items():
        ranked = sorted(processes.items(), key=lambda each: -(each[1][1] or 0.0))
        named = ", ".join(f"{pid} ({command})" if command else pid for pid, (command, _) in ranked[:_BRIEF])
        more = f" and {len(ranked) - _BRIEF} more" if len(ranked) > _BRIEF else ""
        known = [memory for _, memory in processes.values() if memory is not None]
        size = f"{sum(known) / _GIB:.1f}" if known else "an unknown number of"
        yield gpu, {"processes": named + more, "size": size, "count": len(ranked)}


def find_leaked(facts: Facts, limits: Limits) -> Iterable[Cause]:
    wanted = _emptied_gpus(facts, limits)
    for series in facts.of("gpu_memory_unattributed_bytes"):
        if series.value > _LEAKED and (wanted is None or series.gpu in wanted):
            yield series.gpu, {"size": f"{series.value / _GIB:.1f}"}


def nvlink_errors(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Transfers that had to be repeated and links that had to be trained again, since the driver was loaded."""
    counts: dict[tuple[str, str], float] = {}
    for series in facts.of("gpu_nvlink_volatile_errors"):
        if series.labels.get("type") in _REPEATED:
            key = series.gpu, series.labels.get("uuid", "")
            counts[key] = counts.get(key, 0.0) + series.value
    for (gpu, uuid), count in counts.items():
        if count > limits.link_errors:
            yield gpu, {"uuid": uuid, "count": f"{count:g}"}
