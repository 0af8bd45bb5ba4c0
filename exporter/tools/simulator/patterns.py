# ruff: noqa: E501 - tables
"""Patterns of workloads on a GPU and its host, and faults of GPUs: one row of numbers for each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Host:
    """The owner's host side: fractions as in `HostSignals`; CPU limit and memory are per GPU."""

    cpu_pressure: float = 0.01
    io_pressure: float = 0.01
    cpu_of_limit: float = 0.4
    hottest_thread: float = 0.5
    blocked: float = 0.0
    read_rate: float = 150e6
    """Bytes per second, per GPU."""
    cores: float = 12.0
    resident: float = 40e9
    write_rate: float = 1e6
    network_rate: float = 1e5
    """Bytes per second over the owner's own network."""
    receiving: float = 0.0
    polling: bool = False
    serves: bool = False
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Fractions of one, while a kernel runs, but for `period` (seconds), `duty` and `memory` (of the GPU's memory)."""

    name: str
    help: str
    allocated: bool = True
    """The GPU is allocated; a free one has no owner."""
    processes: int = 1
    period: float = 1.0
    duty: float = 0.0
    jitter: float = 0.0
    power: float = 0.0
    """Part of the room between idle and limit."""
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    activity: float = 0.0
    """Memory utilization as NVML defines it."""
    nvlink: float = 0.0
    """Part of what the links carry; goes over PCIe where there are none."""
    pcie: float = 0.0
    codec: float = 0.0
    """Encoder and decoder."""
    memory: float = 0.0
    capped: float = 0.0
    """Fraction of the active time at the power limit."""
    samples: float = 0.0
    """Training samples or requests per active second; 0: the program reports nothing of itself."""
    fault: str = ""
    """A fault that comes with it."""
    peer_duty: float | None = None
    """Duty of all its GPUs but the first, where they differ."""
    others: Pattern | None = None
    """Pattern of all its GPUs but the first, where that is something else."""
    command: str = "python3"
    host: Host = field(default_factory=Host)

    def of_rank(self, rank: int) -> Pattern:
        """Return what the GPU of this rank does; rank 0 is the first."""
        return self if self.others is None or rank == 0 else self.others


_TRAINING = Pattern(
    name="training", help="Healthy training: dense kernels, small pauses between steps.",
    period=1.1, duty=0.97, jitter=0.02, power=0.86, sm=0.88, occupancy=0.42, tensor=0.58, dram=0.45, fp32=0.12, fp16=0.05,
    activity=0.55, nvlink=0.12, pcie=0.03, memory=0.82, samples=900.0,
)  # fmt: skip
_IDLE_HOST = Host(
    cpu_of_limit=0.01,
    hottest_thread=0.02,
    cpu_pressure=0.0,
    io_pressure=0.0,
    read_rate=0.0,
    resident=8e9,
    write_rate=1e4,
)
_SERVER = Host(0.01, 0.0, 0.25, 0.5, 0.0, 1e6, serves=True, programs=("vllm serve",))
_SPIN = Pattern(
    name="spin", help="Waits in a collective.", period=1.0, duty=1.0, power=0.16, sm=0.12, occupancy=0.02, dram=0.01,
    memory=0.8, host=Host(0.01, 0.01, 0.1, 0.99, 0.0, 1e4, polling=True),
)  # fmt: skip


def _faulty_pattern(name: str, help: str, fault: str) -> Pattern:
    return replace(_TRAINING, name=name, help=help, fault=fault)


_ROWS = (
    _TRAINING,
    replace(_TRAINING, name="input-bound", help="Waits for its data loader: the CPUs are full.", duty=0.35, jitter=0.05,
            period=1.0, samples=900.0, host=Host(0.35, 0.02, 0.99, 0.99, 0.0, 120e6)),
    replace(_TRAINING, name="cpu-bound", help="Waits for one Python thread that is full.", duty=0.45, jitter=0.05,
            period=0.4, host=Host(0.02, 0.01, 0.12, 0.99, 0.0, 60e6)),
    replace(_TRAINING, name="storage-bound", help="Waits for storage: IO pressure, processes in D state.", duty=0.3,
            jitter=0.05, period=2.0, host=Host(0.02, 0.68, 0.15, 0.3, 0.75, 700e6)),
    replace(_TRAINING, name="straggler", help="The first GPU is slow, the others wait for it.", duty=0.99, jitter=0.0,
            peer_duty=0.55, period=1.5),
    Pattern(name="communication-bound", help="Mostly moves gradients between GPUs.", period=1.2, duty=0.97, jitter=0.02,
            power=0.24, sm=0.32, occupancy=0.2, tensor=0.15, dram=0.3, fp32=0.05, activity=0.35, nvlink=0.62, pcie=0.05,
            memory=0.7, samples=250.0),
    Pattern(name="memory-bound", help="Kernels that wait for the GPU's memory.", period=0.9, duty=0.97, jitter=0.02,
            power=0.6, sm=0.82, occupancy=0.5, tensor=0.04, dram=0.86, fp32=0.2, activity=0.93, nvlink=0.03, pcie=0.02,
            memory=0.6, samples=400.0),
    Pattern(name="tiny-kernels", help="Kernels too small to fill the GPU.", period=0.5, duty=0.93, jitter=0.03, power=0.14,
            sm=0.14, occupancy=0.05, tensor=0.02, dram=0.06, fp32=0.04, activity=0.1, nvlink=0.01, pcie=0.01, memory=0.2,
            samples=60.0),
    Pattern(name="inference", help="Serving: bursts of requests.", period=0.7, duty=0.42, jitter=0.3, power=0.55, sm=0.66,
            occupancy=0.3, tensor=0.4, dram=0.48, fp16=0.1, activity=0.5, pcie=0.04, codec=0.05, memory=0.88, samples=120.0,
            command="vllm", host=_SERVER),
    Pattern(name="notebook", help="A person at work: a cell now and then.", period=90.0, duty=0.05, jitter=0.04, power=0.4,
            sm=0.6, occupancy=0.25, tensor=0.2, dram=0.3, activity=0.3, memory=0.18, command="ipykernel",
            host=Host(0.0, 0.0, 0.05, 0.1, 0.0, 1e6, 4.0, 6e9, programs=("python -m ipykernel_launcher",))),
    Pattern(name="idle-server", help="A server without requests whose scheduler thread polls.", memory=0.88, command="vllm",
            host=replace(_SERVER, hottest_thread=0.99, polling=True)),
    Pattern(name="checkpoint", help="Writes checkpoints to slow storage.", period=10.0, duty=0.4, power=0.8, sm=0.85,
            occupancy=0.4, tensor=0.5, dram=0.4, activity=0.5, memory=0.8, samples=300.0,
            host=Host(0.02, 0.66, 0.2, 0.4, 0.6, 1e5, write_rate=900e6)),
    Pattern(name="download", help="Waits for an object store.", period=2.0, duty=0.3, power=0.8, sm=0.85, occupancy=0.4,
            tensor=0.5, dram=0.4, activity=0.5, memory=0.7, samples=300.0, host=Host(0.02, 0.0, 0.2, 0.3, 0.0, 1e5, network_rate=300e6)),
    Pattern(name="no-tensor-cores", help="Dense work without tensor cores.", period=1.0, duty=0.98, power=0.8, sm=0.95, occupancy=0.6,
            fp32=0.6, dram=0.3, activity=0.4, memory=0.6, samples=150.0),
    Pattern(name="full-memory", help="Kernels too small, and no memory left for larger batches.", period=0.5, duty=0.96,
            power=0.2, sm=0.3, occupancy=0.1, tensor=0.08, dram=0.15, fp32=0.06, activity=0.2, memory=0.96, samples=60.0),
    replace(_SPIN, name="hung-collective", help="All GPUs spin in a collective that never ends."),
    Pattern(name="network-rank", help="The first GPU's rank waits for the network, the others spin in a collective.",
            memory=0.8, others=_SPIN, host=Host(0.0, 0.0, 0.05, 0.02, 0.0, 0.0, receiving=1.0)),
    replace(_TRAINING, name="slow-disk-rank", help="The first GPU's rank waits for storage, the others spin in a collective.",
            duty=0.3, period=2.0, others=_SPIN, host=Host(0.0, 0.7, 0.05, 0.02, 0.9, 3e6)),
    replace(_TRAINING, name="one-of-many", help="Uses its first GPU alone; its process is on all of them.",
            others=Pattern(name="unused", help="", memory=0.05, host=_IDLE_HOST)),    Pattern(name="allocated-idle", help="Allocated, and no process on it.", processes=0, host=_IDLE_HOST),
    Pattern(name="idle-loaded", help="A process has memory allocated and runs nothing.", memory=0.55, host=_IDLE_HOST),
    Pattern(name="free", help="Not allocated.", allocated=False, processes=0),
    Pattern(name="square", help="Exactly `duty` of every `period` busy, for tests of accuracy.", period=0.5, duty=0.5,
            power=0.8, sm=0.8, occupancy=0.4, tensor=0.5, dram=0.4, activity=0.5, memory=0.5),
    replace(_TRAINING, name="power-capped", help="Healthy at the power limit, which is normal.", power=1.0, capped=0.92),
    _faulty_pattern("thermal",            "Training on a GPU too hot: clocks lowered.",              "thermal"),
    _faulty_pattern("warm",               "Training near its thermal limit: flagged, clocks hardly lowered.", "warm"),
    _faulty_pattern("power-brake",        "Training under the server's power brake.",                "power-brake"),
    _faulty_pattern("ecc-storm",          "Training on a GPU with memory errors.",                   "ecc-storm"),
    _faulty_pattern("row-remap-pending",  "Training on a GPU that wants a reset to remap rows.",     "row-remap-pending"),
    _faulty_pattern("row-remap-failed",   "Training on a GPU with a failed row remap.",              "row-remap-failed"),
    _faulty_pattern("nvlink-down",        "Training with an NVLink down.",                           "nvlink-down"),
    _faulty_pattern("port-down",          "Training beside a network port that is down.",            "port-down"),
    _faulty_pattern("port-errors",        "Training beside a network port that counts errors.",      "port-errors"),
    _faulty_pattern("pcie-degraded",      "Training on a PCIe link of fewer lanes.",                 "pcie-degraded"),
    _faulty_pattern("fan-failure",        "Training with a fan that stands still.",                  "fan-failure"),
    _faulty_pattern("xid",                "Training whose program faults once (XID 31).",            "xid"),
    _faulty_pattern("lost",               "Training on a GPU that falls off the bus (XID 79).",      "lost"),
    _faulty_pattern("hang",               "Training on a GPU whose driver calls hang.",              "hang"),
    Pattern(name="leaked-memory", help="Free, with memory that no process owns.", allocated=False, processes=0,
            fault="leaked-memory"),
)  # fmt: skip

PATTERNS: Mapping[str, Pattern] = {pattern.name: pattern for pattern in _ROWS}

MIX = ("training", "training", "training", "training", "inference", "input-bound", "idle-loaded", "free")
"""Patterns of eight GPUs where the specification names no pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`xid` is reported when the fault begins. Rates are per second; `clock`, `power` and `heat` are factors."""

    name: str
    help: str
    xid: int = 0
    begins: float = 0.0
    """Seconds after the start where nothing else is reported."""
    clock: float = 1.0
    power: float = 1.0
    heat: float = 1.0
    sw_thermal: float = 0.0
    hw_thermal: float = 0.0
    power_brake: float = 0.0
    corrected: float = 0.0
    uncorrected: float = 0.0
    replays: float = 0.0
    link_errors: float = 0.0
    port_errors: float = 0.0
    recovery: int = 0
    """Field 230: 0 none, 1 GPU reset, 4 drain and reset."""


_FAULT_ROWS = (
    Kind(name="thermal",           help="Too hot: thermal slowdown for 60 % of the time.", clock=0.62, power=0.8, heat=1.75, sw_thermal=0.6, hw_thermal=0.25),
    Kind(name="warm",              help="Flagged as too hot for 95 % of the time, clocks 2 % down.", clock=0.98, heat=1.6, sw_thermal=0.95),
    Kind(name="power-brake",       help="The server pulls the power brake.",               clock=0.5,  power=0.55, power_brake=0.7),
    Kind(name="ecc-storm",         help="Memory errors, some of them uncorrectable.",      xid=94, corrected=4.0, uncorrected=1 / 30, recovery=1),
    Kind(name="row-remap-pending", help="A row wants remapping: reset needed.",            xid=63, recovery=4),
    Kind(name="row-remap-failed",  help="No spare row left: the GPU must be replaced.",           xid=64, recovery=4),
    Kind(name="nvlink-down",       help="NVLink 2 is down.",                               xid=74, link_errors=0.5, recovery=1),
    Kind(name="port-down",         help="The network port beside the GPU is down."),
    Kind(name="port-errors",       help="The network port beside the GPU counts errors.",  port_errors=5.0),
    Kind(name="pcie-degraded",     help="The PCIe link runs on 4 lanes.",                  replays=0.8),
    Kind(name="fan-failure",       help="Fan 0 stands still.",                             clock=0.8, heat=1.6, sw_thermal=0.4),
    Kind(name="leaked-memory",     help="Memory in use that no process owns."),
    Kind(name="xid",               help="One XID, by default 31.",                         xid=31, begins=60.0),
    Kind(name="lost",              help="Falls off the bus.",                              xid=79, begins=60.0),
    Kind(name="hang",              help="Every driver call about it hangs.",               begins=60.0),
    Kind(name="driver-gone",       help="The driver is unloaded; concerns the whole node.", begins=60.0),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _FAULT_ROWS}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one GPU (of all, where `gpu` is None), in seconds since the start."""

    kind: Kind
    gpu: int | None
    at: float
    duration: float = math.inf
    xid: int = 0

    @property
    def end(self) -> float:
        return self.at + self.duration

    def active(self, time: float) -> bool:
        return self.at <= time < self.end

    def concerns(self, gpu: int) -> bool:
        return self.gpu is None or self.gpu == gpu
