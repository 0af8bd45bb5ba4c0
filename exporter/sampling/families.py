"""Every metric family there is, by the part that fills it: what reference, dashboards and rules are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporter.attribution.families import SHARE_FAMILIES, workload_families
from exporter.attribution.process_families import PROCESS_FAMILIES
from exporter.collectors import COLLECTORS
from exporter.collectors.sxid import SXID_FAMILIES
from exporter.collectors.xid import XID_FAMILIES
from exporter.core.families import AnyFamily
from exporter.faults.families import FAULT_FAMILIES
from exporter.host.network_port_families import NETWORK_PORT_FAMILIES
from exporter.ledger.families import FAMILIES as LEDGER_FAMILIES
from exporter.progress.families import PROGRESS_FAMILIES
from exporter.sampling.exporter_families import NODE_FAMILIES
from exporter.sampling.usage.nccl_status import NCCL_FAMILIES


@dataclass(frozen=True, slots=True)
class Group:
    """The families of one part, with a sentence on how often they are read and what that costs."""

    name: str
    help: str
    families: tuple[AnyFamily, ...]
    source: str = ""
    """What they are made from; empty for collectors, of which each family has driver calls of its own."""


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
            "Faults that stand until they are mended, and the GPUs there should be; looked at every 5 s.",
            FAULT_FAMILIES,
            "the readings of the GPUs, XIDs, gres.conf, the state file",
        ),
        Group("ledger", "Where each GPU second went, settled every pass.", tuple(LEDGER_FAMILIES), "the ledger"),
        Group("owners", "Who holds each GPU, joined every pass.", tuple(SHARE_FAMILIES), _OWNERS),
        Group(
            "workloads",
            "What each owner uses of GPUs and host, every pass.",
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
            "Processes on the GPUs, joined with their owners every pass.",
            tuple(PROCESS_FAMILIES),
            "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses, "
            "nvmlDeviceGetProcessUtilization, /proc/PID",
        ),
        Group(
            "nccl",
            "What NCCL says of workloads that seem to hang; only with --nccl.ras, and absent while none does.",
            NCCL_FAMILIES,
            "NCCL's RAS client (ncclras)",
        ),
        Group(
            "rdma",
            "InfiniBand and RoCE ports of the node, read every 10 s from sysfs; absent without.",
            NETWORK_PORT_FAMILIES,
            "/sys/class/infiniband",
        ),
        Group("node", "The node and the exporter itself; always there.", tuple(NODE_FAMILIES), "the exporter"),
    )


def families(pod_labels: Sequence[str] = ()) -> tuple[AnyFamily, ...]:
    return tuple(family for group in groups(pod_labels) for family in group.families)
