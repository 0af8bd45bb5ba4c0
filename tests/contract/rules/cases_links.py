"""Cases of the alerts about NVLink and PCIe."""

from __future__ import annotations

from tests.contract.rules.case import DEV, OTHER, Case, fires, silent
from tests.contract.rules.series import HELD, gauge


def links(dev: str, values: str) -> dict[str, str]:
    return gauge("gpu_nvlink_links_up", values, dev)


def model(dev: str, name: str) -> dict[str, str]:
    return gauge("gpu_info", "1x90", dev, f',model="{name}"')


_DOWN = ',fault="nvlink_down",evidence="2 of 2 links down",action="inspect"'


def down(evidence: str, values: str) -> dict[str, str]:
    more = f',fault="nvlink_down",evidence="{evidence} links down",action="inspect"'
    return links(DEV, values) | gauge("gpu_fault_timestamp_seconds", "600x1500", more=more)


def _errors(kind: str, values: str) -> dict[str, str]:
    return gauge("gpu_nvlink_errors_total", values, more=f',type="{kind}"')


LINKS = (
    fires("GpuNvlinkDegraded", "every GPU loses two links, for a week", "1500m", down("2 of 18", "16x1500") | HELD),
    fires("GpuNvlinkDegraded", "all 18 links of a GPU, for a week", "1500m", down("18 of 18", "0x1500")),
    fires(
        "GpuNvlinkDegraded",
        "fewer than the neighbour since the start",
        "60m",
        links(DEV, "1x90") | links(OTHER, "2x90") | model(DEV, "H100") | model(OTHER, "H100"),
    ),
    silent(
        "GpuNvlinkDegraded",
        "fewer than a neighbour of another model",
        "60m",
        links(DEV, "4x90") | links(OTHER, "12x90") | model(DEV, "A40") | model(OTHER, "A100"),
    ),
    silent("GpuNvlinkDegraded", "never bridged", "60m", links(DEV, "0x90")),
    silent(
        "GpuNvlinkDegraded",
        "never bridged, next to bridged ones",
        "60m",
        links(DEV, "0x90") | links(OTHER, "2x90") | model(DEV, "H100") | model(OTHER, "H100"),
    ),
    silent(
        "GpuNvlinkDegraded",
        "down during a reset",
        "33m 45m",
        links(DEV, "2x30 0x4 2x60") | gauge("gpu_fault_timestamp_seconds", "_x30 1800x5 stale", more=_DOWN),
    ),
    fires("GpuNvlinkDegraded", "replays", "60m", _errors("replay", "0+20x90") | HELD),
    silent("GpuNvlinkDegraded", "corrected bits", "60m", _errors("crc_flit", "0+20x90") | _errors("replay", "0x90")),
    silent("GpuNvlinkDegraded", "a burst at the training of the link", "35m 45m", _errors("replay", "0x30 60x60")),
    fires(
        "GpuNvlinkDegraded",
        "a route",
        "25m",
        gauge("gpu_fabric_unhealthy", "0x10 1x20", more=',check="route_unhealthy"'),
    ),
    silent(
        "GpuNvlinkDegraded",
        "while it is being set up",
        "13m 20m",
        gauge("gpu_fabric_unhealthy", "0x10 1x4 0x20", more=',check="route_unhealthy"'),
    ),
    silent(
        "GpuNvlinkDegraded", "healthy", "20m", gauge("gpu_fabric_unhealthy", "0x30", more=',check="route_unhealthy"')
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
    fires("GpuPcieDegraded", "one a second", "60m", gauge("gpu_pcie_replays_total", "0+60x90")),
    silent("GpuPcieDegraded", "one an hour", "60m 75m", gauge("gpu_pcie_replays_total", "0x20 1x60 2x20")),
    silent("GpuPcieDegraded", "a reset counter", "60m", gauge("gpu_pcie_replays_total", "9000x30 0x60")),
)


CASES: tuple[Case, ...] = (*LINKS, *PCIE)
