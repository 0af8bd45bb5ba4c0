"""Every metric family there is, by the part that fills it: what reference, dashboards and rules are checked against."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from exporter import __version__
from exporter.accounting.families import ACCOUNTING_FAMILIES
from exporter.attribution.families import OWNER_FAMILIES, PROCESS_FAMILIES, workload_families
from exporter.collectors import COLLECTORS
from exporter.collectors.sxid import SXID_FAMILIES
from exporter.collectors.xid import XID_FAMILIES
from exporter.core.families import (
    DEVICE,
    NODE,
    AnyFamily,
    Columns,
    Sample,
    Shown,
    Unit,
    by,
    counter,
    counters,
    gauge,
    gauges,
    in_columns,
    info,
)
from exporter.faults.families import FAULT_FAMILIES, FINDINGS
from exporter.host.network_ports import NETWORK_PORT_FAMILIES
from exporter.ledger.families import FAMILIES as LEDGER_FAMILIES
from exporter.progress.families import PROGRESS_FAMILIES
from exporter.sampling.snapshot import GpuStatus, NodeStatus
from exporter.sampling.usage.nccl_status import NCCL_FAMILIES

DRIVER_LABELS = ("driver", "nvml", "cuda")


def _per_gpu(value: Callable[[GpuStatus], float | None]) -> Callable[[NodeStatus], Iterable[Sample]]:
    def samples(status: NodeStatus) -> Columns:
        numbers = [(value(gpu), (str(gpu.index), gpu.uuid)) for gpu in status.gpus]
        return in_columns([(number, labels) for number, labels in numbers if number is not None])

    return samples


# fmt: off
NODE_FAMILIES: tuple[AnyFamily, ...] = (
    gauges("gpu_up", "Whether the GPU is reachable; 0 when its driver reports it lost, or gives no reading for `--sample.stale`; absent while no thread of the exporter can read it.", Unit.NONE, _per_gpu(lambda g: g.up), DEVICE, NODE),
    gauges("gpu_memory_unattributed_bytes", "Memory in use on an idle GPU without a process and without an allocation: leaked. Absent where that is not known.", Unit.BYTES, _per_gpu(lambda g: g.unattributed_bytes), DEVICE, NODE),
    gauges("gpu_memory_shared_with_system", "1 where GPU and system have one memory (GB10): used is then the sum of the processes on the GPU, total that of the system; absent otherwise.", Unit.NONE, _per_gpu(lambda g: g.memory_shared or None), DEVICE, NODE),
    gauges("gpu_utilization_stuck", "1 while a GPU reports full use in an idle performance state, without a process or an allocation; absent otherwise.", Unit.NONE, _per_gpu(lambda g: g.stuck or None), DEVICE, NODE),
    gauges("gpu_devices", "GPUs of this node that the driver gives a handle for, that it counts (enumerated), and that the PCI bus shows; fewer by driver is a lost GPU.", Unit.NONE, by(lambda s: (("driver", s.driver_gpus), ("enumerated", s.enumerated_gpus), ("pci", s.pci_gpus))), ("source",), NODE),
    info("gpu_driver_info", "Versions of the driver, of NVML and of CUDA.", lambda s: (Sample(1, (s.driver, s.nvml, s.cuda)),) if s.driver else (), DRIVER_LABELS, NODE),
    info("gpu_exporter_build_info", "Version of this exporter and of its Python.", lambda _: (Sample(1, (__version__, sys.version.split()[0])),), ("version", "python"), NODE),
    gauge("gpu_exporter_simulated", "1 when the GPUs are simulated, or replayed from a capture.", Unit.NONE, lambda s: s.simulated, NODE),
    gauges("gpu_exporter_driver_error", "1 while the driver is not available, with NVML's code for the reason; absent while it is.", Unit.NONE, by(lambda s: ((s.driver_error, 1.0),) if s.driver_error else ()), ("error",), NODE),
    gauges("gpu_scrape_collector_success", "Whether the collector's last read succeeded on every GPU, with every value it had before.", Unit.NONE, by(lambda s: ((c.name, c.success) for c in s.collectors)), ("collector",), NODE),
    gauges("gpu_scrape_collector_duration_seconds", "Time the collector's last read took, over all GPUs.", Unit.SECONDS, by(lambda s: ((c.name, c.seconds) for c in s.collectors)), ("collector",), NODE),
    counters("gpu_exporter_readings_rejected_total", "Values from the driver that cannot be true (out of range, or a counter that leapt or fell back for a moment) and were left out.", Unit.NONE, by(lambda s: ((c.name, c.rejected) for c in s.collectors)), ("collector",), NODE, shown=Shown.NONZERO),
    gauge("gpu_exporter_last_sample_timestamp_seconds", "Unix time of the sampling cycle these metrics come from.", Unit.SECONDS, lambda s: float(s.time) or None, NODE),
    gauge("gpu_exporter_sample_interval_seconds", "Time between two sampling cycles, as configured.", Unit.SECONDS, lambda s: s.interval, NODE),
    gauge("gpu_exporter_sampling_cycle_duration_seconds", "Time the last sampling cycle took, waiting for the GPUs included.", Unit.SECONDS, lambda s: s.cycle_seconds, NODE),
    counter("gpu_exporter_sampling_cycles_total", "Sampling cycles ended since the start.", Unit.NONE, lambda s: s.cycles, NODE),
    counter("gpu_exporter_driver_calls_total", "Calls made to the driver library since the start.", Unit.NONE, lambda s: s.driver_calls, NODE),
    gauges("gpu_exporter_device_sample_age_seconds", "Time since the GPU last answered.", Unit.SECONDS, _per_gpu(lambda g: g.age if g.age != float("inf") else None), DEVICE, NODE),
    gauges("gpu_exporter_attribution_success", "Whether the attribution source answered last time it was asked.", Unit.NONE, by(lambda s: ((h.source, h.success) for h in s.sources)), ("source",), NODE),
    gauges("gpu_exporter_attribution_error", "1 while the attribution source fails, with the reason: missing (no such socket or file), refused (no permission), timeout, unreachable (no connection, or it broke off), bad_answer; absent while it succeeds.", Unit.NONE, lambda s: (Sample(1, (h.source, h.reason)) for h in s.sources if h.reason), ("source", "reason"), NODE),
    gauges("gpu_exporter_attribution_age_seconds", "Age of the source's last good response.", Unit.SECONDS, by(lambda s: ((h.source, h.age if h.age != float("inf") else None) for h in s.sources)), ("source",), NODE),
    gauges("gpu_exporter_attribution_conflicts", "Processes or GPUs for which this source contradicts one of higher trust, or running processes contradict it.", Unit.NONE, by(lambda s: ((h.source, h.conflicts) for h in s.sources)), ("source",), NODE),
    gauges("gpu_exporter_attribution_unresolved_devices", "Devices that this source reports as allocated and that were not found among this node's GPUs, by reason: an id of an unknown kind, a MIG instance named by its place alone (DRA), a device that the driver does not show.", Unit.NONE, lambda s: (Sample(count, (h.source, reason)) for h in s.sources for reason, count in h.unresolved.items()), ("source", "reason"), NODE),
    gauges("gpu_exporter_attribution_ended_jobs", "Ended jobs with a stale prolog file or cgroup on this node; nothing is allocated to them.", Unit.NONE, by(lambda s: ((h.source, h.stale) for h in s.sources)), ("source",), NODE),
    gauges("gpu_exporter_xid_source_up", "Whether XIDs are heard of from this source: the driver's events (nvml) and the kernel log (kmsg).", Unit.NONE, by(lambda s: s.xid_sources.items()), ("source",), NODE),
    gauges("gpu_exporter_thread_up", "Whether the thread runs; 0 while one that failed waits to be run again.", Unit.NONE, by(lambda s: ((name, t.down_since is None) for name, t in s.process.threads.items())), ("thread",), NODE),
    counters("gpu_exporter_thread_failures_total", "Times the thread failed, or could not be started.", Unit.NONE, by(lambda s: ((name, t.failures) for name, t in s.process.threads.items())), ("thread",), NODE),
    gauge("gpu_exporter_web_config_reload_success", "Whether the web configuration file and its certificates are in force as they are now; absent without a file.", Unit.NONE, lambda s: s.process.web_reload_success, NODE),
    gauge("gpu_exporter_web_certificate_expiry_timestamp_seconds", "Unix time at which the server's certificate ends; absent without TLS.", Unit.SECONDS, lambda s: s.process.certificate_expiry, NODE),
    gauge("gpu_exporter_unattributed_processes", "GPU processes whose owner is not known.", Unit.NONE, lambda s: s.unattributed_processes, NODE),
    counters("gpu_exporter_series_dropped_total", "Process rows folded into pid 'other', and threads beyond the budget for watching, summed over sampling cycles.", Unit.NONE, by(lambda s: s.dropped.items()), ("reason",), NODE),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Group:
    """The families of one part, with a sentence on how often they are read and what that costs."""

    name: str
    help: str
    families: tuple[AnyFamily, ...]
    source: str = ""
    """Source of the series; empty for collectors, of which each family has driver calls of its own."""


_OWNERS = "cgroups, kubelet, API server, slurmctld, the prolog's files"


def groups(pod_labels: Sequence[str] = ()) -> tuple[Group, ...]:
    """All groups, in the order of exposition. `pod_labels` are those gpu_workload_info carries by option."""
    devices = (Group(c.name, c.help, tuple(c.families)) for c in COLLECTORS if c.families)
    return (
        *devices,
        Group(
            "xid",
            "XIDs as the driver and the kernel log report them, and SXIDs of NVSwitches from the kernel log.",
            (*XID_FAMILIES, *SXID_FAMILIES),
            "nvmlEventSetWait_v2, /dev/kmsg",
        ),
        Group(
            "faults",
            "Faults, each until it is fixed, and the GPUs there should be. Read every 5 s.",
            (*FAULT_FAMILIES, FINDINGS),
            "the readings of the GPUs, XIDs, gres.conf, the state file",
        ),
        Group("ledger", "Where each GPU second went, settled every cycle.", tuple(LEDGER_FAMILIES), "the ledger"),
        Group(
            "accounting",
            "What each owner got in all, exact over restarts. Written to `--state.dir`.",
            ACCOUNTING_FAMILIES,
            "the ledger, the sources of owners",
        ),
        Group("owners", "Owners of each GPU, joined every cycle.", tuple(OWNER_FAMILIES), _OWNERS),
        Group(
            "workloads",
            "What each owner uses of GPUs and host, every cycle.",
            tuple(workload_families(pod_labels)),
            f"{_OWNERS}; cgroup files, /proc/PID",
        ),
        Group(
            "progress",
            "What programs report of themselves, every 5 s.",
            tuple(PROGRESS_FAMILIES),
            "reports of programs",
        ),
        Group(
            "processes",
            "Processes on the GPUs, joined with their owners every cycle.",
            tuple(PROCESS_FAMILIES),
            "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses, "
            "nvmlDeviceGetProcessUtilization, /proc/PID",
        ),
        Group(
            "nccl",
            "NCCL's own verdict on workloads that seem to hang. Only with --nccl.ras, and absent while none does.",
            NCCL_FAMILIES,
            "NCCL's RAS client (ncclras)",
        ),
        Group(
            "rdma",
            "InfiniBand and RoCE ports of the node, read every 10 s from sysfs. Absent without.",
            NETWORK_PORT_FAMILIES,
            "/sys/class/infiniband",
        ),
        Group("node", "The node and the exporter itself. Always there.", tuple(NODE_FAMILIES), "the exporter"),
    )


def families(pod_labels: Sequence[str] = ()) -> tuple[AnyFamily, ...]:
    return tuple(family for group in groups(pod_labels) for family in group.families)
