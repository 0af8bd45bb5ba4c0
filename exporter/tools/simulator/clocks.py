"""Clocks, the reasons that hold them down, and for how long they did, in NVML's units."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.driver.interface import Record
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.gpu import RATE_WINDOW, Gpu
from exporter.tools.simulator.refusal import refuse, unsupported


def clock(gpu: Gpu, time: float, domain: int, *, highest: bool = False) -> int:
    now = gpu.model.clock if highest else gpu.clock(time)
    slow = now == gpu.model.idle_clock and not gpu.model.hbm
    return {
        0: now,
        1: now,
        2: 405 if slow else gpu.model.memory_clock,
        3: int(now * 0.9),
    }.get(domain) or refuse(f"clock {domain}")


def max_clock(gpu: Gpu, time: float, domain: int) -> int:
    return clock(gpu, time, domain, highest=True)


def performance_state(gpu: Gpu, time: float) -> int:
    return 8 if not gpu.model.hbm and gpu.clock(time) == gpu.model.idle_clock else 0


_REASONS = (
    # channel                bits while it advances
    (Channel.SW_POWER,       0x4),
    (Channel.SW_THERMAL,     0x20),
    (Channel.HW_THERMAL,     0x48),
    (Channel.POWER_BRAKE,    0x88),
)  # fmt: skip


def reasons(gpu: Gpu, time: float) -> int:
    found = 0
    for channel, bits in _REASONS:
        if gpu.mean(channel, time, RATE_WINDOW) > 0:
            found |= bits
    return found or (1 if gpu.busy(time, RATE_WINDOW) == 0 else 0)


_POLICIES: Mapping[int, tuple[Channel, ...]] = {
    0: (Channel.SW_POWER,),
    1: (Channel.SW_THERMAL, Channel.HW_THERMAL),
    2: (),
    3: (),
    4: (),
    5: (),
}


def violation(gpu: Gpu, time: float, policy: int) -> Record:
    if policy not in _POLICIES:
        raise unsupported(f"policy {policy}")
    seconds = sum(gpu.total(channel, time) for channel in _POLICIES[policy]) / len(gpu.targets)
    return Record(referenceTime=int(time * 1e6), violationTime=int(seconds * 1e9))
