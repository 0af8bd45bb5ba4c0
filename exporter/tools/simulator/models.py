# ruff: noqa: E501, FBT003 - tables
"""The GPU models that can be simulated, with the figures of their data sheets and of nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MIB = 1024 * 1024


class Slice(NamedTuple):
    """One MIG instance of the layout that `-mig` stands for."""

    profile: str
    gpu_instance: int
    slices: int
    """Compute slices, of seven."""
    memory_eighths: int


@dataclass(frozen=True, slots=True)
class Model:
    """One product. Clocks in MHz, power in W, memory in MiB, temperatures in °C, link speed in MB/s per direction."""

    key: str
    name: str
    architecture: int
    """NVML's number: 5 Volta, 6 Turing, 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell."""
    compute: tuple[int, int]
    memory: int
    limit: int
    min_limit: int
    idle: int
    clock: int
    idle_clock: int
    memory_clock: int
    sms: int
    pcie: int
    links: int
    link_speed: int
    fans: int
    hbm: bool
    ecc: bool
    max_temperature: int
    profiles: tuple[str, ...] = ()
    """Names of its 3g, 2g and 1g MIG profiles."""

    @property
    def gpm(self) -> bool:
        return self.architecture >= HOPPER

    @property
    def slices(self) -> tuple[Slice, ...]:
        """3g, 2g and 1g; one slice of seven is left over."""
        if not self.profiles:
            return ()
        three, two, one = self.profiles
        return (Slice(three, 2, 3, 4), Slice(two, 3, 2, 2), Slice(one, 9, 1, 1))


VOLTA, TURING, AMPERE, ADA, HOPPER, BLACKWELL = 5, 6, 7, 8, 9, 10

_A100_MIG = ("3g.40gb", "2g.20gb", "1g.10gb")
_H200_MIG = ("3g.71gb", "2g.35gb", "1g.18gb")
_B200_MIG = ("3g.90gb", "2g.45gb", "1g.23gb")

_ROWS = (
    #     key        name                       arch       cc       MiB     W    min  idle  MHz  idle  mem   SMs gen links MB/s  fans hbm   ecc   °C  MIG
    Model("B200",    "NVIDIA B200",             BLACKWELL, (10, 0), 183359, 1000, 200, 140, 1965, 120, 3996, 148, 5, 18, 53125, 0, True,  True,  87, _B200_MIG),
    Model("H200",    "NVIDIA H200",             HOPPER,    (9, 0),  143771, 700,  200, 76,  1980, 345, 3201, 132, 5, 18, 26562, 0, True,  True,  87, _H200_MIG),
    Model("H100",    "NVIDIA H100 80GB HBM3",   HOPPER,    (9, 0),  81559,  700,  200, 70,  1980, 345, 2619, 132, 5, 18, 26562, 0, True,  True,  87, _A100_MIG),
    Model("A100",    "NVIDIA A100-SXM4-80GB",   AMPERE,    (8, 0),  81920,  400,  100, 55,  1410, 210, 1593, 108, 4, 12, 25000, 0, True,  True,  85, _A100_MIG),
    Model("L40S",    "NVIDIA L40S",             ADA,       (8, 9),  46068,  350,  100, 35,  2520, 210, 9001, 142, 4, 0,  0,     0, False, True,  88, ()),
    Model("A10",     "NVIDIA A10",              AMPERE,    (8, 6),  23028,  150,  100, 21,  1695, 210, 6251, 72,  4, 0,  0,     0, False, True,  88, ()),
    Model("T4",      "Tesla T4",                TURING,    (7, 5),  15360,  70,   60,  10,  1590, 300, 5001, 40,  3, 0,  0,     0, False, True,  85, ()),
    Model("V100",    "Tesla V100-SXM2-32GB",    VOLTA,     (7, 0),  32768,  300,  150, 42,  1530, 135, 877,  80,  3, 6,  25781, 0, True,  True,  83, ()),
    Model("RTX4090", "NVIDIA GeForce RTX 4090", ADA,       (8, 9),  24564,  450,  150, 18,  3105, 210, 10501, 128, 4, 0, 0,     2, False, False, 84, ()),
)  # fmt: skip

MODELS: Mapping[str, Model] = {model.key: model for model in _ROWS}
