"""Cases of owners and what their GPUs did: what the GPUs answer and the node says, cycle by cycle."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from exporter.accounting.writer import NodeAccounting
from exporter.attribution.background_source import BackgroundSource
from exporter.attribution.kubernetes.api_server import NodeObject
from exporter.attribution.owner import Ownership, SourceHealth, WorkloadInfo
from exporter.attribution.work_class import ClassRule
from exporter.core.clock import UnixTime
from exporter.driver.interface import Record
from exporter.faults.watch import FaultWatchConfig
from exporter.host.model import HostSignals, HostUsage
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.parts import JOB, NVLINK_FIELDS, POD, energy, process, runs
from tests.contract.cycles.rig import BEGIN, Rig, gpu
from tests.unit.collectors.answers import ALL_LINKS, FakeInstance, by_argument


def two_owners_of_two_gpus() -> Rig:
    """A job with a GPU of its own and half of another, whose other half is a pod's; and a program nobody knows."""
    info = {
        JOB: WorkloadInfo(job_name="train", qos="high", start_time=UnixTime(BEGIN - 600.0), nodes=2, restarts=1),
        POD: WorkloadInfo(pod_uid="u-1", image="torch:2", owner_kind="Job", pod_labels=(("app", "llm"),)),
    }
    health = (
        SourceHealth("kubelet", success=True, age=2.0, unresolved={"unknown_id": 2}),
        SourceHealth("slurm", success=False, age=9.0, conflicts=1, stale=3, reason="timeout"),
    )
    used = HostUsage(50.0, 8.0, 1 << 30, 2 << 30, 1000, 2000, {"receive": 5}, (8000,), {"io": 3.0}, {"io": 2.0})
    node = ScriptedNode(
        hosts={10: process(10, arguments="python3 train.py"), 11: process(11), 12: process(12, command="server")},
        owned=Ownership(
            processes={10: JOB, 11: JOB, 12: POD},
            holders={"GPU-0": (JOB,), "GPU-1": (JOB, POD)},
            weights={("GPU-1", JOB): 0.25, ("GPU-1", POD): 0.75},
            info=info,
            health=health,
            unallocated={"GPU-1": frozenset((POD,))},
        ),
        used={JOB: used},
        signals={JOB: HostSignals(cpu_of_limit=0.5, hottest_thread=0.9), POD: HostSignals(io_pressure=0.7)},
        known_signals=frozenset({"cpu_of_limit", "hottest_thread", "io_pressure"}),
        skipped=5,
        pci=3,
    )
    first = gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=energy(100, 400, 700, 700, 1000))
    second = gpu(1, ComputeRunningProcesses=runs(11, 12, 13, memory=200), TotalEnergyConsumption=energy(50, 250, 450))
    rules = (ClassRule("account", "physics", "batch"),)
    rig = Rig([first, second], node, class_rules=rules, pod_labels=("app",))
    rig.cycles(4)
    return rig


def owners_that_are_accounted() -> Rig:
    """The same two owners, by account, user and namespace; the program nobody knows has the pool of the node alone."""
    before = two_owners_of_two_gpus()
    accounting = NodeAccounting(None, memory_id="gpu01", unix=lambda: UnixTime(BEGIN))
    labelled = BackgroundSource(lambda: NodeObject(pool="spot"), NodeObject(), name="node", interval=lambda _: 60.0)
    labelled.ask_once()
    site = FaultWatchConfig(kubernetes=labelled)
    rig = Rig(before.gpus, before.node, pod_labels=("app",), accounting=accounting, site=site)
    rig.cycles(12)
    return rig


def more_processes_than_are_shown() -> Rig:
    pids = range(20, 26)
    node = ScriptedNode(hosts={pid: process(pid) for pid in pids}, owned=Ownership(dict.fromkeys(pids, JOB)))
    rig = Rig([gpu(0, ComputeRunningProcesses=runs(*pids, memory=100))], node, process_limit=4)
    rig.cycles(2)
    return rig


def job_that_starts() -> Rig:
    """It holds its GPU for two seconds before its first kernel."""
    node = ScriptedNode()
    device = gpu(0, ComputeRunningProcesses=(), UtilizationRates=Record(gpu=0, memory=0))
    device.answers["nvmlGpmMetricsGet"] = dict.fromkeys((1, 2, 3, 5, 10, 12, 13), 0.0)
    rig = Rig([device], node)
    rig.cycles(2)
    info = WorkloadInfo(start_time=UnixTime(BEGIN + 1.0))
    node.owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: info})
    rig.cycles(2)
    device.answers["nvmlDeviceGetUtilizationRates"] = Record(gpu=90, memory=20)
    device.answers["nvmlGpmMetricsGet"] = {1: 90.0, 2: 80.0, 3: 40.0, 5: 50.0, 10: 30.0, 12: 10.0, 13: 5.0}
    rig.cycles(2)
    return rig


def job_that_ends() -> Rig:
    """Its totals stay for a while, what it holds is nothing."""
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo(job_name="train")})
    used = {JOB: HostUsage(cpu_seconds=50.0, cpu_limit_cores=8.0, resident_bytes=1 << 30)}
    node = ScriptedNode(hosts={10: process(10)}, owned=owned, used=used)
    device = gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=energy(100, 400, 700, 1000))
    rig = Rig([device], node)
    rig.cycles(3)
    node.owned, node.hosts, node.used = Ownership(), {}, {}
    device.answers["nvmlDeviceGetComputeRunningProcesses"] = ()
    rig.cycles(3)
    return rig


def job_that_is_forgotten() -> Rig:
    rig = job_that_ends()
    rig.cycles(12)
    return rig


def energy_counter_that_was_reset() -> Rig:
    node = ScriptedNode(hosts={10: process(10)}, owned=Ownership({10: JOB}, {"GPU-0": (JOB,)}))
    counter = energy(10_000, 10_300, 100, 400, 700, 1000)
    rig = Rig([gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=counter)], node)
    rig.cycles(6)
    return rig


def instances() -> Rig:
    """Three MIG instances: of a pod, of a job that waits for memory, and one that is free."""
    parts = [FakeInstance({"nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb"}, uuid=f"MIG-{each}") for each in range(3)]
    parts[1].answers["nvmlGpmMetricsGet"] = {1: 95.0, 2: 80.0, 3: 40.0, 5: 2.0, 10: 85.0, 12: 3.0, 13: 0.0}
    parts[0].answers |= {
        "nvmlGpmMetricsGet": {1: 80.0, 2: 60.0, 3: 30.0, 5: 40.0, 10: 20.0, 12: 5.0, 13: 0.0},
        "nvmlDeviceGetMemoryInfo": Record(total=200, reserved=20, free=100, used=80),
    }
    device = gpu(0, MigMode=(1, 1))
    device.answers["nvmlDeviceGetComputeRunningProcesses"] = (
        Record(pid=12, usedGpuMemory=70, gpuInstanceId=1, computeInstanceId=0),
        Record(pid=10, usedGpuMemory=60, gpuInstanceId=2, computeInstanceId=0),
    )
    device.instances = tuple(parts)
    for index, part in enumerate(parts):
        part.index, part.parent_uuid = 0, "GPU-0"
        part.mig = replace(part.mig, gpu_instance=1 + index)
    owned = Ownership({12: POD, 10: JOB}, {"MIG-0": (POD,), "MIG-1": (JOB,)})
    rig = Rig([device], ScriptedNode(hosts={12: process(12), 10: process(10)}, owned=owned))
    rig.cycles(3)
    return rig


def too_hot() -> Rig:
    """Half of each cycle too hot, at half of the clock: busy time that was throttled."""
    at, slow = count(), by_argument(990, 990, 3201, 1545)

    def violations(*_: object) -> Record:
        return Record(referenceTime=1, violationTime=(next(at) + 1) * 500_000_000)

    node = ScriptedNode(hosts={10: process(10)}, owned=Ownership({10: JOB}, {"GPU-0": (JOB,)}))
    device = gpu(
        0, ComputeRunningProcesses=runs(10), ClockInfo=slow, CurrentClocksEventReasons=0x20, ViolationStatus=violations
    )
    rig = Rig([device], node)
    rig.cycles(6)
    return rig


def busy_in_five_ways() -> Rig:
    """Kernels that wait for memory, that are small, that use no tensor cores, that move data by NVLink, and by PCIe."""
    little = {1: 95.0, 2: 20.0, 3: 10.0, 5: 0.0, 10: 20.0, 12: 1.0, 13: 0.0, 20: 0.0, 21: 0.0}
    ways = (
        {1: 95.0, 2: 80.0, 3: 40.0, 5: 2.0, 10: 85.0, 12: 3.0, 13: 0.0},
        {1: 90.0, 2: 10.0, 3: 5.0, 5: 1.0, 10: 5.0, 12: 2.0, 13: 0.0},
        {1: 95.0, 2: 90.0, 3: 60.0, 5: 0.0, 10: 20.0, 12: 55.0, 13: 0.0},
        little,
        {**little, 20: 20_000.0, 21: 20_000.0},  # MiB/s
    )
    gpus = [gpu(at, ComputeRunningProcesses=runs(10 + at), PowerUsage=300_000) for at in range(len(ways))]
    for device, ratios in zip(gpus, ways, strict=True):
        device.answers["nvmlGpmMetricsGet"] = ratios
    gpus[4].fields = {key: value for key, value in gpus[4].fields.items() if key[0] not in NVLINK_FIELDS}
    owned = Ownership({10 + at: JOB for at in range(5)}, {f"GPU-{at}": (JOB,) for at in range(5)})
    rig = Rig(gpus, ScriptedNode(hosts={10 + at: process(10 + at) for at in range(5)}, owned=owned))
    for _ in range(4):
        rig.cycles()
        for field in (138, 139):
            gpus[3].fields[field, ALL_LINKS] += 300 << 20  # KiB
    return rig
