"""Contents of one cycle, and the text Prometheus reads of it."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.config.kinds import names
from exporter.config.option import option

HIDDEN_METRICS = (
    "gpu_bar1_memory_total_bytes",
    "gpu_bar1_memory_used_bytes",
    "gpu_graphics_active_seconds_total",
    "gpu_memory_activity_ratio",
    "gpu_memory_free_bytes",
    "gpu_mig_fp16_active_seconds_total",
    "gpu_mig_fp32_active_seconds_total",
    "gpu_mig_fp64_active_seconds_total",
    "gpu_mig_graphics_active_seconds_total",
    "gpu_mig_integer_active_seconds_total",
    "gpu_mig_memory_free_bytes",
    "gpu_mig_memory_reserved_bytes",
    "gpu_mig_mode_enabled",
    "gpu_mig_sm_occupancy_seconds_total",
    "gpu_nvlink_link_speed_bytes",
    "gpu_performance_state",
    "gpu_persistence_mode_enabled",
    "gpu_power_max_limit_watts",
    "gpu_power_min_limit_watts",
    "gpu_temperature_threshold_margin_celsius",
    "gpu_workload_processes",
)
"""Hidden by default: no rule, panel, report or runbook reads them. Tests check both."""


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """`--metrics.*`."""

    hide: tuple[str, ...] = option(
        ",".join(HIDDEN_METRICS),
        names,
        "Metrics to hide; * stands for any text. A list replaces the default one; an empty list shows every metric.",
        metavar="NAMES",
    )
