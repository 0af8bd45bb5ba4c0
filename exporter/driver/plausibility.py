"""Limits of a driver's answers: ranges, and how fast a counter can grow.

A driver answers garbage at times: 4294967295 mW, PCIe generation 2155905152, an energy counter that reads 0 once.
An answer outside of its rule is no reading: it is left out and counted. Bounds are wide (several times what any
product has), since a rejected truth is as wrong as an accepted lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from exporter.core.clock import NEVER, MonotonicTime
from exporter.driver import constants as nvml


@dataclass(frozen=True, slots=True)
class Range:
    """A level: every number from `lowest` to `highest`."""

    lowest: float
    highest: float

    def believed(self, number: float, _time: MonotonicTime) -> float | None:
        return number if self.lowest <= number <= self.highest else None

    def repeated(self, time: MonotonicTime) -> None:
        """The number believed last was read until `time`."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A counter: what it may gain, `at_once` and beyond that `per_second`; and the most it can ever hold."""

    per_second: float
    at_once: float
    highest: float = 2.0**62
    lowest: ClassVar[float] = 0.0


class Anything:
    """Rule for a number that nothing is known of."""

    def believed(self, number: float, _time: MonotonicTime) -> float | None:
        return number

    def repeated(self, time: MonotonicTime) -> None:
        pass


ANYTHING = Anything()
Rule = Range | Growth
"""A number alone can be true from `lowest` to `highest`."""

_ALL_BITS = 2.0**32 - 1
"""Answer of a GPU that has none to give."""
CONFIRMATIONS = 3
"""Reads in a row that must agree before a counter that went back, or leapt, is believed to have done so."""


@dataclass(slots=True)
class Followed:
    """A counter as it is believed, from read to read. Times are monotonic seconds.

    A reset is proven by `CONFIRMATIONS` reads that grow from the lower value; one odd read proves nothing. A leap that
    stays is believed too. What either claims to have counted, and cannot have, is taken off (`excess`).
    """

    rule: Growth
    raw: float | None = None
    time: MonotonicTime = NEVER
    excess: float = 0.0
    odd: float | None = None
    odd_time: MonotonicTime = NEVER
    agreed: int = 0

    def believed(self, raw: float, time: MonotonicTime) -> float | None:
        """The counter after one more read; None where this read is not believed."""
        rule, last = self.rule, self.raw
        if last is not None and self.odd is None and last <= raw <= last + rule.at_once and raw <= rule.highest:
            self.raw, self.time = raw, time  # as nearly always: it goes on from there
            return raw - self.excess if self.excess else raw
        if not rule.lowest <= raw <= rule.highest or raw == _ALL_BITS:
            return None
        steady = (
            last is None or last <= raw <= last + rule.at_once or _grows_plausibly(last, raw, time - self.time, rule)
        )
        if last is not None and not steady:
            # It is believed when enough reads in a row agree with it.
            agrees = self.odd is not None and _grows_plausibly(self.odd, raw, time - self.odd_time, self.rule)
            self.odd, self.odd_time, self.agreed = raw, time, self.agreed + 1 if agrees else 1
            if self.agreed < CONFIRMATIONS:
                return None
            counted = raw <= rule.at_once + rule.per_second * max(time - self.time, 0.0)
            self.excess = 0.0 if raw < last and counted else raw - (last - self.excess)
        self.raw, self.time, self.odd, self.agreed = raw, time, None, 0
        return raw - self.excess if self.excess else raw

    def repeated(self, time: MonotonicTime) -> None:
        self.time = time


def _grows_plausibly(before: float, after: float, seconds: float, rule: Growth) -> bool:
    return before <= after <= before + rule.at_once + rule.per_second * max(seconds, 0.0)


_FLAG = Range(0, 1)
_PERCENT = Range(0, 100)
_MILLIWATTS = Range(0, 20e6)
_CELSIUS = Range(-60, 250)
"""Range of thresholds and of margins, which may be negative."""
_SENSOR_CELSIUS = Range(0, 150)
"""Range of a sensor on the chip: all bits set read as -1 or 255."""
_MEGAHERTZ = Range(0, 20_000)
_BYTES = Range(0, 2.0**50)
_ROWS = Growth(per_second=10, at_once=1024, highest=1e6)
_ERRORS = Growth(per_second=1e7, at_once=1e9)
_ECC_ERRORS = Growth(per_second=1e6, at_once=1e7)
_PAGES = Growth(per_second=1, at_once=1024, highest=1e6)
_MEGABYTES_PER_SECOND = Range(0, 10e6)
_PCIE_BYTES = Range(0, 2.0**62)
"""These counters wrap at 2^32, several times a second on a fast link: going back proves nothing."""
_NVLINK_BYTES = Growth(per_second=20e12, at_once=20e12)
_NVLINK_KIBIBYTES = Growth(per_second=20e9, at_once=20e9)
_NANOSECONDS = Growth(per_second=1.1e9, at_once=60e9)
_REASONS = Range(0, 2.0**24 - 1)
"""A mask, of which nvml.h names eleven bits. All ones are what a GPU answers that has none to give."""
_FABRIC_HEALTH = Range(0, 2.0**24 - 1)
"""Another, of sixteen bits."""
_ENGINE = (_PERCENT, Range(0, 2.0**32))
_MEMORY = {"total": _BYTES, "used": _BYTES, "free": _BYTES, "reserved": _BYTES}

Shape = Rule | tuple[Rule, ...] | Mapping[str, Rule]
"""Rules of one number, of a tuple's numbers, or of a Record's fields; a field that is not named is not checked."""

FUNCTIONS: Mapping[str, Shape] = {
    "nvmlDeviceGetPowerUsage": _MILLIWATTS,
    "nvmlDeviceGetEnforcedPowerLimit": _MILLIWATTS,
    "nvmlDeviceGetPowerManagementDefaultLimit": _MILLIWATTS,
    "nvmlDeviceGetPowerManagementLimitConstraints": (_MILLIWATTS, _MILLIWATTS),
    "nvmlDeviceGetTotalEnergyConsumption": Growth(per_second=20e6, at_once=200e6, highest=1e16),  # mJ
    "nvmlDeviceGetUtilizationRates": {"gpu": _PERCENT, "memory": _PERCENT},
    "nvmlDeviceGetEncoderUtilization": _ENGINE,
    "nvmlDeviceGetDecoderUtilization": _ENGINE,
    "nvmlDeviceGetJpgUtilization": _ENGINE,
    "nvmlDeviceGetOfaUtilization": _ENGINE,
    "nvmlDeviceGetMemoryInfo": _MEMORY,
    "nvmlDeviceGetBAR1MemoryInfo": {"bar1Total": _BYTES, "bar1Used": _BYTES},
    "nvmlDeviceGetClockInfo": _MEGAHERTZ,
    "nvmlDeviceGetMaxClockInfo": _MEGAHERTZ,
    "nvmlDeviceGetPerformanceState": Range(0, 32),
    "nvmlDeviceGetTemperature": _SENSOR_CELSIUS,
    "nvmlDeviceGetTemperatureV": _SENSOR_CELSIUS,
    "nvmlDeviceGetMarginTemperature": _CELSIUS,
    "nvmlDeviceGetTemperatureThreshold": _CELSIUS,
    "nvmlDeviceGetNumFans": Range(0, 32),
    "nvmlDeviceGetFanSpeed_v2": Range(0, 400),
    "nvmlDeviceGetFanSpeedRPM": Range(0, 100_000),
    "nvmlDeviceGetCurrPcieLinkGeneration": Range(0, 16),
    "nvmlDeviceGetMaxPcieLinkGeneration": Range(0, 16),
    "nvmlDeviceGetCurrPcieLinkWidth": Range(0, 64),
    "nvmlDeviceGetMaxPcieLinkWidth": Range(0, 64),
    "nvmlDeviceGetPcieReplayCounter": _ERRORS,
    "nvmlDeviceGetTotalEccErrors": _ECC_ERRORS,
    "nvmlDeviceGetMemoryErrorCounter": _ECC_ERRORS,
    "nvmlDeviceGetRemappedRows": (_ROWS, _ROWS, _FLAG, _FLAG),
    "nvmlDeviceGetRowRemapperHistogram": dict.fromkeys(("max", "high", "partial", "low", "none"), Range(0, 1e6)),
    "nvmlDeviceGetPersistenceMode": _FLAG,
    "nvmlDeviceGetMigMode": (_FLAG, _FLAG),
    "nvmlDeviceGetEccMode": (_FLAG, _FLAG),
    "nvmlDeviceGetCurrentClocksEventReasons": _REASONS,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _REASONS,
    "nvmlDeviceGetSramEccErrorStatus": {"bThresholdExceeded": _FLAG},
    "nvmlDeviceGetGpuFabricInfoV": {"healthMask": _FABRIC_HEALTH, "status": Range(0, 999), "state": Range(0, 15)},
    "nvmlDeviceGetViolationStatus": {"violationTime": _NANOSECONDS},
    "nvmlDeviceGetNvLinkState": _FLAG,
}


def _rule_range(first: int, last: int, rule: Rule) -> Mapping[int, Rule]:
    return dict.fromkeys(range(first, last + 1), rule)


FIELDS: Mapping[int, Rule] = {
    **_rule_range(nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, nvml.NVML_FI_DEV_ECC_DBE_AGG_CBU, _ECC_ERRORS),
    nvml.NVML_FI_DEV_RETIRED_SBE: _PAGES,
    nvml.NVML_FI_DEV_RETIRED_DBE: _PAGES,
    nvml.NVML_FI_DEV_RETIRED_PENDING: _FLAG,
    nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: _ERRORS,
    nvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL: _ERRORS,
    nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: _ERRORS,
    nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: _ERRORS,
    **_rule_range(nvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL, nvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, _ERRORS),
    **_rule_range(
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, nvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, _NANOSECONDS
    ),
    **_rule_range(251, 253, _NANOSECONDS),  # the clock event counters before 580.82
    **_rule_range(
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        _NANOSECONDS,
    ),
    nvml.NVML_FI_DEV_MEMORY_TEMP: _SENSOR_CELSIUS,
    nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: _MEGABYTES_PER_SECOND,
    nvml.NVML_FI_DEV_NVLINK_GET_SPEED: _MEGABYTES_PER_SECOND,
    nvml.NVML_FI_DEV_NVLINK_LINK_COUNT: Range(0, 128),
    nvml.NVML_FI_DEV_NVLINK_GET_STATE: Range(0, 255),
    nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER: _ERRORS,
    **_rule_range(nvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS, nvml.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR, _ERRORS),
    **_rule_range(nvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, nvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, _CELSIUS),
    nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: _PCIE_BYTES,
    nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: _PCIE_BYTES,
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: _NVLINK_KIBIBYTES,
    nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: _NVLINK_KIBIBYTES,
    nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES: _NVLINK_BYTES,
    nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES: _NVLINK_BYTES,
    **_rule_range(
        nvml.NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS,
        nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
        _ERRORS,
    ),
    nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: Range(0, 31),
}

POWER_USAGE = "nvmlDeviceGetPowerUsage"
POWER_LIMITS = frozenset(
    {
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetPowerManagementLimitConstraints",
    }
)
MAX_POWER_RATIO = 2.0
"""Power drawn at most, as a ratio of the highest power limit that the board has reported."""

GPM_PERCENT = Range(-1, 110)
GPM_MEBIBYTES_PER_SECOND = Range(-1, 20e6)
GPM_RATES = frozenset(range(20, 22)) | frozenset(range(60, 97))
"""GPM metrics that are rates of buses; the others asked for are percentages."""
