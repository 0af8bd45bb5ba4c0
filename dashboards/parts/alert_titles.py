"""Texts of alerts: the sentence of what each means in tables, and a title of a few words for the rows of a graph."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.parts.style import words
from deploy.prometheus.render import ALERTS

TITLES = {
    "GpuUnderutilized": "Uses little of its GPU time",
    "GpuAllocatedIdle": "Leaves GPUs idle",
    "GpuOwnerWaste": "Wastes GPU hours",
    "GpuXidApplication": "Program raised an XID",
    "GpuWorkloadMemoryNearLimit": "Near its memory limit",
    "GpuStraggler": "Waits for a slow rank",
    "GpuWorkloadHung": "Hangs",
    "GpuUnallocatedUse": "Uses a GPU unallocated",
    "GpuThermalThrottling": "GPU overheats",
    "GpuPowerBrake": "Power brake slows the GPU",
    "GpuXidWorkflow": "GPU reported an XID",
    "GpuRecoveryActionNeeded": "GPU needs reset or RMA",
    "GpuResetPending": "GPU needs a reset when idle",
    "GpuLost": "GPU lost",
    "GpuNvlinkFabricDegraded": "NVLink degraded",
    "GpuPcieDegraded": "PCIe link degraded",
    "GpuMemoryLeaked": "GPU memory leaked",
    "GpuMemoryWearing": "GPU memory wears out",
    "GpuEccDisabled": "ECC switched off",
    "GpuPerformanceLimited": "GPU is slow: limit or clock",
    "GpuNvswitchError": "Fatal NVSwitch error",
    "GpuNetworkPortDegraded": "Network port degraded",
    "GpuIncidentNode": "Part of an incident",
    "GpuIncident": "Many nodes fail at once",
    "GpuNodeWithoutExporter": "GPUs, and no exporter",
    "GpuSampleStale": "Readings stale or with gaps",
    "GpuDriverUnavailable": "GPU driver does not open",
    "GpuDriverSkew": "Several driver versions",
    "GpuSourceFailing": "A data source fails",
    "GpuExporterSimulated": "Simulated GPUs",
    "GpuNodeMaintenance": "In maintenance",
    "GpuExportersDown": "Many exporters are down",
    "GpuExporterDown": "Node or exporter is down",
    "GpuTargetsGone": "Exporters left discovery",
    "GpuDeviceDuplicated": "Scraped more than once",
    "GpuWatchdog": "Alerts are evaluated",
}


def meanings() -> list[model.ValueMapping]:
    """Return the sentences by the alert's name; the text keeps the colour of the row."""
    return words({alert.name: (alert.meaning, "text") for alert in ALERTS})


def runbooks() -> list[model.ValueMapping]:
    """Return the links by the label `runbook`: the cell is a link."""
    return words({name.lower(): ("Runbook", "text") for name in TITLES})
