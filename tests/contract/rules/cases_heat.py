"""Cases of the alerts about heat, power and fans."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, NODE, Case, fires, silent
from tests.contract.rules.series import ALLOCATED, finding, gauge, share


def throttled(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttled_seconds_total{{{DEV},reason="{reason}"}}': values}


def active(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttle_active{{{DEV},reason="{reason}"}}': values}


THERMAL = (
    fires(
        "GpuThermalThrottling",
        "a third of the time, by the driver's counters",
        "30m",
        throttled("sw_thermal", "0+20x40")
        | throttled("hw_thermal", "0+2x40")
        | ALLOCATED
        | share(JOB, "0.5x200")
        | {f'gpu_workload_info{{{NODE},{JOB},job_name="train"}}': "1x200"},
    ),
    fires(
        "GpuThermalThrottling",
        "whose job nobody knows since its node is silent",
        "24m",
        throttled("sw_thermal", "0+20x20 stale") | share(JOB, "1x20 stale") | gauge("up", "1x20 0x20", NODE),
    ),
    fires("GpuThermalThrottling", "an older driver's one counter", "30m", throttled("thermal", "0+30x40")),
    fires(
        "GpuThermalThrottling",
        "no counters, only flags that flap",
        "30m",
        active("sw_thermal", "0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1"),
    ),
    fires(
        "GpuThermalThrottling", "stays on for a while after it ended", "40m", throttled("sw_thermal", "0+30x20 600x60")
    ),
    silent(
        "GpuThermalThrottling", "over when it has been good for long", "70m", throttled("sw_thermal", "0+30x20 600x60")
    ),
    silent(
        "GpuThermalThrottling",
        "a software power cap at full load",
        "30m 60m",
        throttled("sw_power_cap", "0+60x60") | throttled("sw_thermal", "0x60") | active("sw_power_cap", "1x60"),
    ),
    silent("GpuThermalThrottling", "a burst of minutes", "13m 16m", throttled("hw_thermal", "0x10 0+60x2 120x40")),
    silent("GpuThermalThrottling", "half a minute once", "12m 20m 30m", throttled("hw_thermal", "0x10 30x30")),
    silent(
        "GpuThermalThrottling",
        "the counter restarts from a high value",
        "22m 30m",
        throttled("sw_thermal", "90000x20 0x30"),
    ),
)
POWER_BRAKE = (
    fires(
        "GpuPowerBrake",
        "stays on for a while after it ended",
        "40m",
        throttled("hw_power_brake", "0+60x20 1200x60"),
    ),
    silent("GpuPowerBrake", "a burst that ends within minutes", "4m", throttled("hw_power_brake", "0+60x4 240x40")),
    fires("GpuPowerBrake", "the whole time", "30m", throttled("hw_power_brake", "0+60x40") | ALLOCATED),
    silent("GpuPowerBrake", "a software power cap", "30m", throttled("sw_power_cap", "0+60x40")),
    silent("GpuPowerBrake", "once for ten seconds", "15m 30m", throttled("hw_power_brake", "0x10 10x30")),
)
TEMPERATURE = (
    fires("GpuThermalThrottling", "margin from the driver", "30m", gauge("gpu_temperature_margin_celsius", "2x40")),
    fires(
        "GpuThermalThrottling",
        "margin from the threshold",
        "30m",
        gauge("gpu_temperature_celsius", "86x40", more=',sensor="gpu"')
        | gauge("gpu_temperature_threshold_celsius", "87x40", more=',threshold="slowdown"'),
    ),
    fires(
        "GpuThermalThrottling",
        "stays on for a while after the margin is there again",
        "35m",
        gauge("gpu_temperature_margin_celsius", "2x30 9x30"),
    ),
    silent("GpuThermalThrottling", "warm", "30m", gauge("gpu_temperature_margin_celsius", "8x40")),
    silent("GpuThermalThrottling", "a short peak", "25m", gauge("gpu_temperature_margin_celsius", "12x20 2x6 12x20")),
    silent(
        "GpuThermalThrottling",
        "the memory is hot, and has a limit of its own",
        "30m",
        gauge("gpu_temperature_celsius", "94x40", more=',sensor="memory"')
        | gauge("gpu_temperature_celsius", "60x40", more=',sensor="gpu"')
        | gauge("gpu_temperature_threshold_celsius", "87x40", more=',threshold="slowdown"'),
    ),
)
_FAN = ',fan="1"'
FAN = (
    fires(
        "GpuThermalThrottling",
        "stands still while hot",
        "20m",
        gauge("gpu_fan_speed_ratio", "0x30", more=_FAN)
        | gauge("gpu_fan_speed_rpm", "0x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    fires(
        "GpuThermalThrottling",
        "a card that tells the share alone",
        "20m",
        gauge("gpu_fan_speed_ratio", "0x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuThermalThrottling",
        "turns while hot",
        "20m",
        gauge("gpu_fan_speed_ratio", "0.8x30", more=_FAN)
        | gauge("gpu_fan_speed_rpm", "4000x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuThermalThrottling",
        "turns, whatever speed it is asked for",
        "20m",
        gauge("gpu_fan_speed_ratio", "0x30", more=_FAN)
        | gauge("gpu_fan_speed_rpm", "1500x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuThermalThrottling",
        "starts a moment after it got hot",
        "13m 20m",
        gauge("gpu_fan_speed_rpm", "0x13 3000x20", more=_FAN)
        | gauge("gpu_temperature_celsius", "60x10 82x20", more=',sensor="gpu"'),
    ),
    silent(
        "GpuThermalThrottling",
        "stopped because the card is cool",
        "20m",
        gauge("gpu_fan_speed_rpm", "0x30", more=_FAN) | gauge("gpu_temperature_celsius", "41x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuThermalThrottling",
        "a hot card without fans",
        "20m",
        gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
)


def limited(values: str, name: str = "limited", up: str = "1x60") -> dict[str, str]:
    return finding(name, values) | gauge("gpu_up", up)


LIMITED = (
    fires("GpuPerformanceLimited", "all the time", "40m", limited("1x60") | ALLOCATED),
    fires("GpuPerformanceLimited", "by its power limit", "40m", limited("1x60", "power_limit")),
    fires("GpuPerformanceLimited", "by the hardware alone", "40m", limited("1x60", "hw_slowdown")),
    fires("GpuPerformanceLimited", "under load that comes in bursts", "40m", limited(" ".join(["1 1 _"] * 20))),
    fires(
        "GpuPerformanceLimited",
        "by its power limit, once where its clock is low too",
        "40m",
        limited("1x60", "power_limit") | limited("1x60"),
    ),
    fires(
        "GpuPerformanceLimited",
        "by its clock, where the hardware slows it now and then",
        "40m",
        limited("1x60") | limited(" ".join(["1 _ _ _ _ _ _ _ _ _"] * 6), "hw_slowdown"),
    ),
    silent("GpuPerformanceLimited", "in one of three minutes", "40m", limited(" ".join(["1 _ _"] * 20))),
    silent("GpuPerformanceLimited", "for ten minutes", "25m 45m", limited("_x10 1x10 stale")),
)

CASES: tuple[Case, ...] = (*LIMITED, *THERMAL, *POWER_BRAKE, *TEMPERATURE, *FAN)
