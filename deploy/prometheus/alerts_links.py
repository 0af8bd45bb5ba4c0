"""Alerts to on-call about the links of a GPU: NVLink, its fabric, and PCIe."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT

_GPU = "(cluster, instance, gpu, uuid)"
_DEVICE = "(cluster, instance, uuid)"


def of_model(expr: str) -> str:
    """What is asked of GPUs, with their model."""
    return f"""\
({expr}
  * on (cluster, instance, uuid) group_left (model)
  max by (cluster, instance, uuid, model) (topk by (cluster, instance, uuid) (1, gpu_info)))"""


_MODEL = "(cluster, instance, model)"
_LINKS = of_model("gpu_nvlink_links_up")

FABRIC = Alert(
    name="GpuFabricUnhealthy",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="gpu_fabric_unhealthy == 1",
    for_="5m",
    keep_firing_for="10m",
    summary=f"The NVLink fabric of {GPU} is unhealthy",
    description=f"{GPU} reports {{{{ reReplaceAll `_` ` ` $labels.check }}}} of its NVLink fabric. "
    f"Look at the fabric manager's log. {HIT}",
)

NVLINK = Alert(
    name="GpuNvlinkDown",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # What the GPU has had, the exporter remembers; the second half is for links that were down from the start. Other
    # models have other numbers of links.
    expr=f"""\
gpu_nvlink_links_up and on {_DEVICE} gpu_fault_timestamp_seconds{{fault="nvlink_down"}}
or
gpu_nvlink_links_up and on {_DEVICE}
(
  ({_LINKS} > 0)
  < on {_MODEL} group_left () max by {_MODEL} {_LINKS}
)""",
    for_="10m",
    keep_firing_for="10m",
    summary=f"{GPU} has lost NVLink links",
    description=f"{GPU} has {{{{ $value }}}} NVLink link(s) up, fewer than before or than others of its model here. "
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
    # An idle GPU lowers the generation to save power; the width it never gives up by itself.
    expr=f"""\
gpu_pcie_link_width < gpu_pcie_link_max_width
or
(
  gpu_pcie_link_generation < gpu_pcie_link_max_generation
  and on {_GPU} rate(gpu_busy_seconds_total[5m]) > <load>
)""",
    for_="15m",
    keep_firing_for="30m",
    params=(Param("load", 0.5, Unit.RATIO, "Utilization above which the generation must be the highest."),),
    summary=f"{GPU} has a degraded PCIe link",
    description=f"The PCIe link of {GPU} runs at {{{{ $value }}}} (width or generation), below what card and slot can. "
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
