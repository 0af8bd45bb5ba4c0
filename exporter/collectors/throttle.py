"""Reasons for lowered clocks, and their seconds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from exporter.collectors.base import Collector, Fields, Pace, Tick, read_fields
from exporter.core.families import Unit, by, counters, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.constants import throttle_field_ids
from exporter.driver.interface import Device, UnsupportedError

_FLAGS = (
    # reason             bit
    ("app_clocks", nvml.nvmlClocksEventReasonApplicationsClocksSetting),
    ("sw_power_cap", nvml.nvmlClocksEventReasonSwPowerCap),
    ("hw_slowdown", nvml.nvmlClocksEventReasonHwSlowdown),
    ("sync_boost", nvml.nvmlClocksEventReasonSyncBoost),
    ("sw_thermal", nvml.nvmlClocksEventReasonSwThermalSlowdown),
    ("hw_thermal", nvml.nvmlClocksEventReasonHwThermalSlowdown),
    ("hw_power_brake", nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown),
    ("display_clock", nvml.nvmlClocksEventReasonDisplayClockSetting),
    ("board_limit", nvml.nvmlClocksEventReasonBoardLimit),
    ("reliability", nvml.nvmlClocksEventReasonReliability),
)  # fmt: skip
_KNOWN = 0x1FF
"""The bits every driver may set; the last two came with nvml.h 13.5 and are shown only where supported."""

_POLICIES = (
    # reason             field  policy of nvmlDeviceGetViolationStatus
    ("sw_power_cap", nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, nvml.NVML_PERF_POLICY_POWER),
    ("sync_boost", nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, nvml.NVML_PERF_POLICY_SYNC_BOOST),
    ("board_limit", nvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, nvml.NVML_PERF_POLICY_BOARD_LIMIT),
    ("low_utilization", nvml.NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION, nvml.NVML_PERF_POLICY_LOW_UTILIZATION),
    ("reliability", nvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, nvml.NVML_PERF_POLICY_RELIABILITY),
)  # fmt: skip
_THERMAL_POLICY = nvml.NVML_PERF_POLICY_THERMAL


@record
class Plan:
    """Sources this device supports, found with each probe of its fields: flags, fields, and policies in their place."""

    supported_flags: int
    fields: Mapping[str, int]
    policies: Mapping[str, int]


@record
class Throttle:
    """State by reason: whether it lowers the clocks now, and for how many seconds since driver load it did."""

    active: Mapping[str, bool]
    seconds: Mapping[str, float]
    plan: Plan
    batch: Fields
    sm_clock: float | None = None
    """Hertz, read in a moment in which heat, the power brake or the power limit lowers the clocks; None otherwise."""


_SLOWDOWNS = ("sw_thermal", "hw_thermal", "hw_power_brake", "sw_power_cap")
_SLOWDOWN_FLAGS = sum(bit for reason, bit in _FLAGS if reason in _SLOWDOWNS)
_SM_CLOCK = 1


def read_throttle(device: Device, previous: Throttle | None, tick: Tick) -> Throttle:
    flags = _first_answer(device, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    fields = previous.plan.fields if previous else _field_ids(device)
    batch = read_fields(device, ((field, 0) for field in fields.values()), previous.batch if previous else None, tick)
    plan = previous.plan if previous and batch.probed == previous.batch.probed else _plan_reads(device, fields, batch)
    seconds = _count_seconds(device, plan, batch, previous)
    if flags is None and not seconds:
        raise UnsupportedError("no clock event reasons")
    active: Mapping[str, bool] = {} if flags is None else _active_reasons(flags, plan.supported_flags)
    slowed = (flags or 0) & plan.supported_flags & _SLOWDOWN_FLAGS
    megahertz = device.get("nvmlDeviceGetClockInfo", _SM_CLOCK) if slowed else None
    return Throttle(active, seconds, plan, batch, None if megahertz is None else megahertz * 1e6)


def _count_seconds(device: Device, plan: Plan, batch: Fields, previous: Throttle | None) -> Mapping[str, float]:
    """Seconds by reason; those of the reading before where the driver has counted nothing since."""
    values = batch.values
    if previous and plan is previous.plan and not plan.policies and values == previous.batch.values:
        return previous.seconds
    seconds = {reason: values[id_, 0] / 1e9 for reason, id_ in plan.fields.items() if (id_, 0) in values}
    for reason, policy in plan.policies.items():
        violation = device.get("nvmlDeviceGetViolationStatus", policy)
        if violation is not None:
            seconds[reason] = violation.violationTime / 1e9
    return seconds


@lru_cache(maxsize=256)
def _active_reasons(flags: int, supported: int) -> Mapping[str, bool]:
    return {reason: bool(flags & bit) for reason, bit in _FLAGS if supported & bit}


def _first_answer(device: Device, *functions: str) -> int | None:
    """The first answer: the calls were renamed from ThrottleReasons to EventReasons in R535."""
    for function in functions:
        answer = device.get(function)
        if answer is not None:
            return int(answer)
    return None


def _field_ids(device: Device) -> Mapping[str, int]:
    version = device.get("nvmlSystemGetDriverVersion")
    return {
        **{reason: field for reason, field, _ in _POLICIES},
        **throttle_field_ids(str(version or "")),
    }


def _plan_reads(device: Device, fields: Mapping[str, int], batch: Fields) -> Plan:
    """Violation counters stand in for missing fields; their one thermal policy covers both thermal reasons."""
    supported = _first_answer(
        device, "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons"
    )
    answered = {reason for reason, field in fields.items() if (field, 0) in batch.supported}
    wanted = {reason: policy for reason, _, policy in _POLICIES if reason not in answered}
    if not answered & {"sw_thermal", "hw_thermal"}:
        wanted["thermal"] = _THERMAL_POLICY
    policies = {
        reason: policy
        for reason, policy in wanted.items()
        if device.get("nvmlDeviceGetViolationStatus", policy) is not None
    }
    return Plan(_KNOWN if supported is None else supported, fields, policies)


THROTTLE: Collector[Throttle] = Collector(
    name="throttle",
    help="Reasons for lowered clocks. 2 driver calls a cycle, 1 more while throttled, up to 6 on old drivers.",
    pace=Pace.CYCLE,
    read=read_throttle,
    families=(
        counters("gpu_throttled_seconds_total", "Seconds since driver load that the clocks were lowered, by reason; counted by the driver.", Unit.SECONDS, by(lambda t: t.seconds.items()), ("reason",)),
        gauges("gpu_throttle_active", "Whether the clocks are lowered right now, by reason; short events are missed.", Unit.NONE, by(lambda t: ((reason, float(holds)) for reason, holds in t.active.items())), ("reason",)),
    ),
)  # fmt: skip
