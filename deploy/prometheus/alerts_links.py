"""Alerts to on-call about the links of a GPU: NVLink, its fabric, and PCIe."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT


def of_model(expr: str) -> str:
    """What is asked of GPUs, with their model."""
    return f"""\
({expr}
  * on (cluster, instance, uuid) group_left (model)
  max by (cluster, instance, uuid, model) (topk by (cluster, instance, uuid) (1, gpu_info)))"""


FABRIC = Alert(
    name="GpuFabricUnhealthy",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr='gpu_finding{finding=~"fabric_.*"}',
    for_="5m",
    keep_firing_for="10m",
    summary=f"The NVLink fabric of {GPU} is unhealthy",
    description=f"{GPU} reports {{{{ reReplaceAll `_` ` ` $labels.finding }}}} of its NVLink fabric. "
    f"Look at the fabric manager's log. {HIT}",
)

NVLINK = Alert(
    name="GpuNvlinkDown",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # The exporter compares with the best that the GPU ever showed, else with its neighbours.
    expr='gpu_fault_timestamp_seconds{fault="nvlink_down"}',
    for_="10m",
    keep_firing_for="10m",
    summary=f"{GPU} has lost NVLink links",
    description=f"{GPU}: {{{{ $labels.evidence }}}}, since {{{{ $value | humanizeTimestamp }}}}. "
    f"Jobs over several GPUs slow down or hang. {HIT}",
)
NVLINK_ERRORS = Alert(
    name="GpuNvlinkErrors",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr='sum without (type) (rate(gpu_nvlink_errors_total{type=~"replay|recovery|link_recovery"}[<window>])) > <rate>',
    for_="15m",
    keep_firing_for="30m",
    params=(
        Param("rate", 0.1, Unit.PER_SECOND, "Replays and recoveries a second."),
        Param("window", "15m", Unit.DURATION, "Time the rate is taken over."),
    ),
    summary=f"NVLink of {GPU} has errors",
    description=f"{GPU} repeats NVLink transfers {{{{ printf `%.2f` $value }}}} times a second. "
    f"Look at bridges, cables and seating. {HIT}",
)
PCIE = Alert(
    name="GpuPcieDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # The exporter compares with the best that the GPU ever showed, else with its neighbours.
    expr='gpu_fault_timestamp_seconds{fault=~"pcie_.*"}',
    for_="15m",
    keep_firing_for="30m",
    summary=f"{GPU} has a degraded PCIe link",
    description=f"{GPU}: {{{{ $labels.evidence }}}}, since {{{{ $value | humanizeTimestamp }}}}. "
    f"Transfers from the host are slow. Reseat the card, or replace riser and cable. {HIT}",
)
PCIE_REPLAYS = Alert(
    name="GpuPcieReplays",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="rate(gpu_pcie_replays_total[<window>]) > <rate>",
    for_="15m",
    keep_firing_for="30m",
    params=(
        Param("rate", 0.2, Unit.PER_SECOND, "Replays a second."),
        Param("window", "15m", Unit.DURATION, "Time the rate is taken over."),
    ),
    summary=f"PCIe of {GPU} has errors",
    description=f"{GPU} repeats PCIe transfers {{{{ printf `%.2f` $value }}}} times a second. Reseat the card. {HIT}",
)

LINKS = (
    NVLINK,
    NVLINK_ERRORS,
    FABRIC,
    PCIE,
    PCIE_REPLAYS,
)
