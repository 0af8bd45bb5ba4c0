"""Recording rules of the levels that are made of GPUs: node, cluster and model."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import MODEL, NODE, WHOLE, by, once, record, summed
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.attribution.owner import OWNER_LABELS

_THERMAL = 'reason=~"sw_thermal|hw_thermal|thermal"'

COPIES = record(
    "node:gpu_exporter_copies:ratio",
    NODE,
    f"count {by(NODE)} (gpu_exporter_build_info)",
    "How many targets scrape the node's exporter: sums over its GPUs are divided by it.",
)


GPU_STATES = record(
    "gpu_state:gpu_time_seconds:rate5m",
    ("instance", "gpu", "uuid", "state"),
    once(("gpu", "uuid", "state"), "rate(gpu_time_seconds_total[5m]) > 0"),
    "Share of its time that each GPU spent in each state that took any.",
)
GPU_HEAT = record(
    "gpu:gpu_thermal_throttle:ratio_rate5m",
    ("instance", "gpu", "uuid"),
    once(("gpu", "uuid"), f"rate(gpu_throttled_seconds_total{{{_THERMAL}}}[5m])"),
    "Share of time that the clocks of each GPU were held down by heat, 0 to 1.",
)
_ONE_NODE = f" * on (cluster, instance) group_left (node) (topk by (cluster, instance) (1, {COPIES.record}) > bool 0)"
"""Adds the name of the node to what is recorded of its GPUs."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level made of GPUs. `join` adds labels that series of devices lack; `base` is a level to add up."""

    name: str
    labels: tuple[str, ...]
    join: str = ""
    base: str = ""

    def total(self, name: str, expr: str) -> str:
        """The sum of `expr` over the GPUs, however many targets scrape them."""
        if self.base:
            return summed(self.labels, f"{self.base}:{name}")
        if self.join:
            return summed(self.labels, once(("uuid",), expr) + self.join)
        return f"{summed(self.labels, expr)} / on (cluster, node, instance) group_left () {COPIES.record}"

    def of_gpus(self, operation: str, recorded: str, *more: str) -> str:
        """`operation` over what is recorded of each GPU."""
        if "instance" in self.labels:
            return f"{operation} {by(('instance', *more))} ({recorded}){_ONE_NODE}"
        return f"{operation} {by((*self.labels, *more))} ({recorded}{self.join})"


def device_count(level: Level) -> tuple[Recording, ...]:
    """How many GPUs there are."""
    return (
        record(
            f"{level.name}:gpu_up:count",
            level.labels,
            level.total("gpu_up:count", "gpu_up >= bool 0"),
            "GPUs the exporters know, answering or not.",
        ),
        record(f"{level.name}:gpu_up:sum", level.labels, level.total("gpu_up:sum", "gpu_up"), "GPUs that answer."),
    )


def device_states(level: Level) -> tuple[Recording, ...]:
    """What the GPUs of a level do."""
    labels, state = level.labels, f"{level.name}_state:gpu_time_seconds:rate5m"
    base = f"{level.base}_state:gpu_time_seconds:rate5m"
    whole = summed(labels, state)
    observed = summed(labels, f'{state}{{state!="unobserved"}}')
    used = summed(labels, f'{state}{{state=~"{regex(BUSY)}"}}') + f" or 0 * {observed}"
    lost = summed(labels, f'{state}{{state=~"{regex(LOST)}"}}')
    return (
        record(
            f"{level.name}:gpu_thermal_throttle:ratio_rate5m",
            labels,
            level.of_gpus("avg", GPU_HEAT.record),
            "Mean share of time the clocks were held down by heat, 0 to 1.",
        ),
        record(
            state,
            (*labels, "state"),
            summed((*labels, "state"), base) if level.base else level.of_gpus("sum", GPU_STATES.record, "state"),
            "The device ledger: GPUs' worth of time in each state that took any. Sums to the GPUs of the level.",
        ),
        record(
            f"{level.name}:gpu_utilization:ratio_rate5m",
            labels,
            f"({used}) / ({observed} > 0)",
            "Share of the observed time in which a kernel ran, 0 to 1; none where no GPU answers.",
        ),
        record(
            f"{level.name}:gpu_waste:rate5m",
            labels,
            f"{lost} or 0 * {whole}",
            "GPUs' worth of time that was held and lost (idle, waiting or throttled).",
        ),
    )


_LEVELS = (
    (
        "gpu_busy_seconds:rate5m",
        "rate(gpu_busy_seconds_total[5m])",
        "GPUs' worth of busy time: 3.5 is three and a half GPUs.",
    ),
    ("gpu_memory_used_bytes:sum", "gpu_memory_used_bytes", "Used GPU memory, bytes."),
    ("gpu_memory_total_bytes:sum", "gpu_memory_total_bytes", "GPU memory, bytes."),
    ("gpu_power_watts:sum", "gpu_power_watts", "Power drawn, watts."),
    ("gpu_energy_joules:rate5m", "rate(gpu_energy_joules_total[5m])", "Energy, joules per second."),
)


def device_load(level: Level) -> tuple[Recording, ...]:
    """Memory and power of a level."""
    return tuple(
        record(f"{level.name}:{name}", level.labels, level.total(name, expr), text) for name, expr, text in _LEVELS
    )


def allocation(level: str, labels: tuple[str, ...], base: str = "") -> tuple[Recording, ...]:
    held = f"{level}:gpu_workload_gpus:sum"
    total = (
        summed(labels, f"{base}:gpu_workload_gpus:sum")
        if base
        else f"{summed(labels, 'gpu_workload_gpus')} / {COPIES.record}"
    )
    return (
        record(
            held,
            labels,
            f"{total} or 0 * {level}:gpu_up:count",
            "GPUs held by workloads (parts of a GPU count as parts); 0 where nobody holds any.",
        ),
        record(
            f"{level}:gpu_free:sum",
            labels,
            f"clamp_min({level}:gpu_up:sum - {held}, 0)",
            "GPUs that answer and nobody holds.",
        ),
    )


def reasons(level: str, labels: tuple[str, ...], base: str = "") -> Recording:
    name = "gpu_throttled_seconds:rate5m"
    raw = summed((*labels, "reason"), "rate(gpu_throttled_seconds_total[5m])")
    total = f"{raw} / on (cluster, node, instance) group_left () {COPIES.record}"
    return record(
        f"{level}_reason:{name}",
        (*labels, "reason"),
        summed((*labels, "reason"), f"{base}_reason:{name}") if base else total,
        "GPUs' worth of time the clocks were held down, by reason. A software power cap is normal at full load.",
    )


INFO = record(
    "gpu:gpu_info:first",
    ("instance", "uuid", "model"),
    f"max {by(('instance', 'uuid', 'model'))} (topk {by(('instance', 'uuid'))} (1, gpu_info))",
    "1 for each GPU, with its model: one series per GPU however often it is scraped, so that joins with it hold.",
)
_OBSERVED, _BUSY = (
    summed(("instance", "uuid"), f"{GPU_STATES.record}{{{matcher}}}")
    for matcher in ('state!="unobserved"', f'state=~"{regex(BUSY)}"')
)
GPU_BUSY = record(
    "gpu:gpu_utilization:ratio_rate5m",
    ("instance", "uuid"),
    f"({_BUSY} or 0 * {summed(('instance', 'uuid'), INFO.record)}) / ({_OBSERVED} > 0)",
    "Share of the observed time in which a kernel ran on the GPU, 0 to 1; none while it does not answer.",
)
INFO_JOIN = f" * on (cluster, instance, uuid) group_left (model) {INFO.record}"
MODEL_SHARE = record(
    "model:gpu_owner_share:sum",
    MODEL,
    summed(MODEL, "workload_model:gpu_owner_share:sum"),
    "GPUs of the model that workloads hold (whole GPUs; MIG instances are not in it).",
)

WORKLOAD_MODELS = record(
    "workload_model:gpu_owner_share:sum",
    (*WHOLE, "model"),
    summed((*WHOLE, "model"), once(("uuid", *OWNER_LABELS), "gpu_owner_share") + INFO_JOIN),
    "GPUs held, by model: what prices multiply (whole GPUs; MIG instances are not in it).",
)


def _of_gpu(name: str, labels: tuple[str, ...], help: str) -> Recording:
    """Of the GPUs with any: on a fleet that is well, no series at all."""
    counted = once(("gpu", "uuid", *labels), f"rate({name}_total[5m]) > 0")
    return record(f"gpu:{name}:rate5m", ("instance", "gpu"), summed(("instance", "gpu"), counted), help)


LINK_ERRORS = (
    _of_gpu("gpu_nvlink_errors", ("type",), "NVLink errors per second, of GPUs that have any."),
    _of_gpu("gpu_pcie_replays", (), "PCIe packets sent again per second, of GPUs that have any."),
)
HEAT = (
    record(
        "node:gpu_temperature_celsius:max",
        NODE,
        f'max {by(NODE)} (gpu_temperature_celsius{{sensor="gpu"}})',
        "Temperature of the node's hottest GPU, degrees Celsius.",
    ),
    record(
        "node:gpu_temperature_margin_celsius:min",
        NODE,
        f"min {by(NODE)} (gpu_temperature_margin_celsius)",
        "Degrees the GPU closest to its own limit has left before it slows itself down.",
    ),
)
