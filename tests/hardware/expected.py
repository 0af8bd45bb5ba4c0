"""What a reading should be, worked out from what a load did. Pure; a missing input makes a missing number."""

from __future__ import annotations

from collections.abc import Mapping

from tests.hardware.figures import History, common, grown, integral, mean, rate
from tests.hardware.verdict import Verdict

TENSOR_FLOPS_PER_CLOCK: Mapping[str, int] = {
    # capability: dense bf16 operations per SM and clock, from the peak NVIDIA states for a model
    "8.0": 2048,  # A100: 312 TFLOP/s of 108 SMs at 1.41 GHz
    "8.9": 1024,  # L40S: 362 TFLOP/s of 142 SMs at 2.52 GHz
    "9.0": 4096,  # H100, H200: 989 TFLOP/s of 132 SMs at 1.83 GHz
}  # fmt: skip

_TENSOR = 15.0
"""Percent. GPM shows an upper bound of the operations done: 12 % more on an H200 at its power cap."""

Histories = Mapping[str, History]


def tensor_share(flops_per_second: float | None, sms: int, clock_mhz: float | None, capability: str) -> float | None:
    """Share of the tensor pipes' peak at the clock they ran at, 0 to 1; None for an architecture not in the table."""
    per_clock = TENSOR_FLOPS_PER_CLOCK.get(capability)
    if flops_per_second is None or not clock_mhz or per_clock is None:
        return None
    return flops_per_second / (per_clock * sms * clock_mhz * 1e6)


def peak_bandwidth(memory_clock_mhz: float | None, bus_bits: int | None) -> float | None:
    """Bytes per second of memory that moves data on both edges of its clock, as HBM and GDDR do by NVML's clock."""
    return None if not memory_clock_mhz or not bus_bits else memory_clock_mhz * 1e6 * 2 * bus_bits / 8


def utilization(percent: float, ours: Histories, load: Histories) -> list[Verdict]:
    """Busy seconds integrated, and what polling the driver's reading each second comes to, beside kernel time."""
    kernels = load.get("kernel_seconds", ())
    span = common(ours.get("busy", ()), kernels)
    name, against = f"duty cycle of {percent:g} %", "kernel time by CUDA events"
    if span is None:
        empty = (None, None, against, 3.0)
        return [Verdict(f"{name}: gpu_busy_seconds_total", "s", *empty)]
    truth = grown(kernels, *span)
    polled = mean(ours.get("polled", ()), *span)
    return [
        Verdict(f"{name}: gpu_busy_seconds_total", "s", grown(ours["busy"], *span), truth, against, 3.0),
        Verdict(
            f"{name}: utilization polled each second", "s",
            None if polled is None else polled * (span[1] - span[0]), truth, against, _polled_tolerance(percent),
        ),
    ]  # fmt: skip


def _polled_tolerance(percent: float) -> float:
    """Percent allowed for a window of 0.2 s met once a second: of a load with short bursts it is a guess."""
    return 30.0 if percent < 20.0 else 10.0


def energy(ours: Histories, smi: Histories | None) -> list[Verdict]:
    """The energy counter's growth beside integrated power, by the driver and by nvidia-smi."""
    rows = []
    for name, history, against in (
        ("power usage", ours.get("power", ()), "gpu_power_watts integrated"),
        ("instant power", ours.get("power_instant", ()), "field 186 integrated"),
        ("nvidia-smi average", (smi or {}).get("power_average", ()), "nvidia-smi power.draw.average integrated"),
        ("nvidia-smi instant", (smi or {}).get("power_instant", ()), "nvidia-smi power.draw.instant integrated"),
    ):
        span = common(ours.get("energy", ()), history)
        counted, drawn = (grown(ours["energy"], *span), integral(history, *span)) if span else (None, None)
        rows.append(Verdict(f"energy against {name}", "J", counted, drawn, against, 3.0))
    return rows


def activity(ours: Histories, load: Histories, sms: int, capability: str) -> list[Verdict]:
    """GPM's SM and tensor activity under multiplications of known size."""
    span = common(ours.get("tensor", ()), ours.get("sm_clock", ()), load.get("flops", ()))
    if span is None:
        return [
            Verdict("GPM tensor activity", "", None, None, "operations done, of the peak at the clock", _TENSOR),
            Verdict("GPM SM activity", "", None, None, "kernel time by CUDA events", 5.0),
        ]
    clock = mean(ours["sm_clock"], *span)
    share = tensor_share(rate(load["flops"], *span), sms, clock, capability)
    kernels = rate(load["kernel_seconds"], *span)
    against = f"operations done, of the peak at {clock or 0:.0f} MHz"
    return [
        Verdict("GPM tensor activity", "", rate(ours["tensor"], *span), share, against, _TENSOR),
        Verdict("GPM SM activity", "", rate(ours.get("sm", ()), *span), kernels, "kernel time by CUDA events", 5.0),
    ]


def bandwidth(ours: Histories, load: Histories, bus_bits: int | None) -> list[Verdict]:
    """GPM's DRAM activity under a kernel that reads and writes a known number of bytes."""
    span = common(ours.get("dram", ()), ours.get("memory_clock", ()), load.get("bytes", ()))
    measured = reference = None
    if span is not None:
        peak = peak_bandwidth(mean(ours["memory_clock"], *span), bus_bits)
        moved = rate(load["bytes"], *span)
        measured = rate(ours["dram"], *span)
        reference = moved / peak if moved and peak else None
    return [Verdict("GPM DRAM activity", "", measured, reference, "bytes moved, of the memory's peak", 10.0)]


def pcie(ours: Histories, load: Histories) -> list[Verdict]:
    """Bytes over PCIe in both directions beside those the program copied; headers make the bus carry somewhat more."""
    span = common(ours.get("pcie", ()), load.get("bytes", ()))
    counted, copied = (grown(ours["pcie"], *span), grown(load["bytes"], *span)) if span else (None, None)
    return [Verdict("gpu_pcie_bytes_total, both directions", "B", counted, copied, "bytes copied", 15.0)]


_READERS = (
    # quantity        unit   tolerance
    ("power_average", "W",   3.0),
    ("utilization",   "%",   3.0),
    ("memory_used",   "MiB", 1.0),
    ("temperature",   "°C",  3.0),
    ("sm_clock",      "MHz", 2.0),
    ("power_limit",   "W",   0.1),
)  # fmt: skip


def second_reader(ours: Histories, smi: Histories | None) -> list[Verdict]:
    """Means of gauges over the same time, by us and by nvidia-smi."""
    rows = []
    for name, unit, tolerance in _READERS:
        told = (smi or {}).get(name, ())
        span = common(ours.get(name, ()), told)
        measured, reference = (mean(ours[name], *span), mean(told, *span)) if span else (None, None)
        rows.append(Verdict(f"{name.replace('_', ' ')} (mean)", unit, measured, reference, "nvidia-smi", tolerance))
    return rows
