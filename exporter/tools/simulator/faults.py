# ruff: noqa: E501 - tables
"""What can go wrong with a GPU, and what each fault changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


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


_ROWS = (
    Kind(name="thermal",           help="Too hot: thermal slowdown for 60 % of the time.", clock=0.62, power=0.8, heat=1.75, sw_thermal=0.6, hw_thermal=0.25),
    Kind(name="warm",              help="Flagged as too hot for 95 % of the time, clocks 2 % down.", clock=0.98, heat=1.6, sw_thermal=0.95),
    Kind(name="power-brake",       help="The server pulls the power brake.",               clock=0.5,  power=0.55, power_brake=0.7),
    Kind(name="ecc-storm",         help="Memory errors, some of them uncorrectable.",      xid=94, corrected=4.0, uncorrected=1 / 30, recovery=1),
    Kind(name="row-remap-pending", help="A row wants remapping: reset needed.",            xid=63, recovery=4),
    Kind(name="row-remap-failed",  help="No spare row left: replace the board.",           xid=64, recovery=4),
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

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ROWS}


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
