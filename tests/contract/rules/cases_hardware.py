"""Cases of the alerts about GPUs."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, NODE, OTHER, OWNER, Case, fires, silent
from tests.contract.rules.cases_workload import share, xid

HELD = share(OWNER, "1x200")


def throttled(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttled_seconds_total{{{DEV},reason="{reason}"}}': values}


def active(reason: str, values: str) -> dict[str, str]:
    return {f'gpu_throttle_active{{{DEV},reason="{reason}"}}': values}


def gauge(name: str, values: str, dev: str = DEV, more: str = "") -> dict[str, str]:
    return {f"{name}{{{dev}{more}}}": values}


THERMAL = (
    fires(
        "GpuThermalThrottling",
        "a third of the time, by the driver's counters",
        "30m",
        throttled("sw_thermal", "0+20x40") | throttled("hw_thermal", "0+2x40") | HELD | share(JOB, "0.5x200"),
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
    fires("GpuTemperatureMarginLow", "margin from the driver", "30m", gauge("gpu_temperature_margin_celsius", "2x40")),
    fires(
        "GpuTemperatureMarginLow",
        "margin from the threshold",
        "30m",
        gauge("gpu_temperature_celsius", "86x40", more=',sensor="gpu"')
        | gauge("gpu_temperature_threshold_celsius", "87x40", more=',threshold="slowdown"'),
    ),
    fires(
        "GpuTemperatureMarginLow",
        "stays on for a while after it ended",
        "35m",
        gauge("gpu_temperature_margin_celsius", "2x30 9x30"),
    ),
    silent("GpuTemperatureMarginLow", "warm", "30m", gauge("gpu_temperature_margin_celsius", "8x40")),
    silent(
        "GpuTemperatureMarginLow", "a short peak", "25m", gauge("gpu_temperature_margin_celsius", "12x20 2x6 12x20")
    ),
    silent(
        "GpuTemperatureMarginLow",
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
        "GpuFanFailed",
        "stands still while hot",
        "20m",
        gauge("gpu_fan_speed_ratio", "0x30", more=_FAN)
        | gauge("gpu_fan_speed_rpm", "0x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    fires(
        "GpuFanFailed",
        "a card that tells the share alone",
        "20m",
        gauge("gpu_fan_speed_ratio", "0x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuFanFailed",
        "turns while hot",
        "20m",
        gauge("gpu_fan_speed_ratio", "0.8x30", more=_FAN)
        | gauge("gpu_fan_speed_rpm", "4000x30", more=_FAN)
        | gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuFanFailed",
        "starts a moment after it got hot",
        "13m 20m",
        gauge("gpu_fan_speed_rpm", "0x13 3000x20", more=_FAN)
        | gauge("gpu_temperature_celsius", "60x10 82x20", more=',sensor="gpu"'),
    ),
    silent(
        "GpuFanFailed",
        "stopped because the card is cool",
        "20m",
        gauge("gpu_fan_speed_rpm", "0x30", more=_FAN) | gauge("gpu_temperature_celsius", "41x30", more=',sensor="gpu"'),
    ),
    silent(
        "GpuFanFailed",
        "a hot card without fans",
        "20m",
        gauge("gpu_temperature_celsius", "82x30", more=',sensor="gpu"'),
    ),
)
XID = (
    fires(
        "GpuXidHardware",
        "the first of a counter made at 0",
        "22m",
        xid(79, "restart_bm", "0x20 1x30", "_x20 1200x30") | HELD,
    ),
    fires("GpuXidHardware", "a counter born at 1", "22m", xid(95, "reset_gpu", "_x20 1x30", "_x20 1200x30") | HELD),
    fires(
        "GpuXidHardware", "the node's clock is an hour behind", "22m", xid(64, "reset_gpu", "0x20 1x30", "_x20 0x30")
    ),
    silent("GpuXidHardware", "of a program", "22m", xid(31, "restart_app", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidHardware", "that may be ignored", "22m", xid(43, "ignore", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidHardware", "hours ago", "95m", xid(79, "restart_bm", "0x20 1x90", "_x20 1200x90")),
    silent(
        "GpuXidHardware",
        "the exporter restarts and counts from 0",
        "32m",
        xid(79, "restart_bm", "3x30 0x30", "0x30 _x30"),
    ),
    silent(
        "GpuXidHardware",
        "a node that comes back with an old error on its counter",
        "182m",
        xid(79, "restart_bm", "1x20 _x160 1x30", "0x20 _x160 0x30"),
    ),
    fires("GpuXidWorkflow", "NVLink", "22m", xid(74, "workflow", "_x20 1x30", "_x20 1200x30") | HELD),
    fires(
        "GpuXidWorkflow",
        "one that needs the vendor",
        "22m",
        xid(61, "contact_support", "_x20 1x30", "_x20 1200x30"),
    ),
    silent("GpuXidWorkflow", "a program was killed", "22m", xid(45, "workflow", "0x20 1x30", "_x20 1200x30")),
    fires("GpuXidWorkflow", "not in the catalogue", "22m", xid(999, "unknown", "_x20 1x30", "_x20 1200x30")),
    silent("GpuXidWorkflow", "of the hardware", "22m", xid(79, "restart_bm", "0x20 1x30", "_x20 1200x30")),
    silent("GpuXidWorkflow", "hours ago", "95m", xid(74, "workflow", "_x20 1x90", "_x20 1200x90")),
)
_UNCORRECTED, _CORRECTED = ',type="uncorrected"', ',type="corrected"'
MEMORY = (
    fires("GpuEccUncorrectable", "one", "22m", gauge("gpu_ecc_errors_total", "0x20 1x30", more=_UNCORRECTED) | HELD),
    fires(
        "GpuEccUncorrectable", "there before Prometheus", "2m", gauge("gpu_ecc_errors_total", "2x30", more=_UNCORRECTED)
    ),
    silent("GpuEccUncorrectable", "corrected ones", "22m", gauge("gpu_ecc_errors_total", "0+5x30", more=_CORRECTED)),
    silent(
        "GpuEccUncorrectable",
        "gone after a reset",
        "25m",
        gauge("gpu_ecc_errors_total", "1x20 0x30", more=_UNCORRECTED),
    ),
    silent(
        "GpuEccUncorrectable",
        "in an earlier life of the card",
        "22m",
        gauge("gpu_ecc_lifetime_errors_total", "7x30", more=_UNCORRECTED)
        | gauge("gpu_ecc_errors_total", "0x30", more=_UNCORRECTED),
    ),
    fires("GpuEccSramThreshold", "over", "20m", gauge("gpu_ecc_sram_threshold_exceeded", "0x10 1x30")),
    silent("GpuEccSramThreshold", "not over", "20m", gauge("gpu_ecc_sram_threshold_exceeded", "0x30")),
    fires("GpuRowRemapPending", "rows", "40m", gauge("gpu_row_remap_pending", "0x10 1x50") | HELD),
    fires("GpuRowRemapPending", "pages of an older card", "40m", gauge("gpu_retired_pages_pending", "0x10 1x50")),
    silent("GpuRowRemapPending", "done by a reset at once", "14m 30m", gauge("gpu_row_remap_pending", "0x10 1x5 0x50")),
    silent(
        "GpuRowRemapPending",
        "rows remapped long ago",
        "40m",
        gauge("gpu_remapped_rows_total", "3x50") | gauge("gpu_row_remap_pending", "0x50"),
    ),
    fires("GpuRowRemapFailed", "failed", "20m", gauge("gpu_row_remap_failed", "0x10 1x30")),
    silent(
        "GpuRowRemapFailed",
        "pending only",
        "20m",
        gauge("gpu_row_remap_failed", "0x30") | gauge("gpu_row_remap_pending", "1x30"),
    ),
    fires("GpuMemoryLeaked", "twenty GiB", "40m", gauge("gpu_memory_unattributed_bytes", "0x10 21474836480x50")),
    silent("GpuMemoryLeaked", "the driver's own", "40m", gauge("gpu_memory_unattributed_bytes", "600000000x50")),
    silent(
        "GpuMemoryLeaked",
        "a process that is just ending",
        "14m 25m",
        gauge("gpu_memory_unattributed_bytes", "0x10 21474836480x5 0x50"),
    ),
)
RECOVERY = (
    fires(
        "GpuRecoveryActionNeeded",
        "a reset",
        "20m",
        gauge("gpu_recovery_action", "1x10 _x20", more=',action="none"')
        | gauge("gpu_recovery_action", "_x10 1x20", more=',action="gpu_reset"')
        | HELD,
    ),
    silent("GpuRecoveryActionNeeded", "none", "20m", gauge("gpu_recovery_action", "1x30", more=',action="none"')),
)


def devices(driver: str, pci: str) -> dict[str, str]:
    return {f'gpu_devices{{{NODE},source="driver"}}': driver, f'gpu_devices{{{NODE},source="pci"}}': pci}


LOST = (
    fires(
        "GpuLost",
        "one that was there does not answer",
        "20m",
        gauge("gpu_up", "1x10 0x20") | gauge("gpu_up", "1x30", OTHER) | devices("2x10 1x20", "2x30") | HELD,
    ),
    fires(
        "GpuLost",
        "the driver never saw it",
        "20m",
        gauge("gpu_up", "1x30") | devices("7x30", "8x30") | {f"gpu_workload_gpus{{{NODE},{OWNER}}}": "4x30"},
    ),
    fires("GpuLost", "gone from the bus after a restart", "40m", devices("8x10 _x10 7x30", "8x10 _x10 7x30")),
    fires("GpuLost", "all of them", "20m", devices("8x10 0x20", "8x30")),
    silent(
        "GpuLost",
        "the driver itself is gone",
        "20m",
        gauge("gpu_up", "1x10 0x20")
        | devices("8x10 _x20", "8x30")
        | {f'gpu_exporter_driver_error{{{NODE},error="DRIVER_NOT_LOADED"}}': "_x10 1x20"},
    ),
    silent("GpuLost", "all there", "20m", gauge("gpu_up", "1x30") | devices("8x30", "8x30")),
    silent("GpuLost", "a reset of two minutes", "11m 14m 25m", gauge("gpu_up", "1x10 0x2 1x20")),
    silent(
        "GpuLost",
        "the node restarts whole",
        "15m 30m",
        gauge("gpu_up", "1x10 _x8 1x20") | devices("8x10 _x8 8x20", "8x10 _x8 8x20"),
    ),
    silent("GpuLost", "a GPU was added", "30m", devices("7x10 8x30", "7x10 8x30")),
    silent("GpuLost", "taken out for good, yesterday", "400m", devices("8x10 7x400", "8x10 7x400")),
)


def links(dev: str, *values: str) -> dict[str, str]:
    return {f'gpu_nvlink_link_up{{{dev},link="{number}"}}': text for number, text in enumerate(values)}


def _errors(kind: str, values: str) -> dict[str, str]:
    return gauge("gpu_nvlink_errors_total", values, more=f',type="{kind}"')


LINKS = (
    fires("GpuNvlinkDown", "one of three goes down", "60m", links(DEV, "1x90", "1x90", "1x30 0x60") | HELD),
    fires("GpuNvlinkDown", "all go down", "60m", links(DEV, "1x30 0x60", "1x30 0x60")),
    fires(
        "GpuNvlinkDown",
        "fewer than the neighbour since the start",
        "60m",
        links(DEV, "1x90", "0x90") | links(OTHER, "1x90", "1x90"),
    ),
    silent("GpuNvlinkDown", "never bridged", "60m", links(DEV, "0x90", "0x90")),
    silent(
        "GpuNvlinkDown",
        "never bridged, next to bridged ones",
        "60m",
        links(DEV, "0x90", "0x90") | links(OTHER, "1x90", "1x90"),
    ),
    silent("GpuNvlinkDown", "down during a reset", "33m 45m", links(DEV, "1x30 0x4 1x60", "1x30 0x4 1x60")),
    fires("GpuNvlinkErrors", "replays", "60m", _errors("replay", "0+20x90") | HELD),
    silent("GpuNvlinkErrors", "corrected bits", "60m", _errors("crc_flit", "0+20x90") | _errors("replay", "0x90")),
    silent("GpuNvlinkErrors", "a burst at the training of the link", "35m 45m", _errors("replay", "0x30 60x60")),
    fires(
        "GpuFabricUnhealthy",
        "a route",
        "20m",
        gauge("gpu_fabric_unhealthy", "0x10 1x20", more=',check="route_unhealthy"'),
    ),
    silent(
        "GpuFabricUnhealthy",
        "while it is being set up",
        "13m 20m",
        gauge("gpu_fabric_unhealthy", "0x10 1x4 0x20", more=',check="route_unhealthy"'),
    ),
    silent(
        "GpuFabricUnhealthy", "healthy", "20m", gauge("gpu_fabric_unhealthy", "0x30", more=',check="route_unhealthy"')
    ),
)


def pcie(width: str, generation: str, busy: str) -> dict[str, str]:
    return (
        gauge("gpu_pcie_link_width", width)
        | gauge("gpu_pcie_link_max_width", "16x90")
        | gauge("gpu_pcie_link_generation", generation)
        | gauge("gpu_pcie_link_max_generation", "5x90")
        | gauge("gpu_busy_seconds_total", busy)
    )


PCIE = (
    fires("GpuPcieDegraded", "half the width", "60m", pcie("16x20 8x70", "1x90", "0x90") | HELD),
    fires("GpuPcieDegraded", "a low generation under load", "60m", pcie("16x90", "3x90", "0+54x90")),
    silent("GpuPcieDegraded", "a low generation at rest", "60m", pcie("16x90", "1x90", "0+1x90")),
    silent("GpuPcieDegraded", "as it should be", "60m", pcie("16x90", "5x90", "0+60x90")),
    silent("GpuPcieDegraded", "a moment of retraining", "35m 45m", pcie("16x30 8x5 16x60", "5x90", "0+60x90")),
    fires("GpuPcieReplays", "one a second", "60m", gauge("gpu_pcie_replays_total", "0+60x90")),
    silent("GpuPcieReplays", "one an hour", "60m 75m", gauge("gpu_pcie_replays_total", "0x20 1x60 2x20")),
    silent("GpuPcieReplays", "a reset counter", "60m", gauge("gpu_pcie_replays_total", "9000x30 0x60")),
)

CASES: tuple[Case, ...] = (
    *THERMAL,
    *POWER_BRAKE,
    *TEMPERATURE,
    *FAN,
    *XID,
    *MEMORY,
    *RECOVERY,
    *LOST,
    *LINKS,
    *PCIE,
)
