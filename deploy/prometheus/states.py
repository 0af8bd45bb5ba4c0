"""The ledger's states as rules see them."""

from __future__ import annotations

from collections.abc import Iterable

BUSY = ("busy", "throttled_thermal", "throttled_power_brake", "communication", "memory_bound", "small_kernels")
"""A kernel ran."""
LOST = (
    "held_idle",
    "wait_storage",
    "wait_cpu",
    "wait_peer",
    "wait_other",
    "throttled_thermal",
    "throttled_power_brake",
)
"""Held, and nothing (or less than could be) came of it."""

ADVICE = {
    "held_idle": "release the GPUs, or find the rank that crashed",
    "wait_storage": "cache the data on local disks, read ahead further, and read fewer, larger files",
    "wait_cpu": "use more loader workers, preprocess offline or on the GPU, and pin the host memory",
    "wait_peer": "balance the pipeline stages, overlap communication with computation, and look for a straggler",
    "wait_other": "look for an interactive session, a lock, the network or a checkpoint that everybody waits for",
    "throttled_thermal": "ask on-call to look at the cooling",
    "throttled_power_brake": "ask on-call to look at the power supply",
}


def regex(states: Iterable[str]) -> str:
    return "|".join(states)
