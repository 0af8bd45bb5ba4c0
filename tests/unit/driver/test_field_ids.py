from __future__ import annotations

import pytest

from exporter.driver.constants import throttle_field_ids

_EARLY = {"sw_thermal": 251, "hw_thermal": 252, "hw_power_brake": 253}
_LATE = {"sw_thermal": 269, "hw_thermal": 270, "hw_power_brake": 271}


@pytest.mark.parametrize(
    ("version", "ids"),
    [
        ("470.256.02", {}),
        ("570.195.03", {}),
        ("575.51.03", _EARLY),
        ("580.65.06", _EARLY),
        ("580.66", {}),
        ("580.81", {}),
        ("580.82.07", _LATE),
        ("580.126.09", _LATE),
        ("615.71", _LATE),
        ("", {}),
        ("unknown", {}),
    ],
)
def test_clock_event_counters_are_asked_where_this_driver_keeps_them(version: str, ids: dict[str, int]) -> None:
    assert throttle_field_ids(version) == ids
