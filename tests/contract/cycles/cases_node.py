"""Cases of the node, the driver and the exporter itself."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from exporter.attribution.background_source import BackgroundSource, SourceError
from exporter.attribution.owner import Ownership, WorkloadInfo
from exporter.core.clock import UnixTime
from exporter.core.threads import ThreadState
from exporter.driver.interface import DeviceLostError, DriverError, DriverGoneError, Record, UnsupportedError, XidEvent
from exporter.faults.expected import SlurmNodeState
from exporter.faults.model import Acknowledgement
from exporter.faults.watch import NAME, FaultWatchConfig
from exporter.host.nccl_ras import Rank as NcclRank
from exporter.host.network_ports import GpuSeat, NetworkPorts, PortStatus
from exporter.host.rdma import Port
from exporter.progress.progress import Progress, Reported, StepTimes
from exporter.sampling.blocks import stale_snapshot
from exporter.sampling.snapshot import ProcessHealth
from exporter.sampling.usage.nccl_status import NcclStatus
from exporter.tools.check.acknowledge import append
from tests.contract.cycles.cases_owners import two_owners_of_two_gpus
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.parts import JOB, POD, process, runs
from tests.contract.cycles.rig import BEGIN, Rig, gpu


def idle_node() -> Rig:
    idle = {"ComputeRunningProcesses": (), "UtilizationRates": Record(gpu=0, memory=0)}
    rig = Rig([gpu(0, **idle), gpu(1, **idle)], ScriptedNode(pci=2))
    rig.cycles(3)
    return rig


def idle_gpus_that_are_not_well() -> Rig:
    """GPU 0 has 700 bytes in use that belong to no process, GPU 1 reports full use without one, GPU 2 shares memory."""
    idle = {"ComputeRunningProcesses": (), "UtilizationRates": Record(gpu=0, memory=0)}
    leaked = gpu(0, MemoryInfo=Record(total=1500, reserved=100, free=700, used=700), **idle)
    stuck = gpu(1, ComputeRunningProcesses=(), UtilizationRates=Record(gpu=100, memory=0), PerformanceState=8)
    shared = gpu(2, MemoryInfo=UnsupportedError("memory", "NOT_SUPPORTED"), ComputeRunningProcesses=runs(10))
    for device in (leaked, stuck, shared):
        device.answers["nvmlDeviceGetSamples"] = ()
    rig = Rig([leaked, stuck, shared], ScriptedNode(pci=3, hosts={10: process(10)}))
    rig.cycles(3)
    return rig


def driver_that_is_not_there() -> Rig:
    def opening() -> None:
        raise DriverGoneError("no library", "LIBRARY_NOT_FOUND")

    rig = Rig([], ScriptedNode(pci=1))
    rig.driver.open = opening  # type: ignore[method-assign]
    rig.sampler.connection.refresh(DriverGoneError("no library", "LIBRARY_NOT_FOUND"))
    rig.enumerate()
    rig.cycles(2)
    return rig


def node_with_a_past() -> Rig:
    """Out of service by a file; slurmctld does not answer; rows that cannot be replaced; the place in its rack."""
    slurm = BackgroundSource(_no_answer, SlurmNodeState(maintenance=True), name="slurm", interval=lambda _: 60.0)
    slurm.ask_once()
    site = FaultWatchConfig(
        Path("/proc/no/such/folder"), "boot-1", lambda: {"option": 4, "slurm": 2}, Path("/proc/self"), slurm
    )
    place = Record(chassisSerialNumber="C1", slotNumber=3, trayIndex=2, hostId=1, moduleId=4)
    fabric = Record(state=3, status=0, healthMask=0, clusterUuid="0123456789abcdef0123456789abcdef", cliqueId=7)
    device = gpu(0, GpuFabricInfoV=fabric)
    device.answers["nvmlDeviceGetPlatformInfo"] = place
    rig = Rig([device], ScriptedNode(), site=site)
    rig.cycles(1)
    device.answers["nvmlDeviceGetRemappedRows"] = (0, 0, 0, 1)
    rig.cycles(40)
    return rig


def acknowledged_fault() -> Rig:
    """Rows that cannot be replaced, which somebody has seen to: published, and no finding."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig([gpu(0, RemappedRows=(0, 0, 0, 1))], ScriptedNode(), site=FaultWatchConfig(Path(folder), "boot-1"))
        rig.cycles(2)
        append(Path(folder), Acknowledgement("0", "", "ada", "replaced on Monday", UnixTime(BEGIN + 2.0)))
        rig.cycles(10)
    return rig


def state_file_of_a_newer_version() -> Rig:
    """The file knows that the GPU was reset, and has a field that this version does not know."""
    known = {"index": 0, "serial": "", "bus": "", "last_reset": BEGIN - 100.0}
    content = {"version": 2, "boot": "boot-1", "devices": {"GPU-0": known}, "faults": [], "colour": "red"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NAME).write_text(json.dumps(content))
        rig = Rig([gpu(0)], ScriptedNode(), site=FaultWatchConfig(Path(folder), "boot-1"))
        rig.cycles(2)
    return rig


def _no_answer() -> SlurmNodeState | None:
    raise SourceError("slurmctld does not answer")


def gpu_that_falls_off_the_bus() -> Rig:
    """Its counters and description stay, its levels go, it is down at once; the other one is untouched."""
    owned = Ownership({10: JOB, 11: JOB}, {"GPU-0": (JOB,), "GPU-1": (JOB,)})
    node = ScriptedNode(hosts={10: process(10), 11: process(11)}, owned=owned, pci=2)
    first = gpu(0, ComputeRunningProcesses=runs(10))
    rig = Rig([first, gpu(1, ComputeRunningProcesses=runs(11))], node)
    rig.cycles(2)
    lost = DeviceLostError("GPU is lost", "GPU_IS_LOST")
    first.answers = dict.fromkeys((*first.answers, "nvmlDeviceGetFieldValues"), lost)
    rig.sampler.xids.add(XidEvent("GPU-0", 79, UnixTime(BEGIN + 2.0)), "nvml")
    rig.sampler.xids.set_source("nvml", up=True)
    rig.cycles(12)
    rig.gpus.pop(0)
    rig.driver.refused = ((0, "GPU_IS_LOST"),)
    rig.enumerate()
    rig.cycles(2)
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
    rig.cycles(3)
    return rig


def what_programs_report() -> Rig:
    """Progress, NCCL, network ports, XIDs and SXIDs beside a job."""
    seat = GpuSeat(0, "GPU-0", ("pci0000:00", "0000:01:00.0"), "0")
    port = Port("mlx5_0", "1", "active", "InfiniBand", 5e10, {"receive": 10.0}, {"link_downed": 1.0}, "HDR", "ib0")
    owned = Ownership({10: JOB}, {"GPU-0": (JOB,)}, info={JOB: WorkloadInfo()})
    names = ("steps", "samples", "images", "tokens", "requests", "epochs", "model_flops")
    counters = {name: 40.0 * (place + 1) for place, name in enumerate(names)}
    progress = Progress(counters, {"wait_data": 3.0}, 0.4, 60.0, StepTimes(0.1, 0.2, 0.5, "3"), 99.0)
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
    rig.sampler.xids.set_source("kmsg", up=True)
    rig.sampler.xids.set_source("nvml", up=False)
    rig.cycles(2)
    node.reported = Reported({JOB: replace(progress, counters={"steps": 3.0})}, {"accepted": 13})
    rig.cycles(2)
    return rig


def cycles_that_stopped() -> Rig:
    """The page while no cycle ends: counters stay, levels go, and nothing is up."""
    rig = two_owners_of_two_gpus()
    health = ProcessHealth({"sampler": ThreadState(4_990.0, 2)}, web_reload_success=False, certificate_expiry=2e9)
    rig.snapshot = stale_snapshot(rig.snapshot, 30.0, health)
    return rig
