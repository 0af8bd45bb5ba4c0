"""The cases: what the GPUs answer and the node says, pass by pass, and which families are looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from exporter.attribution.ownership import Ownership, SourceHealth, WorkloadInfo
from exporter.attribution.work_class import ClassRule
from exporter.clock import UnixTime
from exporter.driver.interface import DeviceLostError, DriverError, Record, UnsupportedError, XidEvent
from exporter.exposition.snapshot import ProcessHealth
from exporter.host.model import HostSignals, HostUsage
from exporter.host.nccl_ras import Rank as NcclRank
from exporter.host.rdma import Port
from exporter.node.nccl_status import NcclStatus
from exporter.node.network_ports import GpuSeat, NetworkPorts, PortStatus
from exporter.progress.progress import Progress, Reported, StepTimes
from exporter.sampling.aged import aged
from exporter.threads.runner import ThreadState
from tests.contract.passes.node import ScriptedNode
from tests.contract.passes.parts import JOB, NVLINK_FIELDS, POD, energy, process, runs
from tests.contract.passes.rig import BEGIN, Rig, gpu, status_lines
from tests.unit.collectors.answers import ALL_LINKS, FakeInstance, by_argument


class Case(NamedTuple):
    name: str
    play: Callable[[], Rig]
    families: tuple[str, ...]

    def run(self) -> str:
        rig = self.play()
        try:
            lines = "".join(f"{line}\n" for line in status_lines(rig.snapshot.status))
            return f"{rig.text(*self.families)}\n{lines}"
        finally:
            rig.stop()


def idle_node() -> Rig:
    idle = {"ComputeRunningProcesses": (), "UtilizationRates": Record(gpu=0, memory=0)}
    rig = Rig([gpu(0, **idle), gpu(1, **idle)], ScriptedNode(pci=2))
    rig.passes(3)
    return rig


def two_owners_of_two_gpus() -> Rig:
    """A job with a GPU of its own and half of another, whose other half is a pod's; and a program nobody knows."""
    info = {
        JOB: WorkloadInfo(job_name="train", qos="high", start_time=UnixTime(BEGIN - 600.0), nodes=2),
        POD: WorkloadInfo(pod_uid="u-1", image="torch:2", owner_kind="Job", pod_labels=(("app", "llm"),)),
    }
    health = (
        SourceHealth("kubelet", success=True, age=2.0),
        SourceHealth("slurm", success=False, age=9.0, conflicts=1),
    )
    node = ScriptedNode(
        hosts={10: process(10, arguments="python3 train.py"), 11: process(11), 12: process(12, command="server")},
        owned=Ownership(
            processes={10: JOB, 11: JOB, 12: POD},
            holders={"GPU-0": (JOB,), "GPU-1": (JOB, POD)},
            weights={("GPU-1", JOB): 0.25, ("GPU-1", POD): 0.75},
            info=info,
            health=health,
        ),
        used={JOB: HostUsage(cpu_seconds=50.0, resident_bytes=1 << 30, pressure_seconds={"io": 3.0})},
        signals={JOB: HostSignals(cpu_of_limit=0.5, hottest_thread=0.9), POD: HostSignals(io_pressure=0.7)},
        known_signals=frozenset({"cpu_of_limit", "hottest_thread", "io_pressure"}),
        skipped=5,
        pci=3,
    )
    first = gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=energy(100, 400, 700, 700, 1000))
    second = gpu(1, ComputeRunningProcesses=runs(11, 12, 13, memory=200), TotalEnergyConsumption=energy(50, 250, 450))
    rules = (ClassRule("account", "physics", "batch"),)
    rig = Rig([first, second], node, class_rules=rules, pod_labels=("app",))
    rig.passes(4)
    return rig


def more_processes_than_are_shown() -> Rig:
    pids = range(20, 26)
    node = ScriptedNode(hosts={pid: process(pid) for pid in pids}, owned=Ownership(dict.fromkeys(pids, JOB)))
    rig = Rig([gpu(0, ComputeRunningProcesses=runs(*pids, memory=100))], node, process_limit=4)
    rig.passes(2)
    return rig


def job_that_ends() -> Rig:
    """Its totals stay for a while, what it holds is nothing."""
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo(job_name="train")})
    used = {JOB: HostUsage(cpu_seconds=50.0, cpu_limit_cores=8.0, resident_bytes=1 << 30)}
    node = ScriptedNode(hosts={10: process(10)}, owned=owned, used=used)
    device = gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=energy(100, 400, 700, 1000))
    rig = Rig([device], node)
    rig.passes(3)
    node.owned, node.hosts, node.used = Ownership(), {}, {}
    device.answers["nvmlDeviceGetComputeRunningProcesses"] = ()
    rig.passes(3)
    return rig


def job_that_is_forgotten() -> Rig:
    rig = job_that_ends()
    rig.passes(12)
    return rig


def energy_counter_that_was_reset() -> Rig:
    node = ScriptedNode(hosts={10: process(10)}, owned=Ownership({10: JOB}, {"GPU-0": (JOB,)}))
    counter = energy(10_000, 10_300, 100, 400, 700, 1000)
    rig = Rig([gpu(0, ComputeRunningProcesses=runs(10), TotalEnergyConsumption=counter)], node)
    rig.passes(6)
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
    rig.passes(3)
    return rig


def too_hot() -> Rig:
    """Half of each pass too hot, at half of the clock: busy time that was throttled."""
    at, slow = count(), by_argument(990, 990, 3201, 1545)

    def violations(*_: object) -> Record:
        return Record(referenceTime=1, violationTime=(next(at) + 1) * 500_000_000)

    node = ScriptedNode(hosts={10: process(10)}, owned=Ownership({10: JOB}, {"GPU-0": (JOB,)}))
    device = gpu(
        0, ComputeRunningProcesses=runs(10), ClockInfo=slow, CurrentClocksEventReasons=0x20, ViolationStatus=violations
    )
    rig = Rig([device], node)
    rig.passes(6)
    return rig


def busy_in_five_ways() -> Rig:
    """Kernels that wait for memory, that are small, that use no tensor cores, that move data by NVLink, and by PCIe."""
    little = {1: 95.0, 2: 20.0, 3: 10.0, 5: 0.0, 10: 20.0, 12: 1.0, 13: 0.0}
    ways = (
        {1: 95.0, 2: 80.0, 3: 40.0, 5: 2.0, 10: 85.0, 12: 3.0, 13: 0.0},
        {1: 90.0, 2: 10.0, 3: 5.0, 5: 1.0, 10: 5.0, 12: 2.0, 13: 0.0},
        {1: 95.0, 2: 90.0, 3: 60.0, 5: 0.0, 10: 20.0, 12: 55.0, 13: 0.0},
        little,
        little,
    )
    gpus = [gpu(at, ComputeRunningProcesses=runs(10 + at), PowerUsage=300_000) for at in range(len(ways))]
    for device, ratios in zip(gpus, ways, strict=True):
        device.answers["nvmlGpmMetricsGet"] = ratios
    gpus[4].fields = {key: value for key, value in gpus[4].fields.items() if key[0] not in NVLINK_FIELDS}
    owned = Ownership({10 + at: JOB for at in range(5)}, {f"GPU-{at}": (JOB,) for at in range(5)})
    rig = Rig(gpus, ScriptedNode(hosts={10 + at: process(10 + at) for at in range(5)}, owned=owned))
    for _ in range(4):
        rig.passes()
        for field in (138, 139):
            gpus[3].fields[field, ALL_LINKS] += 300 << 20  # KiB
        for field in (197, 198):
            gpus[4].fields[field, 0] += 40_000_000_000
    return rig


def gpu_that_falls_off_the_bus() -> Rig:
    """Its counters and description stay, its levels go, it is down at once; the other one is untouched."""
    owned = Ownership({10: JOB, 11: JOB}, {"GPU-0": (JOB,), "GPU-1": (JOB,)})
    node = ScriptedNode(hosts={10: process(10), 11: process(11)}, owned=owned, pci=2)
    first = gpu(0, ComputeRunningProcesses=runs(10))
    rig = Rig([first, gpu(1, ComputeRunningProcesses=runs(11))], node)
    rig.passes(2)
    lost = DeviceLostError("GPU is lost", "GPU_IS_LOST")
    first.answers = dict.fromkeys((*first.answers, "nvmlDeviceGetFieldValues"), lost)
    rig.sampler.xids.add(XidEvent("GPU-0", 79, UnixTime(BEGIN + 2.0)), "nvml")
    rig.sampler.xids.heard("nvml", up=True)
    rig.passes(12)
    rig.gpus.pop(0)
    rig.driver.refused = ((0, "GPU_IS_LOST"),)
    rig.enumerate()
    rig.passes(2)
    return rig


def calls_that_fail() -> Rig:
    """One collector fails, one answer cannot be, one reading the GPU does not have: each costs its own series."""
    device = gpu(
        0,
        ClockInfo=DriverError("timeout", "TIMEOUT"),
        PowerUsage=4_294_967_295,
        TemperatureV=UnsupportedError("no"),
        MarginTemperature=UnsupportedError("no"),
    )
    rig = Rig([device], ScriptedNode())
    rig.passes(3)
    return rig


def what_programs_report() -> Rig:
    """Progress, NCCL, network ports, XIDs and SXIDs beside a job."""
    seat = GpuSeat(0, "GPU-0", ("pci0000:00", "0000:01:00.0"), "0")
    port = Port(
        "mlx5_0", "1", "active", "link_up", "InfiniBand", 5e10, {"receive": 10.0}, {"link_downed": 1.0}, "HDR", "ib0"
    )
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo()})
    progress = Progress({"steps": 40.0, "samples": 640.0}, {"wait_data": 3.0}, 0.4, 60.0, StepTimes(0.1, 0.2, 0.5, "3"))
    node = ScriptedNode(
        hosts={10: process(10)},
        owned=owned,
        reported=Reported({JOB: progress, POD: progress}, {"accepted": 12, "unknown_process": 1}),
        statuses={JOB: NcclStatus("rank_lags", (NcclRank(3, "node3", 77, "0", 12),))},
        ports=NetworkPorts((PortStatus(port, ((seat, "PIX"),), frozenset({"slow"})),)),
    )
    rig = Rig([gpu(0, ComputeRunningProcesses=runs(10))], node)
    boot = UnixTime(BEGIN - 5000.0)
    record = "4,1,{};-;{}\n"
    swap = "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    rig.sampler.xids.read(record.format(5_001_000_000, swap).replace(";-;", ",-;"), boot, {})
    xid = "NVRM: Xid (PCI:0000:01:00): 31, pid=10, MMU Fault"
    rig.sampler.xids.read(record.format(5_002_000_000, xid).replace(";-;", ",-;"), boot, {"0000:01:00.0": "GPU-0"})
    rig.sampler.xids.heard("kmsg", up=True)
    rig.sampler.xids.heard("nvml", up=False)
    rig.passes(2)
    node.reported = Reported({JOB: replace(progress, counters={"steps": 3.0})}, {"accepted": 13})
    rig.passes(2)
    return rig


def passes_that_stopped() -> Rig:
    """The page while no pass ends: counters stay, levels go, and nothing is up."""
    rig = two_owners_of_two_gpus()
    health = ProcessHealth({"sampler": ThreadState(4_990.0, 2)}, web_reload_success=False)
    rig.snapshot = aged(rig.snapshot, 30.0, health)
    return rig


_OWNERS = ("gpu_owner_share", "gpu_workload_.*", "gpu_process_.*", "gpu_memory_.*", "gpu_exporter_(un|diag|series).*")
_LEDGER = ("gpu(_mig)?_time_seconds_total", "gpu_workload_(gpu|used|energy).*", "gpu_energy_joules_total")
_NODE = (
    "gpu_up",
    "gpu_info",
    "gpu_devices",
    "gpu_driver_info",
    "gpu_exporter_(attr|passes|driver|simulated|readings|last|sample|device_sample|xid|thread|web).*",
)
CASES = (
    Case(
        "idle_node", idle_node, (*_NODE, "gpu_time_seconds_total", "gpu_workload_.*", "gpu_owner.*", "gpu_expected.*")
    ),
    Case("two_owners_of_two_gpus", two_owners_of_two_gpus, (*_OWNERS, *_LEDGER, "gpu_exporter_attr.*")),
    Case("more_processes_than_are_shown", more_processes_than_are_shown, ("gpu_process_.*", "gpu_exporter_series.*")),
    Case("job_that_ends", job_that_ends, (*_OWNERS, *_LEDGER)),
    Case("job_that_is_forgotten", job_that_is_forgotten, (*_OWNERS, *_LEDGER)),
    Case("energy_counter_that_was_reset", energy_counter_that_was_reset, (*_LEDGER,)),
    Case("instances", instances, ("gpu_mig_.*", "gpu_owner_share", *_LEDGER, "gpu_workload_gpus")),
    Case("busy_in_five_ways", busy_in_five_ways, ("gpu_time_seconds_total", "gpu_.*link.*", "gpu_pcie_.*")),
    Case("too_hot", too_hot, ("gpu_throttle.*", *_LEDGER)),
    Case(
        "gpu_that_falls_off_the_bus",
        gpu_that_falls_off_the_bus,
        ("gpu_.*(watts|_info|_up|_total|timestamp_.*|age_.*)", "gpu_devices"),
    ),
    Case(
        "calls_that_fail",
        calls_that_fail,
        ("gpu_(clock|power|temp|perf|pcie|energy).*", "gpu_scrape_collector_success", "gpu_exporter_readings.*"),
    ),
    Case(
        "what_programs_report",
        what_programs_report,
        (
            "gpu_workload_(?!gpu_s|energy|used).*",
            "gpu_rdma.*",
            "gpu_xid.*",
            "gpu_nvsw.*",
            "gpu_fault.*",
            "gpu_exporter_(xid|progress).*",
        ),
    ),
    Case("passes_that_stopped", passes_that_stopped, (*_OWNERS, *_LEDGER, *_NODE)),
)
