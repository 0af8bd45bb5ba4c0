"""Activity of the GPU's units (GPM, Hopper and newer) and the bytes over its PCIe and NVLink.

Bytes over NVLink come from the driver's field counters; where it has none, from GPM's rates, which the same call
brings. Over PCIe it is the other way round: those counters have 32 bits, and a PCIe 5 link wraps them several times a
second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from exporter.collectors.base import ALL_LINKS, Collector, Field, Fields, Pace, Tick, read_fields
from exporter.core.clock import UnixTime
from exporter.core.families import Family, Unit, by, counter, counters
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import GPM_SECONDS, Device, UnsupportedError

UNITS: tuple[tuple[str, int, str], ...] = (
    # unit           GPM id  what it does
    ("graphics", nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, "the graphics or compute engine was active"),
    ("sm", nvml.NVML_GPM_METRIC_SM_UTIL, "an SM had a warp, averaged over all SMs"),
    ("sm_occupancy", nvml.NVML_GPM_METRIC_SM_OCCUPANCY, "warp slots were filled, averaged over all SMs"),
    ("tensor", nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "a tensor pipe was active"),
    ("dram", nvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "device memory moved data, as a fraction of its peak rate"),
    ("fp64", nvml.NVML_GPM_METRIC_FP64_UTIL, "the FP64 pipe was active"),
    ("fp32", nvml.NVML_GPM_METRIC_FP32_UTIL, "the FP32 pipe was active"),
    ("fp16", nvml.NVML_GPM_METRIC_FP16_UTIL, "the FP16 pipe was active"),
    ("integer", nvml.NVML_GPM_METRIC_INTEGER_UTIL, "the integer pipe was active"),
)  # fmt: skip
UNIT_IDS = tuple(id_ for _, id_, _ in UNITS)


_FULL, _INFINITE = 100.0, math.inf
_LONGER = 2.5
"""Times a cycle: what GPM covers is no longer than that where it was read in the cycle before, however late."""


@record
class Activity:
    """Activity by unit: `ratios` of the last cycle (0 to 1), `seconds` in total since the first reading."""

    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])


def add_activity(before: Activity, values: Mapping[int, Any], seconds: float) -> Activity:
    """Add what GPM reports. A unit starts at 0 with its first answer.

    `seconds` is since the last good reading, which is what GPM reports of where it does not say: an answer that was
    lost on its way, since another call failed or hung, is not in the next one.
    """
    seconds = values.get(GPM_SECONDS, seconds)
    ratios: dict[str, float] = {}
    totals = dict(before.seconds)
    for unit, id_, _ in UNITS:
        percent = values.get(id_)
        if percent is None or not -_INFINITE < percent < _INFINITE:
            continue
        ratio = ratios[unit] = percent / 100 if 0.0 <= percent <= _FULL else 0.0 if percent < 0.0 else 1.0
        totals[unit] = totals[unit] + ratio * seconds if unit in totals else 0.0
    return Activity(ratios, totals)


def covers_cycle(values: Mapping[int, Any], seconds: float) -> bool:
    """Return whether GPM covers the `seconds` since the last good reading, not a longer time, as after a pause.

    What it reports of more than that adds to the totals, and is not compared with what else is known of the cycle.
    """
    return bool(values.get(GPM_SECONDS, seconds) <= _LONGER * seconds)


def keep_totals(before: Activity | None) -> Activity | None:
    """Return what stays known while GPM is unreachable: the totals. None before its first reading."""
    return None if before is None else Activity({}, before.seconds)


def finite_or_none(value: Any) -> float | None:
    """GPM answers NaN where nothing ran in the window that it could divide by."""
    return float(value) if value is not None and math.isfinite(value) else None


_MIB = 1024 * 1024
_RETRY_SECONDS = 300.0
"""Seconds until a GPU without GPM is asked again: leaving MIG mode brings it back."""
_WRAP_BYTES = 2.0**32
"""Bytes at which the PCIe counters begin anew (measured: docs/dev/hardware.md)."""
_MAX_WRAP_SECONDS = 5.0
"""Seconds between two readings up to which a counter that fell has wrapped; a GPU reset takes longer than that."""
_MOST_PCIE = 1e12
"""Bytes per second that no PCIe link carries."""


@record
class Path:
    """Source of one direction of a bus: fields by preference (id, scope, bytes per unit), and by GPM (MiB/s)."""

    direction: str
    fields: tuple[tuple[Field, int], ...]
    gpm: int


PCIE = (
    Path("transmit", (((nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), 1),), nvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    Path("receive", (((nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0), 1),), nvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
)
NVLINK = (
    Path(
        "transmit",
        (
            ((nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS), 1024),
            ((nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, ALL_LINKS), 1),
        ),
        nvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    ),
    Path(
        "receive",
        (
            ((nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS), 1024),
            ((nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, ALL_LINKS), 1),
        ),
        nvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    ),
)
_PCIE_FIELDS = tuple(field for path in PCIE for field, _ in path.fields)
_NVLINK_FIELDS = tuple(field for path in NVLINK for field, _ in path.fields)
_GPM_IDS = (*UNIT_IDS, *(path.gpm for path in (*PCIE, *NVLINK)))


@record
class Traffic:
    """Traffic over one bus: bytes so far by direction, and bytes per second both ways in the last cycle."""

    totals: Mapping[str, float]
    rate: float | None
    fields: Fields | None
    """None where GPM counts instead."""
    counts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Last values of the wrapping PCIe counters, by direction."""


@record
class Gpm:
    """`activity` is None on a GPU without GPM."""

    activity: Activity | None
    pcie: Traffic
    nvlink: Traffic
    tried_at: UnixTime
    """Time of the last question to GPM."""

    @property
    def ratios(self) -> Mapping[str, float]:
        """Activity in the last cycle by unit (`sm`, `tensor`, `dram`, …), 0 to 1; a unit that is not known is not in."""
        return self.activity.ratios if self.activity else {}


def read_gpm(device: Device, previous: Gpm | None, tick: Tick) -> Gpm:
    values, tried_at = None, previous.tried_at if previous else tick.time
    if not previous or previous.activity is not None or not 0 <= tick.time - previous.tried_at < _RETRY_SECONDS:
        values, tried_at = device.get("nvmlGpmMetricsGet", _GPM_IDS), tick.time
    before = (previous.activity if previous else None) or Activity()
    nvlink_fields = read_fields(device, _NVLINK_FIELDS, previous.nvlink.fields if previous else None, tick)
    pcie = _add_pcie(device, values, previous.pcie if previous else None, tick)
    nvlink = _sum_paths(NVLINK, nvlink_fields, values or {}, previous.nvlink.totals if previous else {}, tick.seconds)
    if values is None and not pcie.totals and not nvlink.totals:
        raise UnsupportedError("neither GPM nor byte counters")
    units = previous.activity if previous else None
    if values is not None:
        units = add_activity(before, values, tick.seconds)
    if values is None or not covers_cycle(values, tick.seconds):
        units = keep_totals(units)
    return Gpm(units, pcie, nvlink, tried_at)


def _add_pcie(device: Device, values: Mapping[int, float] | None, before: Traffic | None, tick: Tick) -> Traffic:
    """Add what GPM reports; where it reports none, what the wrapping counters gained."""
    totals: Mapping[str, float] = before.totals if before else {}
    rates = {path.direction: rate for path in PCIE if (rate := _gpm_rate(path, values or {})) is not None}
    if values is not None and (rates or (before and before.fields is None)):
        seconds = values.get(GPM_SECONDS, tick.seconds) if before else 0.0
        rate = sum(rates.values()) if rates and covers_cycle(values, tick.seconds) else None
        return Traffic(_add_gains(totals, {direction: each * seconds for direction, each in rates.items()}), rate, None)
    fields = read_fields(device, _PCIE_FIELDS, before.fields if before else None, tick)
    return _add_counted(fields, totals, before.counts if before else {}, tick.seconds)


def _add_counted(fields: Fields, totals: Mapping[str, float], before: Mapping[str, float], seconds: float) -> Traffic:
    """Add what the counters gained since they were read `before`. A direction begins at 0."""
    found = {path.direction: fields.values.get(path.fields[0][0]) for path in PCIE}
    counts = {direction: count for direction, count in found.items() if count is not None}
    gains = {
        direction: bytes_gained(before[direction], count, seconds) if direction in before else 0.0
        for direction, count in counts.items()
    }
    known = seconds > 0 and any(direction in before for direction in counts)
    return Traffic(
        _add_gains(totals, gains), sum(gains.values()) / seconds if known else None, fields, {**before, **counts}
    )


def bytes_gained(before: float, now: float, seconds: float) -> float:
    """Return the bytes between two readings of a counter of 32 bits: the fewest there can have been.

    A wider one, should a driver have it, does not wrap; one that fell was reset, as may be one that fell over a gap.
    """
    wraps = now < before < _WRAP_BYTES and seconds <= _MAX_WRAP_SECONDS
    bytes_ = now - before if now >= before else now + (_WRAP_BYTES - before) * wraps
    return bytes_ if bytes_ <= max(_MOST_PCIE * seconds, _WRAP_BYTES) else 0.0


def _add_gains(totals: Mapping[str, float], gains: Mapping[str, float]) -> Mapping[str, float]:
    return {**totals, **{direction: totals.get(direction, 0.0) + gain for direction, gain in gains.items()}}


def _gpm_rate(path: Path, values: Mapping[int, float]) -> float | None:
    """Bytes per second by GPM."""
    mebibytes = finite_or_none(values.get(path.gpm))
    return None if mebibytes is None else max(mebibytes, 0.0) * _MIB


def _sum_paths(
    paths: Sequence[Path], fields: Fields, values: Mapping[int, float], before: Mapping[str, float], seconds: float
) -> Traffic:
    """`values` are GPM's, for what no field counts."""
    totals: dict[str, float] = {}
    both_ways: float | None = None
    for path in paths:
        total, rate = _read_path(path, fields, values, before.get(path.direction), seconds)
        if total is not None:
            totals[path.direction] = total
        if rate is not None:
            both_ways = rate if both_ways is None else both_ways + rate
    return Traffic(totals, both_ways, fields)


def _read_path(
    path: Path, fields: Fields, values: Mapping[int, float], before: float | None, seconds: float
) -> tuple[float | None, float | None]:
    """Total bytes and bytes per second of one path.

    A field that does not answer for once is waited for: GPM's rates and the field's count are not to be mixed.
    """
    for id_, scale in path.fields:
        count = fields.values.get(id_)
        if count is not None:
            total = count * scale
            known = before is not None and seconds > 0 and total >= before
            return total, (total - before) / seconds if known and before is not None else None
        if id_ in fields.supported:
            return before, None
    rate = _gpm_rate(path, values)
    if rate is None:
        return before, None
    total = 0.0 if before is None else before + rate * values.get(GPM_SECONDS, seconds)
    return total, rate if covers_cycle(values, seconds) else None


def _seconds_of(unit: str, what: str) -> Family[Gpm]:
    def total(reading: Gpm) -> float | None:
        return reading.activity.seconds.get(unit) if reading.activity else None

    name = "gpu_sm_occupancy_seconds_total" if unit == "sm_occupancy" else f"gpu_{unit}_active_seconds_total"
    text = f"Seconds, weighted by the fraction in which {what}."
    return counter(name, text, Unit.SECONDS, total)


GPM: Collector[Gpm] = Collector(
    name="gpm",
    help="Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink. Up to 3 driver calls a cycle.",
    pace=Pace.CYCLE,
    read=read_gpm,
    families=(
        *(_seconds_of(unit, what) for unit, _, what in UNITS),
        counters("gpu_pcie_bytes_total", "Bytes over PCIe, seen from the GPU. Without GPM (before Hopper) a lower bound where a direction carries over 4 GB/s: the driver's counters wrap.", Unit.BYTES, by(lambda r: r.pcie.totals.items()), ("direction",)),
        counters("gpu_nvlink_bytes_total", "Bytes of data over all NVLinks, seen from the GPU.", Unit.BYTES, by(lambda r: r.nvlink.totals.items()), ("direction",)),
    ),
)  # fmt: skip
