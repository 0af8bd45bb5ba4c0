"""The numbers the ledger's rules compare with; names of `--ledger.thresholds`, with underscores."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

AMOUNTS = frozenset({"gap_intervals", "unused_never", "unused_after", "polls_after", "write_rate", "network_rate"})


def _threshold(default: float, help: str) -> float:
    number: float = field(default=default, metadata={"help": help})
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """All are shares from 0 to 1 but for `AMOUNTS`; the metadata of each field states what it decides."""

    gap_intervals: float = _threshold(3.0, "A pass longer than this many sample intervals is unobserved.")
    active: float = _threshold(0.01, "Busy share of a pass above which a GPU did something: resets the idle clock.")
    unused_never: float = _threshold(
        10.0, "Seconds after which a GPU that never ran a kernel of its live workload is unused."
    )
    unused_after: float = _threshold(
        600.0, "Seconds without a kernel after which a GPU that ran some before is unused, and waits for no peer."
    )
    wait_cover: float = _threshold(
        0.5, "Part of the waiting time that pressure, or a busier peer, must cover to be its cause."
    )
    pressure_floor: float = _threshold(0.05, "Pressure below this share of the pass explains nothing.")
    blocked: float = _threshold(
        0.5, "Share of an owner's GPU processes in D state, or in a receive, that makes waiting a wait for that."
    )
    write_rate: float = _threshold(
        1e6, "Bytes per second a program writes above which its waiting is a wait for a checkpoint."
    )
    network_rate: float = _threshold(
        10e6, "Bytes per second over the workload's own network above which a waiting GPU waits for the network."
    )
    cpu_of_limit: float = _threshold(0.95, "CPU use over the owner's limit above which it waits for CPU.")
    hot_thread: float = _threshold(
        0.9, "CPU one thread used, or stood ready to use, above which waiting is a wait for CPU."
    )
    polls_after: float = _threshold(
        10.0, "Seconds without a kernel after which a full thread that neither reads nor takes memory is polling."
    )
    sm_low: float = _threshold(0.5, "SM activity, of the busy time, below which the SMs are mostly empty.")
    link_high: float = _threshold(0.2, "NVLink or PCIe traffic, of what the link can carry, that is high.")
    dram_high: float = _threshold(0.5, "DRAM activity, of the busy time, that is high.")
    tensor_low: float = _threshold(0.3, "Tensor activity, of the busy time, that is low.")
    vector_high: float = _threshold(
        0.3, "Activity of the FP64, FP32 and FP16 pipes, of the busy time, that is high where tensor cores rest."
    )
    power_low: float = _threshold(0.4, "Power over its limit below which a busy GPU without GPM is hardly loaded.")
    memory_low: float = _threshold(0.3, "Memory activity, of the busy time, that is low on a GPU without GPM.")
    spin_busy: float = _threshold(0.95, "Busy share of a pass from which a GPU can spin in a collective.")
    spin_sm: float = _threshold(0.35, "SM activity of a spinning GPU, at most.")
    spin_rest: float = _threshold(0.03, "Tensor and vector activity of a spinning GPU, at most.")
    spin_memory: float = _threshold(0.05, "DRAM (without GPM: memory) activity of a spinning GPU, at most.")
    spin_power: float = _threshold(
        0.6, "Power of a spinning GPU, at most, over what its workload draws there when it computes."
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            number = getattr(self, item.name)
            top = float("inf") if item.name in AMOUNTS else 1.0
            if not 0 <= number <= top:
                raise ValueError(f"ledger threshold {item.name} is {number}, not between 0 and {top:g}")
