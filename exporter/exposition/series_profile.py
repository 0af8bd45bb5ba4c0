"""Which series a scrape shows: a profile for most, options by family for the rest.

Everything is read and accounted whatever is shown. A family that no rule, panel, report or check asks for is left out of
the default profile, and of a family of many series only those are shown that say something. Tests hold that what rules
and dashboards ask for is shown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from exporter.metrics.family import AnyFamily, Columns


class Profile(str, enum.Enum):
    LEAN = "lean"
    DEFAULT = "default"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a family that is shown: series whose value fits, and those with one of some values of a label."""

    words: str
    value: Callable[[float], bool] = lambda _: False
    label: str = ""
    among: frozenset[str] = frozenset()

    def of(self, family: AnyFamily, columns: Columns) -> Columns:
        place = family.labels.index(self.label) if self.label else None
        shown = [
            (labels, value)
            for labels, value in zip(columns.labels, columns.values, strict=True)
            if self.value(value) or (place is not None and labels[place] in self.among)
        ]
        return Columns(tuple([labels for labels, _ in shown]), tuple([value for _, value in shown]))


ALL = Part("all", lambda _: True)
NONE = Part("none")
NONZERO = Part("those that are not 0", lambda value: value != 0)
ZERO = Part("those that are 0", lambda value: value == 0)


@dataclass(frozen=True, slots=True)
class Thinned:
    """What the default profile shows of some families, and where the rest is to be found."""

    families: tuple[str, ...]
    part: Part
    instead: str


_SM = Part("engine `sm`, and the others while in use", lambda value: value != 0, "engine", frozenset({"sm"}))
_FEW_SPARE = Part("availability `none` and `low`", label="availability", among=frozenset({"none", "low"}))

# fmt: off
DEFAULT: tuple[Thinned, ...] = (
    Thinned(("gpu_xid_errors_total",), NONZERO, "An XID has series from its first time on; alerts go by `gpu_xid_last_timestamp_seconds`."),
    Thinned(("gpu_nvlink_link_up",), ZERO, "Links that are down; how many are up is in `gpu_nvlink_links_up`."),
    Thinned(("gpu_pcie_errors_total",), NONZERO, "A kind has a series from its first error on; replays have `gpu_pcie_replays_total`."),
    Thinned(("gpu_fabric_unhealthy",), NONZERO, "Reasons that hold; the state is in `gpu_fabric_state`."),
    Thinned(("gpu_rdma_port_errors_total", "gpu_rdma_port_degraded"), NONZERO, "Kinds of errors that occurred and reasons that hold; whether a port is up is in `gpu_rdma_port_up`."),
    Thinned(("gpu_exporter_diagnosable",), ZERO, "States that this GPU and host cannot tell; all others they can."),
    Thinned(("gpu_exporter_readings_rejected_total",), NONZERO, "Collectors that had answers to leave out."),
    Thinned(("gpu_process_utilization_ratio",), _SM, "The other engines of a process while it uses them."),
    Thinned(("gpu_row_remap_banks",), _FEW_SPARE, "Banks with spare rows left are no news."),
    Thinned(("gpu_ecc_location_errors_total", "gpu_ecc_lifetime_errors_total", "gpu_ecc_volatile_errors"), NONZERO, "Places and types that have errors; all types are in `gpu_ecc_errors_total`."),
    Thinned(("gpu_nvlink_volatile_errors", "gpu_pcie_volatile_errors", "gpu_pcie_volatile_replays"), NONZERO, "Counts of the driver that are not 0, beside the totals that never go back."),
    Thinned(("gpu_temperature_threshold_margin_celsius",), NONE, "The margin that counts: `gpu_temperature_margin_celsius`."),
    Thinned(("gpu_memory_free_bytes", "gpu_mig_memory_free_bytes"), NONE, "Total less used and reserved."),
    Thinned(("gpu_mig_memory_reserved_bytes",), NONE, "Of the whole GPU: `gpu_memory_reserved_bytes`."),
    Thinned(("gpu_memory_activity_ratio", "gpu_memory_busy_seconds_total"), NONE, "`gpu_dram_active_seconds_total` on Hopper and newer."),
    Thinned(("gpu_graphics_active_seconds_total", "gpu_mig_graphics_active_seconds_total"), NONE, "`gpu_busy_seconds_total`; of an instance `gpu_mig_time_seconds_total`."),
    Thinned(("gpu_mig_sm_occupancy_seconds_total", "gpu_mig_fp64_active_seconds_total", "gpu_mig_fp32_active_seconds_total", "gpu_mig_fp16_active_seconds_total", "gpu_mig_integer_active_seconds_total"), NONE, "Of an instance: `gpu_mig_sm_active_seconds_total`, tensor and DRAM."),
    Thinned(("gpu_bar1_memory_total_bytes", "gpu_bar1_memory_used_bytes"), NONE, "Only in profile `full`."),
    Thinned(("gpu_power_min_limit_watts", "gpu_power_max_limit_watts"), NONE, "The limit in force and the default: `gpu_power_limit_watts`, `gpu_power_default_limit_watts`."),
    Thinned(("gpu_nvlink_link_speed_bytes_per_second", "gpu_performance_state", "gpu_persistence_mode_enabled", "gpu_mig_mode_enabled"), NONE, "Only in profile `full`; `gpu-exporter check` reads them."),
    Thinned(("gpu_workload_processes",), NONE, "The processes themselves: `gpu_process_memory_bytes`."),
)

_LEAN_WHOLE = """
gpu_info gpu_driver_info gpu_up gpu_devices gpu_energy_joules_total gpu_busy_seconds_total gpu_utilization_ratio
gpu_memory_total_bytes gpu_memory_used_bytes gpu_memory_unattributed_bytes gpu_power_watts gpu_power_limit_watts
gpu_power_default_limit_watts gpu_temperature_margin_celsius gpu_temperature_celsius gpu_temperature_threshold_celsius
gpu_fault_timestamp_seconds gpu_fault_cleared_timestamp_seconds gpu_expected_devices gpu_node_maintenance
gpu_xid_last_timestamp_seconds gpu_ecc_errors_total gpu_ecc_mode_enabled gpu_ecc_sram_threshold_exceeded
gpu_retired_pages_pending gpu_row_remap_pending gpu_row_remap_failed gpu_recovery_action gpu_nvlink_links_up
gpu_workload_nccl_status gpu_workload_nccl_lagging_rank_info gpu_nvswitch_sxid_last_timestamp_seconds gpu_rdma_port_nearest_gpu_info
gpu_pcie_link_generation gpu_pcie_link_max_generation gpu_pcie_link_width gpu_pcie_link_max_width gpu_pcie_replays_total
gpu_fan_speed_ratio gpu_fan_speed_rpm gpu_owner_share gpu_mig_owner_share gpu_unreserved_use
gpu_workload_info gpu_workload_gpus gpu_workload_energy_joules_total gpu_workload_memory_bytes
gpu_workload_start_time_seconds gpu_workload_restarts gpu_workload_used_gpu_seconds_total
gpu_workload_first_kernel_seconds gpu_workload_steps_total gpu_workload_samples_total
gpu_workload_images_total gpu_workload_tokens_total gpu_workload_requests_total gpu_workload_model_flops_total
gpu_workload_step_duration_seconds gpu_workload_slowest_rank_step_seconds gpu_workload_time_to_target_seconds
gpu_workload_listen_port gpu_peak_bf16_flops gpu_tensor_active_seconds_total gpu_sm_active_seconds_total
gpu_workload_progress_ratio gpu_workload_expected_seconds_remaining gpu_workload_cpu_seconds_total gpu_workload_cpu_limit_cores
gpu_workload_resident_memory_bytes gpu_workload_memory_limit_bytes gpu_workload_straggler_seconds_total
gpu_memory_reserved_bytes gpu_exporter_build_info gpu_exporter_simulated gpu_exporter_driver_error
gpu_exporter_last_sample_timestamp_seconds gpu_exporter_passes_total gpu_exporter_device_sample_age_seconds
gpu_exporter_attribution_success gpu_exporter_node_source_success gpu_exporter_xid_source_up
"""
_CLOCK = Part("domain `sm`", label="domain", among=frozenset({"sm"}))
_HELD_DOWN = Part("heat and power brake", label="reason", among=frozenset({"sw_thermal", "hw_thermal", "thermal", "hw_power_brake"}))
_EVALUATION = Part("phase `evaluation`", label="phase", among=frozenset({"evaluation"}))
LEAN: Mapping[str, Part] = {
    **dict.fromkeys(_LEAN_WHOLE.split(), ALL),
    "gpu_time_seconds_total": NONZERO,
    "gpu_mig_time_seconds_total": NONZERO,
    "gpu_workload_gpu_seconds_total": NONZERO,
    "gpu_throttled_seconds_total": NONZERO,
    "gpu_throttle_active": _HELD_DOWN,
    "gpu_xid_errors_total": NONZERO,
    "gpu_nvlink_link_up": ZERO,
    "gpu_nvlink_errors_total": NONZERO,
    "gpu_fabric_unhealthy": NONZERO,
    "gpu_rdma_port_degraded": NONZERO,
    "gpu_row_remap_banks": _FEW_SPARE,
    "gpu_workload_phase_seconds_total": _EVALUATION,
    "gpu_clock_hertz": _CLOCK,
    "gpu_clock_max_hertz": _CLOCK,
    "gpu_scrape_collector_success": ZERO,
    "gpu_exporter_thread_up": ZERO,
    "gpu_exporter_readings_rejected_total": NONZERO,
    "gpu_exporter_series_dropped_total": NONZERO,
}
"""What the lean profile shows: what the rules and the report need, of the states those that occurred, and what is broken."""
# fmt: on

_PARTS: Mapping[Profile, Mapping[str, Part]] = {
    Profile.LEAN: LEAN,
    Profile.DEFAULT: {name: each.part for each in DEFAULT for name in each.families},
    Profile.FULL: {},
}


class Selection:
    """The series of one exporter. `show` and `hide` are family names, `*` in them for any text; `hide` wins."""

    def __init__(self, profile: Profile = Profile.FULL, show: Iterable[str] = (), hide: Iterable[str] = ()) -> None:
        self._profile = profile
        self._show = tuple(show)
        self._hide = tuple(hide)
        self._parts: dict[str, Part] = {}

    def part(self, name: str) -> Part:
        """What is shown of a family."""
        found = self._parts.get(name)
        if found is None:
            found = self._parts[name] = self._decided(name)
        return found

    def _decided(self, name: str) -> Part:
        if _any(name, self._hide):
            return NONE
        if _any(name, self._show):
            return ALL
        return _PARTS[self._profile].get(name, NONE if self._profile is Profile.LEAN else ALL)


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
