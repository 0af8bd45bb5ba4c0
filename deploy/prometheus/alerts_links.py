"""Alerts to on-call about the links of a GPU: NVLink, its fabric, and PCIe."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT, by_value, first_step, of_gpu

_REPEATS = 'gpu_nvlink_errors_total{<gpu>type=~"replay|recovery|link_recovery"}'
_DOWN = of_gpu('gpu_fault_timestamp_seconds{<gpu>,fault="nvlink_down"}', " {{ .Labels.evidence }}.")
_FABRIC = {
    "fabric_state": "is not started",
    "fabric_join": "was not joined",
    "fabric_route": "has an unhealthy route",
    "fabric_configuration": "is configured wrongly",
    "fabric_bandwidth": "has less bandwidth",
    "fabric_recovery": "recovers a route",
    "fabric_timeout": "recovers from access time-outs",
    "fabric_cliques": "is another clique than that of the node's other GPUs",
}
_UNHEALTHY = of_gpu(
    'gpu_finding{<gpu>,finding=~"fabric_.*"}', f" Its NVLink fabric {by_value('.Labels.finding', _FABRIC)}."
)
_STEP = of_gpu(
    'gpu_finding{<gpu>,finding=~"fabric_state|fabric_configuration"}',
    f"{first_step('fabric_configuration')}.",
    otherwise=f"{first_step('nvlink_down')}.",
)
_REPEATED = of_gpu(
    f"max(sum without (type) (rate({_REPEATS.replace('<gpu>', '<gpu>,')}[<window>]))) > <max_errors_per_second>",
    " It repeats NVLink transfers {{ .Value | printf `%.2f` }} times a second.",
)

_COUNTED = of_gpu(
    'gpu_finding{<gpu>,finding="nvlink_errors"}',
    " It repeated more NVLink transfers than --check.link-errors since the driver was loaded.",
)

NVLINK = Alert(
    name="GpuNvlinkFabricDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # The exporter compares with the best that the GPU ever showed, else with its neighbours.
    expr=f"""\
max without (job, fault, evidence, action, finding, severity, type) (
  gpu_fault_timestamp_seconds{{fault="nvlink_down"}}
  or gpu_finding{{finding=~"fabric_.*|nvlink_errors"}}
  or sum without (type) (rate({_REPEATS.replace("<gpu>", "")}[<window>])) > <max_errors_per_second>
)""",
    for_="10m",
    keep_firing_for="30m",
    params=(
        Param("max_errors_per_second", 0.1, Unit.PER_SECOND, "NVLink replays and recoveries a second."),
        Param("window", "15m", Unit.DURATION, "Time that rate is taken over."),
    ),
    title="NVLink degraded",
    meaning="NVLink of a GPU has links down, an unhealthy fabric, or repeats transfers.",
    summary=f"{GPU} has a degraded NVLink fabric",
    description=f"{GPU} has a degraded NVLink fabric.{_DOWN}{_UNHEALTHY}{_REPEATED}{_COUNTED} Jobs over several GPUs "
    f"slow down or hang. {_STEP} {HIT}",
)
_NARROW = of_gpu('gpu_fault_timestamp_seconds{<gpu>,fault=~"pcie_.*"}', " It has {{ .Labels.evidence }}.")
_REPLAYED = of_gpu(
    "max(rate(gpu_pcie_replays_total{<gpu>}[<window>])) > <max_replays_per_second>",
    " It repeats PCIe transfers {{ .Value | printf `%.2f` }} times a second.",
)
PCIE = Alert(
    name="GpuPcieDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # The exporter compares with the best that the GPU ever showed, else with its neighbours.
    expr="""\
max without (job, fault, evidence, action) (
  gpu_fault_timestamp_seconds{fault=~"pcie_.*"}
  or rate(gpu_pcie_replays_total[<window>]) > <max_replays_per_second>
)""",
    for_="15m",
    keep_firing_for="30m",
    params=(
        Param("max_replays_per_second", 0.2, Unit.PER_SECOND, "PCIe replays a second."),
        Param("window", "15m", Unit.DURATION, "Time that rate is taken over."),
    ),
    title="PCIe link degraded",
    meaning="The PCIe link of a GPU has fewer lanes, a lower generation, or repeats transfers.",
    summary=f"{GPU} has a degraded PCIe link",
    description=f"{GPU} has a degraded PCIe link.{_NARROW}{_REPLAYED} Transfers from the host are slow. "
    f"{first_step('pcie_width')}. {HIT}",
)

LINKS = (NVLINK, PCIE)
