"""The file the fake driver answers from, written from a dict and edited while a program runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Value = str | int | float

GIB = 1 << 30


class Scenario:
    """Each change replaces the file at once, so that the library never reads half of it."""

    def __init__(self, path: Path, values: Mapping[str, Value]) -> None:
        self.path = path
        self._values = dict(values)
        self._write()

    def set(self, values: Mapping[str, Value]) -> None:
        self._values.update(values)
        self._write()

    def remove(self, *keys: str) -> None:
        for key in keys:
            del self._values[key]
        self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        text = "".join(f"{key} = {value}\n" for key, value in self._values.items())
        new.write_text(text, errors="surrogateescape")
        new.replace(self.path)


def uuid(gpu: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{gpu:012d}"


def node(gpus: int = 2) -> dict[str, Value]:
    """A quiet node of H100s: every reading a real one has."""
    values: dict[str, Value] = {"gpus": gpus, **_H100}
    for gpu in range(gpus):
        values[f"gpu{gpu}.uuid"] = uuid(gpu)
        values[f"gpu{gpu}.bus_id"] = f"0000:{0x1A + gpu:02x}:00.0"
        values[f"gpu{gpu}.serial"] = f"15628210839{gpu:02d}"
    return values


def mig_instance(gpu: int, place: int, gpu_instance: int, profile: str) -> dict[str, Value]:
    """A MIG instance at a place of a GPU; `profile` as `1g.10gb` or `1c.3g.40gb`."""
    slices, _, size = profile.rpartition(".")
    memory = int(size.removesuffix("gb")) * GIB
    prefix = f"gpu{gpu}.mig{place}."
    values: dict[str, Value] = {
        "uuid": f"MIG-00000000-0000-0000-{gpu:04d}-{place:012d}",
        "name": f"NVIDIA H100 80GB HBM3 MIG {profile}",
        "gpu_instance": gpu_instance,
        "compute_instance": 0,
        "compute_slices": int(slices[0]),
        "gpu_slices": int(slices[-2]),
        "memory_mib": memory >> 20,
        "memory_total": memory,
        "memory_used": GIB,
        "gpm.1": 72.5,
        "gpm.2": 61.5,
    }
    return {f"gpu{gpu}.mig": 1, **{prefix + key: value for key, value in values.items()}}


_H100: Mapping[str, Value] = {
    "driver_version": "580.95.05",
    "gpu.name": "NVIDIA H100 80GB HBM3",
    "gpu.vbios": "96.00.74.00.09",
    "gpu.architecture": 9,
    "gpu.compute_capability": "9.0",
    "gpu.numa_node": 0,
    "gpu.persistence": 1,
    "gpu.pstate": 0,
    "gpu.mig": 0,
    "gpu.utilization": 40,
    "gpu.memory_utilization": 20,
    "gpu.encoder_utilization": 0,
    "gpu.decoder_utilization": 0,
    "gpu.jpeg_utilization": 0,
    "gpu.ofa_utilization": 0,
    "gpu.power_mw": 350000,
    "gpu.power_limit_mw": 700000,
    "gpu.power_default_mw": 700000,
    "gpu.power_min_mw": 200000,
    "gpu.power_max_mw": 700000,
    "gpu.energy_mj": "rate 350000 base 123456789",
    "gpu.temperature": 45,
    "gpu.temperature_margin": 40,
    "gpu.temperature_threshold.0": 92,
    "gpu.temperature_threshold.1": 89,
    "gpu.temperature_threshold.3": 87,
    "gpu.fans": 0,
    "gpu.clock.0": 1980,
    "gpu.clock.1": 1980,
    "gpu.clock.2": 2619,
    "gpu.clock.3": 1545,
    "gpu.clock_max.0": 1980,
    "gpu.clock_max.1": 1980,
    "gpu.clock_max.2": 2619,
    "gpu.clock_max.3": 1545,
    "gpu.clock_reasons": 0,
    "gpu.clock_reasons_supported": 0x1FF,
    "gpu.violation_ns.0": 0,
    "gpu.violation_ns.1": 0,
    "gpu.event_ns.sw_thermal": 0,
    "gpu.event_ns.hw_thermal": 0,
    "gpu.event_ns.hw_power_brake": 0,
    "gpu.memory_total": 85520809984,
    "gpu.memory_reserved": 535822336,
    "gpu.memory_used": 21474836480,
    "gpu.bar1_total": 137438953472,
    "gpu.bar1_used": 2097152,
    "gpu.pcie_generation": 5,
    "gpu.pcie_generation_max": 5,
    "gpu.pcie_width": 16,
    "gpu.pcie_width_max": 16,
    "gpu.pcie_replay": 0,
    "gpu.ecc_mode": 1,
    "gpu.ecc.0.0": 0,
    "gpu.ecc.1.0": 0,
    "gpu.ecc.0.1": 0,
    "gpu.ecc.1.1": 0,
    "gpu.sram.threshold_exceeded": 0,
    "gpu.remapped.corrected": 0,
    "gpu.banks.max": 2560,
    "gpu.fabric.state": 3,
    "gpu.fabric.health_mask": 0x1AA,
    "gpu.nvlinks": 18,
    "gpu.nvlink.state": 1,
    "gpu.nvlink.version": 4,
    "gpu.field.74": 0,
    "gpu.field.76": 0,
    "gpu.field.77": 0,
    "gpu.field.79": 0,
    "gpu.field.82": "u61",
    "gpu.field.83": "rate 350000 base 123456789",
    "gpu.field.90": "u26562",
    "gpu.field.91": "u18",
    "gpu.field.138": "rate 1048576",
    "gpu.field.139": "rate 524288",
    "gpu.field.185": "u350000",
    "gpu.field.186": "u360000",
    "gpu.field.193": "i-8",
    "gpu.field.194": "i-5",
    "gpu.field.197": "rate 1000000",
    "gpu.field.198": "rate 2000000",
    "gpu.field.230": "u0",
    "gpu.gpm": 1,
    "gpu.gpm.1": 40,
    "gpu.gpm.2": 35,
    "gpu.gpm.3": 20,
    "gpu.gpm.5": 15,
    "gpu.gpm.10": 25,
    "gpu.gpm.20": 120,
    "gpu.gpm.21": 90,
}
