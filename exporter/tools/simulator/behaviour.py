"""Rates behind a GPU's counters and levels during one activity, and the wave of its kernels."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from exporter.tools.simulator.models import MIB, Model
from exporter.tools.simulator.patterns import Fault, Pattern

_CELL = 8
"""Periods for which the duty stays the same. Two cells make a pair: what one has more, the other has less, so the
jitter leaves no trace in the mean and the integral needs no history."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Active for the first `duty` (0 to 1) of every `period` seconds; `jitter` is the most the duty swings by."""

    period: float
    duty: float
    jitter: float = 0.0
    seed: int = 0

    def active(self, time: float) -> float:
        """Active seconds from 0 to `time`."""
        whole = math.floor(time / self.period)
        pair, into = divmod(whole, 2 * _CELL)
        swing = self._swing_at(pair)
        extra = swing * min(into, 2 * _CELL - into)
        duty = self.duty + (swing if into < _CELL else -swing)
        return self.period * (self.duty * whole + extra) + min(time - whole * self.period, duty * self.period)

    def on(self, time: float) -> bool:
        """Return whether a kernel runs at this moment."""
        whole = math.floor(time / self.period)
        pair, into = divmod(whole, 2 * _CELL)
        swing = self._swing_at(pair)
        return time - whole * self.period < self.period * (self.duty + (swing if into < _CELL else -swing))

    def _swing_at(self, pair: int) -> float:
        widest = min(self.jitter, self.duty, 1.0 - self.duty)
        return widest * unit(self.seed, pair) if widest else 0.0


@functools.lru_cache(maxsize=512)
def unit(seed: int, number: int) -> float:
    """A number from -1 to 1 that looks random and is always the same for the same arguments."""
    mixed = ((number * 0x9E3779B1) ^ (seed * 0x85EBCA6B)) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 12)) & 0xFFFF) / 32767.5 - 1.0


class Channel(enum.IntEnum):
    """Quantity that adds up over time: seconds, joules, bytes, counts."""

    BUSY = 0
    MEMORY_BUSY = 1
    SM = 2
    OCCUPANCY = 3
    TENSOR = 4
    DRAM = 5
    FP32 = 6
    FP16 = 7
    INTEGER = 8
    CODEC = 9
    ENERGY = 10
    PCIE = 11
    """Bytes in each direction."""
    NVLINK = 12
    SW_POWER = 13
    SW_THERMAL = 14
    HW_THERMAL = 15
    POWER_BRAKE = 16
    CORRECTED = 17
    UNCORRECTED = 18
    REPLAYS = 19
    LINK_ERRORS = 20
    NETWORK_RECEIVE = 21
    """Bytes over the network port beside the GPU."""
    NETWORK_TRANSMIT = 22
    PORT_ERRORS = 23


Rates = tuple[float, ...]
"""Rates per second, one for each channel."""

ZERO: Rates = (0.0,) * len(Channel)
_OVER_NODES = 0.06
"""Part that leaves the node, of the bytes that a job on several nodes moves between GPUs."""
_CONTEXT_POWER = 0.06
"""Power of a live CUDA context above idle, as a part of the limit."""
PCIE_BYTES = {3: 16e9, 4: 32e9, 5: 64e9}
"""Bytes per second and direction of 16 lanes, by generation."""
CONTEXT_BYTES = 480 * MIB
"""Device memory the driver takes for each process beyond what it allocates."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """`idle` and `active` are the rates while no kernel runs and while one does."""

    wave: Wave
    idle: Rates
    active: Rates
    pattern: Pattern | None = None
    clock: float = 1.0
    heat: float = 1.0
    recovery: int = 0


@dataclass(frozen=True, slots=True)
class Role:
    """A workload's part on one target: `share` is the target's part of the GPU, `rank` 0 the workload's first."""

    pattern: Pattern
    seed: int
    rank: int = 0
    share: float = 1.0
    nodes: int = 1
    """Number of nodes of the workload."""


def behaviour(model: Model, role: Role | None, faults: Sequence[Fault]) -> Behaviour:
    """Rates of one target while `role` runs on it (None: nobody) and `faults` are active."""
    kinds = [fault.kind for fault in faults]
    power = math.prod(kind.power for kind in kinds)
    always = _changed_rates(ZERO, {Channel.CORRECTED: sum(kind.corrected for kind in kinds),
                          Channel.UNCORRECTED: sum(kind.uncorrected for kind in kinds),
                          Channel.REPLAYS: sum(kind.replays for kind in kinds),
                          Channel.LINK_ERRORS: sum(kind.link_errors for kind in kinds),
                          Channel.PORT_ERRORS: sum(kind.port_errors for kind in kinds)})  # fmt: skip
    pattern = role.pattern if role else None
    connected = not any(kind.name == "port-down" for kind in kinds)
    if role and connected:  # data sets and checkpoints lie on network storage
        host = role.pattern.host
        always = _changed_rates(always, {Channel.NETWORK_RECEIVE: host.read_rate * role.share,
                                Channel.NETWORK_TRANSMIT: host.write_rate * role.share})  # fmt: skip
    idle, active = always, always
    if role and pattern and pattern.processes:
        context = _CONTEXT_POWER * model.limit * role.share if pattern.memory else 0.0
        idle = _changed_rates(always, {Channel.ENERGY: context})
        active = _active_rates(model, role, always, power, connected=connected)
        active = _changed_rates(active, {Channel.SW_THERMAL: min(1.0, sum(kind.sw_thermal for kind in kinds)),
                                Channel.HW_THERMAL: min(1.0, sum(kind.hw_thermal for kind in kinds)),
                                Channel.POWER_BRAKE: min(1.0, sum(kind.power_brake for kind in kinds))})  # fmt: skip
    return Behaviour(
        wave=_load_wave(role),
        idle=idle,
        active=active,
        pattern=pattern,
        clock=math.prod(kind.clock for kind in kinds),
        heat=math.prod(kind.heat for kind in kinds),
        recovery=max((kind.recovery for kind in kinds), default=0),
    )


def _active_rates(model: Model, role: Role, always: Rates, power: float, *, connected: bool) -> Rates:
    pattern, fraction = role.pattern, role.share
    linked = bool(model.links)
    link_bytes = pattern.nvlink * model.links * model.link_speed * 1e6
    pcie = pattern.pcie + (0.0 if linked else pattern.nvlink)
    between = link_bytes * _OVER_NODES * fraction if role.nodes > 1 and connected else 0.0
    return _changed_rates(always, {
        Channel.BUSY: 1.0,
        Channel.MEMORY_BUSY: pattern.activity,
        Channel.SM: pattern.sm,
        Channel.OCCUPANCY: pattern.occupancy,
        Channel.TENSOR: pattern.tensor,
        Channel.DRAM: pattern.dram,
        Channel.FP32: pattern.fp32,
        Channel.FP16: pattern.fp16,
        Channel.INTEGER: pattern.fp32 * 0.8,
        Channel.CODEC: pattern.codec,
        Channel.ENERGY: (model.limit - model.idle) * max(_CONTEXT_POWER, pattern.power) * power * fraction,
        Channel.PCIE: pcie * PCIE_BYTES[model.pcie] * fraction,
        Channel.NVLINK: link_bytes * fraction,
        Channel.NETWORK_RECEIVE: always[Channel.NETWORK_RECEIVE] + between,
        Channel.NETWORK_TRANSMIT: always[Channel.NETWORK_TRANSMIT] + between,
        Channel.SW_POWER: pattern.capped,
    })  # fmt: skip


def _load_wave(role: Role | None) -> Wave:
    if role is None:
        return Wave(1.0, 0.0)
    pattern = role.pattern
    duty = pattern.duty if pattern.peer_duty is None or role.rank == 0 else pattern.peer_duty
    return Wave(pattern.period, duty, pattern.jitter, role.seed)


def _changed_rates(rates: Rates, changes: dict[Channel, float]) -> Rates:
    return tuple(changes.get(channel, rates[channel]) for channel in Channel)
