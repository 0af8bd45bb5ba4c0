"""Cases of the alerts about NVLink and PCIe."""

from __future__ import annotations

from tests.contract.rules.case import DEV, Case, fires, silent
from tests.contract.rules.series import ALLOCATED, finding, gauge


def links(dev: str, values: str) -> dict[str, str]:
    return gauge("gpu_nvlink_links_up", values, dev)


_DOWN = ',fault="nvlink_down",evidence="2 of 2 links down",action="inspect"'


def down(evidence: str, values: str) -> dict[str, str]:
    more = f',fault="nvlink_down",evidence="{evidence} links down",action="inspect"'
    return links(DEV, values) | gauge("gpu_fault_timestamp_seconds", "600x1500", more=more)


def _errors(kind: str, values: str) -> dict[str, str]:
    return gauge("gpu_nvlink_errors_total", values, more=f',type="{kind}"')


LINKS = (
    fires(
        "GpuNvlinkFabricDegraded",
        "every GPU loses two links for a week",
        "1500m",
        down("2 of 18", "16x1500") | ALLOCATED,
    ),
    fires("GpuNvlinkFabricDegraded", "all 18 links of a GPU, for a week", "1500m", down("18 of 18", "0x1500")),
    silent(
        "GpuNvlinkFabricDegraded",
        "down during a reset",
        "33m 45m",
        links(DEV, "2x30 0x4 2x60") | gauge("gpu_fault_timestamp_seconds", "_x30 1800x5 stale", more=_DOWN),
    ),
    fires("GpuNvlinkFabricDegraded", "replays", "60m", _errors("replay", "0+20x90") | ALLOCATED),
    silent("GpuNvlinkFabricDegraded", "bits", "60m", _errors("crc_flit", "0+20x90") | _errors("replay", "0x90")),
    silent("GpuNvlinkFabricDegraded", "a burst at the training of a link", "35m 45m", _errors("replay", "0x30 60x60")),
    fires("GpuNvlinkFabricDegraded", "a route", "25m", finding("fabric_route", "_x10 1x20")),
    fires("GpuNvlinkFabricDegraded", "many repeated transfers", "25m", finding("nvlink_errors", "_x10 1x20")),
    fires("GpuNvlinkFabricDegraded", "it never joins", "60m", finding("fabric_state", "1x60", severity="failed")),
    silent("GpuNvlinkFabricDegraded", "while it is being set up", "13m 20m", finding("fabric_state", "_x10 1x4 stale")),
    silent("GpuNvlinkFabricDegraded", "another finding", "20m", finding("hw_thermal", "1x30")),
)


def pcie(kind: str, evidence: str, values: str) -> dict[str, str]:
    more = f',fault="{kind}",evidence="{evidence}",action="inspect"'
    return gauge("gpu_fault_timestamp_seconds", values, more=more)


PCIE = (
    fires(
        "GpuPcieDegraded", "half the width", "60m", pcie("pcie_width", "8 of 16 PCIe lanes", "_x20 1200x70") | ALLOCATED
    ),
    fires(
        "GpuPcieDegraded",
        "a low generation under load",
        "60m",
        pcie("pcie_generation", "PCIe generation 2 of 5 under load", "600x90"),
    ),
    silent(
        "GpuPcieDegraded",
        "a moment of retraining",
        "35m 45m",
        pcie("pcie_width", "8 of 16 PCIe lanes", "_x30 1800x5 stale"),
    ),
    fires("GpuPcieDegraded", "one a second", "60m", gauge("gpu_pcie_replays_total", "0+60x90")),
    silent("GpuPcieDegraded", "one an hour", "60m 75m", gauge("gpu_pcie_replays_total", "0x20 1x60 2x20")),
    silent("GpuPcieDegraded", "a reset counter", "60m", gauge("gpu_pcie_replays_total", "9000x30 0x60")),
)


CASES: tuple[Case, ...] = (*LINKS, *PCIE)
