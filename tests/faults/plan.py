"""What is planted: every function of the driver that the exporter calls, times what a driver may do in it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.fake_nvml.scenario import Value

CODES: Mapping[int, str] = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    13: "FUNCTION_NOT_FOUND",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    25: "ARGUMENT_VERSION_MISMATCH",
    27: "NOT_READY",
    77: "a code nobody knows",
    999: "UNKNOWN",
}
LOSSES = frozenset({15, 16})
"""The device answers no more: it is enumerated again, which takes a second of this machine's time."""

NUMBERS: Mapping[str, int] = {
    "zero": 0,
    "2^31": 2**31,
    "2^32-1": 2**32 - 1,
    "2^63": 2**63,
    "2^64-1": 2**64 - 1,
}
VALUES = (
    "power_mw", "power_limit_mw", "power_default_mw", "power_min_mw", "power_max_mw", "energy_mj", "utilization",
    "memory_utilization", "encoder_utilization", "temperature", "temperature_margin", "temperature_threshold.1", "fans",
    "clock.0", "clock_max.0", "pstate", "memory_total", "memory_used", "memory_reserved", "bar1_total", "bar1_used",
    "pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replay", "persistence", "mig",
    "ecc_mode", "ecc.0.0", "ecc.1.0", "ecc.0.1", "ecc.1.1", "remapped.corrected", "remapped.uncorrected",
    "remapped.pending", "banks.max", "clock_reasons", "violation_ns.0", "event_ns.sw_thermal", "fabric.state",
    "field.74", "field.82", "field.90", "field.91", "field.138", "field.139", "field.193", "field.197", "field.198",
    "field.230", "gpm.1", "gpm.2", "gpm.20", "gpm.5", "minor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """`values` are set in the scenario of the fake driver for a while."""

    where: str
    what: str
    values: Mapping[str, Value]
    hangs: bool = False
    loses: bool = False


def of_function(function: str) -> Iterator[Fault]:
    key = f"gpu0.call.{function}"
    for code, name in CODES.items():
        yield Fault(function, name, {key: f"ERR {code}"}, loses=code in LOSSES)
    yield Fault(function, "hangs", {key: "SLEEP 60"}, hangs=True)


def of_values(chance: random.Random) -> Iterator[Fault]:
    """Each value with every absurd number, and with bytes by chance of one, two, four and eight bytes."""
    for value in VALUES:
        patterns = {f"{size} bytes by chance": chance.getrandbits(8 * size) for size in (1, 2, 4, 8)}
        for name, number in {**NUMBERS, **patterns}.items():
            text = f"u{number}" if value.startswith("field.") else number
            yield Fault(value, f"{name} ({number})" if name in patterns else name, {f"gpu0.{value}": text})


def pairs(faults: Sequence[Fault], count: int, chance: random.Random) -> Iterator[Fault]:
    """Two faults at once, by chance."""
    calm = [fault for fault in faults if not (fault.hangs or fault.loses)]
    for _ in range(count if len(calm) > 1 else 0):
        one, other = chance.sample(calm, 2)
        what = f"{one.what} with {other.where} {other.what}"
        yield Fault(one.where, what, {**one.values, **other.values})
