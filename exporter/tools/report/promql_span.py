"""The queries for when a workload held GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable

from exporter.tools.report.promql import ONCE


def holding(selector: str) -> str:
    """GPUs held; no point while none is."""
    return f"sum (gpu_workload_gpus{{{selector}}}) > 0"


Since = Callable[[str, float], str]
"""Makes a query of a selector that sees every sample of the last so many seconds."""


def held_since(selector: str, seconds: float) -> str:
    """GPUs held at any sample of the last `seconds`; no point while none was."""
    return f"sum (max_over_time(gpu_workload_gpus{{{selector}}}[{_milliseconds(seconds)}])) > 0"


def counted_since(selector: str, seconds: float) -> str:
    return f"sum (max_over_time(gpu_workload_gpu_seconds_total{{{selector}}}[{_milliseconds(seconds)}])) > 0"


def counted(selector: str) -> str:
    """GPU seconds up to now."""
    return f"sum ({ONCE} (gpu_workload_gpu_seconds_total{{{selector}}}))"


def began_before(selector: str) -> str:
    """For how long it has held its GPUs, by what its counters say."""
    return f"{counted(selector)} / (sum ({ONCE} (gpu_workload_gpus{{{selector}}})) > 0)"


def started(selector: str, window: str) -> str:
    """When the workload was given its GPUs, Unix seconds."""
    return f"min (last_over_time(gpu_workload_start_time_seconds{{{selector}}}[{window}]))"


def _milliseconds(seconds: float) -> str:
    return f"{math.ceil(seconds * 1000)}ms"
