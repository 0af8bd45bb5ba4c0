"""Field ids that mean different things on different drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exporter.driver import constants as nvml

_REASONS = ("sw_thermal", "hw_thermal", "hw_power_brake")
_EARLY = (251, 252, 253)
"""Without a name in nvml.h any more."""
_LATE = (
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
)
_FIRST_BRANCH, _MOVED_BRANCH = 575, 580
_LAST_EARLY, _FIRST_LATE = 65, 82


def throttle_field_ids(driver_version: str) -> Mapping[str, int]:
    """Fields of the clock-event time counters (ns) by reason; empty where the driver has none, or is not known to.

    R575 and 580.65 count at 251 to 253. With 580.82 power smoothing took those numbers back, as before R575, and
    the counters moved to 269 to 271; on the drivers between them either may be true, so neither is asked.
    """
    version = re.match(r"(\d+)(?:\.(\d+))?", driver_version)
    branch, release = (int(part or 0) for part in version.groups()) if version else (0, 0)
    early = _FIRST_BRANCH <= branch < _MOVED_BRANCH or (branch == _MOVED_BRANCH and release <= _LAST_EARLY)
    late = branch > _MOVED_BRANCH or (branch == _MOVED_BRANCH and release >= _FIRST_LATE)
    return dict(zip(_REASONS, _EARLY if early else _LATE, strict=True)) if early or late else {}
