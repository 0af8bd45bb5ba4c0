"""Alerts to on-call about the links of a GPU: NVLink, its fabric, and PCIe."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.recordings_alert import LINKS_MISSING
from deploy.prometheus.wording import GPU, HIT, of_gpu

_GPU = "(cluster, instance, gpu, uuid)"
_DEVICE = "(cluster, instance, uuid)"
_REPEATS = 'gpu_nvlink_errors_total{<gpu>type=~"replay|recovery|link_recovery"}'
_DOWN = of_gpu(
    'max(gpu_nvlink_links_up{<gpu>}) and on () (gpu_fault_timestamp_seconds{<gpu>,fault="nvlink_down"}'
    f" or {LINKS_MISSING.record}{{<gpu>}})",
    " It has {{ .Value }} NVLink link{{ if ne .Value 1.0 }}s{{ end }} up, fewer than before or than others of "
    "its model.",
)
_UNHEALTHY = of_gpu(
    "gpu_fabric_unhealthy{<gpu>} == 1", " It reports {{ reReplaceAll `_` ` ` .Labels.check }} of its NVLink fabric."
)
_REPEATED = of_gpu(
    f"max(sum without (type) (rate({_REPEATS.replace('<gpu>', '<gpu>,')}[<window>]))) > <max_errors_per_second>",
    " It repeats NVLink transfers {{ .Value | printf `%.2f` }} times a second.",
)

NVLINK = Alert(
    name="GpuNvlinkDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # What the GPU has had, the exporter remembers.
    expr=f"""\
max without (job, check, type) (
  gpu_nvlink_links_up and on {_DEVICE} gpu_fault_timestamp_seconds{{fault="nvlink_down"}}
  or gpu_nvlink_links_up and on {_DEVICE} {LINKS_MISSING.record}
  or gpu_fabric_unhealthy == 1
  or sum without (type) (rate({_REPEATS.replace("<gpu>", "")}[<window>])) > <max_errors_per_second>
)""",
    for_="10m",
    keep_firing_for="30m",
    params=(
        Param("max_errors_per_second", 0.1, Unit.PER_SECOND, "NVLink replays and recoveries a second."),
        Param("window", "15m", Unit.DURATION, "Time that rate is taken over."),
    ),
    meaning="NVLink of a GPU is degraded: links are down, its fabric is unhealthy, or transfers are repeated.",
    summary=f"{GPU} has degraded NVLink",
    description=f"{GPU} has degraded NVLink.{_DOWN}{_UNHEALTHY}{_REPEATED} Jobs over several GPUs slow down or "
    f"hang. Drain "
    f"the node and reset its GPUs; look at the fabric manager's log. {HIT}",
)
_NARROW = of_gpu(
    "max(gpu_pcie_link_width{<gpu>} < gpu_pcie_link_max_width{<gpu>})", " It runs with {{ .Value }} PCIe lanes."
)
_OLD = of_gpu(
    "max(gpu_pcie_link_generation{<gpu>} < gpu_pcie_link_max_generation{<gpu>})"
    " and on () max(rate(gpu_busy_seconds_total{<gpu>}[5m])) > <min_load_ratio>",
    " It runs at PCIe generation {{ .Value }}.",
)
_REPLAYED = of_gpu(
    "max(rate(gpu_pcie_replays_total{<gpu>}[<window>])) > <max_replays_per_second>",
    " It repeats PCIe transfers {{ .Value | printf `%.2f` }} times a second.",
)
PCIE = Alert(
    name="GpuPcieDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # An idle GPU lowers the generation to save power; the width it never gives up by itself.
    expr=f"""\
max without (job) (
  gpu_pcie_link_width < gpu_pcie_link_max_width
  or gpu_pcie_link_generation < gpu_pcie_link_max_generation\
 and on {_GPU} rate(gpu_busy_seconds_total[5m]) > <min_load_ratio>
  or rate(gpu_pcie_replays_total[<window>]) > <max_replays_per_second>
)""",
    for_="15m",
    keep_firing_for="30m",
    params=(
        Param("min_load_ratio", 0.5, Unit.RATIO, "Utilization above which the generation must be the highest."),
        Param("max_replays_per_second", 0.2, Unit.PER_SECOND, "PCIe replays a second."),
        Param("window", "15m", Unit.DURATION, "Time that rate is taken over."),
    ),
    meaning="The PCIe link of a GPU is degraded: fewer lanes, a lower generation, or repeated transfers.",
    summary=f"{GPU} has a degraded PCIe link",
    description=f"{GPU} has a degraded PCIe link.{_NARROW}{_OLD}{_REPLAYED} Transfers from the host are slow. "
    f"Restart the "
    f"node; if it stays, reseat the card, or replace riser and cable. {HIT}",
)

LINKS = (NVLINK, PCIE)
