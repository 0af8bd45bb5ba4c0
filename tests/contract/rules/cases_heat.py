"""Cases of the alerts about heat, power and fans."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, NODE, Case, fires, silent
from tests.contract.rules.series import HELD, gauge, share


def throttled(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttled_seconds_total{{{DEV},reason="{reason}"}}': values}


def active(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttle_active{{{DEV},reason="{reason}"}}': values}


THERMAL = (
    fires(
        "GpuThermalThrottling",
        "a third of the time, by the driver's counters",
        "30m",
        throttled("sw_thermal", "0+20x40") | throttled("hw_thermal", "0+2x40") | HELD | share(JOB, "0.5x200"),
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
    fires("GpuPowerBrake", "the whole time", "30m", throttled("hw_power_brake", "0+60x40") | HELD),
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


def slow(limit: str = "700x60", clock: str = "1980000000x60", load: str = "0.98x60") -> dict[str, str]:
    return (
        gauge("gpu_power_limit_watts", limit)
        | gauge("gpu_power_default_limit_watts", "700x60")
        | gauge("gpu_clock_hertz", clock, more=',domain="sm"')
        | gauge("gpu_clock_max_hertz", "1980000000x60", more=',domain="sm"')
        | gauge("gpu_utilization_ratio", load)
    )


LIMITED = (
    fires("GpuPerformanceLimited", "300 of 700 W", "40m", slow(limit="300x60") | HELD),
    fires("GpuPerformanceLimited", "345 MHz under load", "40m", slow(clock="345000000x60")),
    fires(
        "GpuPerformanceLimited",
        "345 MHz under load, without the power that the work would take",
        "40m",
        slow(clock="345000000x60") | gauge("gpu_power_watts", "110x60"),
    ),
    fires(
        "GpuPerformanceLimited",
        "345 MHz under load that comes in bursts",
        "40m",
        slow(clock="345000000x60", load=" ".join(["0.98 0.98 0.2"] * 20)),
    ),
    silent(
        "GpuPerformanceLimited",
        "bursts at the highest clock, which falls between them",
        "40m",
        slow(clock=" ".join(["1980000000 1980000000 345000000"] * 20), load=" ".join(["0.98 0.98 0.2"] * 20)),
    ),
    silent(
        "GpuPerformanceLimited",
        "a card of few watts, whose work comes in bursts that take all of them",
        "40m",
        slow(clock="860000000x60", load=" ".join(["0.98 0.98 0.2"] * 20))
        | gauge("gpu_power_watts", " ".join(["698 698 150"] * 20)),
    ),
    fires(
        "GpuPerformanceLimited",
        "345 MHz under load that takes most of its power",
        "40m",
        slow(clock="345000000x60") | gauge("gpu_power_watts", "600x60"),
    ),
    fires(
        "GpuPerformanceLimited",
        "345 MHz under load that takes all that a cap leaves",
        "40m",
        slow(limit="500x60", clock="345000000x60") | gauge("gpu_power_watts", "498x60"),
    ),
    silent(
        "GpuPerformanceLimited",
        "a card of few watts, whose work takes all of them",
        "40m",
        slow(clock="860000000x60") | gauge("gpu_power_watts", "698x60"),
    ),
    silent("GpuPerformanceLimited", "345 MHz at rest", "40m", slow(clock="345000000x60", load="0x60")),
    silent("GpuPerformanceLimited", "a cap of 500 W", "40m", slow(limit="500x60")),
    silent("GpuPerformanceLimited", "as it should be", "40m", slow()),
)

CASES: tuple[Case, ...] = (*LIMITED, *THERMAL, *POWER_BRAKE, *TEMPERATURE, *FAN)
