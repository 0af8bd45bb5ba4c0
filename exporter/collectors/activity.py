"""What GPM reports of the GPU's units, for a whole GPU and for a MIG instance alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import GPM_SECONDS

UNITS: tuple[tuple[str, int, str], ...] = (
    # unit           GPM id  what it does
    ("graphics", nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, "the graphics or compute engine was active"),
    ("sm", nvml.NVML_GPM_METRIC_SM_UTIL, "an SM had a warp, averaged over all SMs"),
    ("sm_occupancy", nvml.NVML_GPM_METRIC_SM_OCCUPANCY, "warp slots were filled, averaged over all SMs"),
    ("tensor", nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "a tensor pipe was active"),
    ("dram", nvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "device memory moved data, as a share of its peak rate"),
    ("fp64", nvml.NVML_GPM_METRIC_FP64_UTIL, "the FP64 pipe was active"),
    ("fp32", nvml.NVML_GPM_METRIC_FP32_UTIL, "the FP32 pipe was active"),
    ("fp16", nvml.NVML_GPM_METRIC_FP16_UTIL, "the FP16 pipe was active"),
    ("integer", nvml.NVML_GPM_METRIC_INTEGER_UTIL, "the integer pipe was active"),
)  # fmt: skip
UNIT_IDS = tuple(id_ for _, id_, _ in UNITS)


_FULL, _INFINITE = 100.0, math.inf
_LONGER = 2.5
"""Times a pass: what GPM covers is no longer than that where it was asked in the pass before, however late."""


@record
class Activity:
    """By unit: `ratios` are shares of the last pass (0 to 1), `seconds` totals since the first answer."""

    ratios: Mapping[str, float] = field(default_factory=dict[str, float])
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])


def activity(before: Activity, values: Mapping[int, Any], seconds: float) -> Activity:
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


def is_of_pass(values: Mapping[int, Any], seconds: float) -> bool:
    """Whether GPM reports of the `seconds` since the last good reading, and not of a longer time, as after a rest.

    What it reports of more than that adds to the totals, and is not compared with what else is known of the pass.
    """
    return bool(values.get(GPM_SECONDS, seconds) <= _LONGER * seconds)


def silent(before: Activity | None) -> Activity | None:
    """What stays known while GPM does not answer: the totals. None where it never did."""
    return None if before is None else Activity({}, before.seconds)


def finite(value: Any) -> float | None:
    """GPM answers NaN where nothing ran in the window that it could divide by."""
    return float(value) if value is not None and math.isfinite(value) else None
